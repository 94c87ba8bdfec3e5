"""What is known of a run without reading its rows: whether the mirror of it can still be right."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.labels import RunLabels
from orchestrator.run_content import RunContent
from results.layout import Status
from results.store import Store

_PARTS = ("trials", "probes", "encodings", "judgements", "evaluations", "answers")  # what lies elsewhere is no row
Versions = Mapping[str, str]  # by key, of what is there


@dataclass(frozen=True, kw_only=True)
class RunOutline:
    """A trial or probe that has been started.

    Attributes:
        labels: its name, tags and parameters.
        status: as its record says.
        fingerprint: another one wherever anything that its content is made of was written anew.
        content: reads it whole; None where the trial is gone by then.
        checkpoint_hash: of its checkpoint, where it has one to keep.
    """

    labels: RunLabels
    status: Status
    fingerprint: str
    content: Callable[[], RunContent | None]
    checkpoint_hash: str | None = None


class Glance:
    """The versions of the keys of a sweep folder, asked for folder by folder, or `at_once` where all are looked at.

    What is read after the glance may be newer than it says: then the next one finds that out, and reads it again.
    """

    def __init__(self, store: Store, *, at_once: bool = False) -> None:
        self._store = store
        self._known: dict[str, dict[str, str]] | None = None
        if at_once:
            self._known = {}
            for part in _PARTS:
                for key, version in store.versions(part).items():
                    self._known.setdefault(_folder_of(key), {})[key] = version

    def of(self, keys: Iterable[str]) -> Versions:
        """Of these keys those that are there."""
        keys = list(dict.fromkeys(keys))
        found = {key: version for folder in set(map(_folder_of, keys)) for key, version in self.under(folder).items()}
        return {key: found[key] for key in keys if key in found}

    def under(self, folder: str) -> Versions:
        """Of all keys in the folder of one trial, probe, encoding or evaluation, or in one that has no such parts."""
        return self._store.versions(folder) if self._known is None else self._known.get(folder, {})


def _folder_of(key: str) -> str:
    """'trials/ID' of 'trials/ID/spec.json', 'judgements' of 'judgements/HASH.parquet'."""
    return "/".join(key.split("/")[:-1][:2])


def fingerprint(versions: Versions, *told: object) -> str:
    """SHA-256 over versions, and over what else the content is made of, as JSON."""
    return hashlib.sha256(json.dumps([dict(versions), *told], sort_keys=True).encode()).hexdigest()
