"""A model's files of one revision on the Hugging Face hub, from its local cache or fetched into it. Torch-free."""

from pathlib import Path

from search_spaces.catalogue.sources import Source
from trainers.hub import is_reachable

_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model"]
_CODE = ["*.py"]


class HubError(ValueError):
    """The hub's files are not to be had; the message says why and what to do."""


def fetched(source: Source, *, gguf_file: str | None, code: bool) -> Path:
    """The folder of a revision in the local cache, which is filled where the hub can be reached.

    Without a revision, the newest one: its folder is named by its commit.

    Raises:
        HubError: neither the cache nor the hub has it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, IncompleteSnapshotError, LocalEntryNotFoundError

    patterns = [gguf_file] if gguf_file else [*_PATTERNS, *(_CODE if code else [])]
    try:
        return Path(
            snapshot_download(
                source.location,
                revision=source.revision,
                allow_patterns=patterns,
                local_files_only=not is_reachable(),
            )
        )
    except IncompleteSnapshotError as error:
        raise HubError(f"its download was interrupted; {fetching_command(source)} where it can be reached") from error
    except LocalEntryNotFoundError as error:
        message = "it is not in the local Hugging Face cache and the hub cannot be reached"
        raise HubError(f"{message}; {fetching_command(source)} where the hub can be reached") from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise HubError(f"the hub did not give it: {error}") from error


def fetching_command(source: Source) -> str:
    """What to run to have the files in the local cache, as a part of a sentence."""
    return f"run `{fetch_command(source)}`"


def fetch_command(source: Source) -> str:
    """The command that fetches a revision into the local cache."""
    revision = f" --revision {source.revision}" if source.revision else ""
    return f"hf download {source.location}{revision}"


def was_interrupted(source: Source, folder: Path) -> bool:
    """Whether files of the source began to come and did not end: a snapshot's blobs lie two folders above it."""
    if source.scheme != "hf":
        return False
    blobs = [parent / "blobs" for parent in folder.parents if (parent / "snapshots").is_dir()]
    return any(any(place.glob("*.incomplete")) for place in blobs)
