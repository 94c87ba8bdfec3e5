"""Where a model's weights lie on this machine, and the hash of what they hold. Torch-free."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from search_spaces.catalogue.sources import Source, parse_source
from search_spaces.problems import InputError, Problem
from search_spaces.specs import WeightsSpec
from trainers.cache import cache_folder, remember
from trainers.packages import package_folder

# What defines a model besides its weights. Pickled weights are never read, and remote code never runs.
DEFINING_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "model.safetensors.index.json",
)
_HUB_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model"]


def locate(weights: WeightsSpec) -> Path:
    """The local folder that holds the model's config and safetensors, or the GGUF file; fetched where it is on a hub.

    Of a sentence-transformers folder the transformer's own folder is given; its other modules, such as Normalize, are
    not used.

    Raises:
        InputError: nothing is there, or nothing that is read safely; the message says what to do.
    """
    found = _source_path(weights, parse_source(weights.source))
    if weights.gguf_file is not None:
        file = found / weights.gguf_file
        if not file.is_file():
            raise _problem(weights, f"there is no file {weights.gguf_file} in {found}")
        return file
    folder = _transformer_folder(found)
    if not (folder / "config.json").is_file():
        raise _problem(weights, f"{folder} holds no config.json, so it is not a model folder")
    if not any(folder.glob("*.safetensors")):
        raise _problem(
            weights, f"{folder} holds no *.safetensors file; pickled weights are not read, convert them first"
        )
    return folder


def content_hash(weights: WeightsSpec) -> str:
    """SHA-256 (hex) of the files that define the model: weights, config, tokenizer. Independent of where they lie.

    Hashes of files are remembered in the cache folder by path, size and time of change.

    Raises:
        InputError: as `locate`.
    """
    digest = hashlib.sha256()
    for name, file in _defining_files(locate(weights)):
        digest.update(f"{name}\0{_file_hash(file)}\0".encode())
    return digest.hexdigest()


def _source_path(weights: WeightsSpec, source: Source) -> Path:
    if source.scheme == "path":
        path = Path(source.location)
    elif source.scheme == "package":
        path = _in_package(weights, source.location)
    elif source.scheme == "hf":
        path = _from_hub(weights, source)
    else:
        raise _problem(weights, f"a '{source.scheme}:' source holds no weights (write hf:, path: or package:)")
    if not path.is_dir():
        raise _problem(weights, f"there is no folder {path}")
    return path


def _in_package(weights: WeightsSpec, location: str) -> Path:
    try:
        return package_folder(location)
    except ValueError as error:
        raise _problem(weights, str(error)) from error


def _from_hub(weights: WeightsSpec, source: Source) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = [weights.gguf_file] if weights.gguf_file else _HUB_PATTERNS
    try:
        return Path(snapshot_download(source.location, revision=source.revision, allow_patterns=patterns))
    except LocalEntryNotFoundError as error:
        todo = f"run `hf download {source.location} --revision {source.revision}` where the hub can be reached"
        message = f"it is not in the local Hugging Face cache and the hub cannot be reached; {todo}"
        raise _problem(weights, message) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _problem(weights, f"the hub did not give it: {error}") from error


def _transformer_folder(folder: Path) -> Path:
    """The folder of the transformer in a sentence-transformers folder (`0_Transformer` in old ones), else `folder`."""
    modules = folder / "modules.json"
    if (folder / "config.json").is_file() or not modules.is_file():
        return folder
    paths = [module["path"] for module in json.loads(modules.read_bytes()) if module["type"].endswith(".Transformer")]
    return folder / paths[0] if paths else folder


def _defining_files(located: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of each file that defines the model, in a fixed order. A GGUF file holds all of it."""
    if located.is_file():
        yield "model.gguf", located
        return
    for file in sorted(located.glob("*.safetensors")):
        yield file.name, file
    for name in DEFINING_FILES:
        if (located / name).is_file():
            yield name, located / name


def _file_hash(file: Path) -> str:
    status = file.stat()
    key = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    remembered = cache_folder() / "file_hashes" / hashlib.sha256(key.encode()).hexdigest()
    if remembered.is_file():
        return remembered.read_text()
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    remember(remembered, found)
    return found


def _problem(weights: WeightsSpec, message: str) -> InputError:
    return InputError([Problem(where=weights.source, key="", message=message)])
