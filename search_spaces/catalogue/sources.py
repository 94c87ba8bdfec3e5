"""Where weights and data come from.

`hf:ORG/NAME@REVISION`, `path:FOLDER`, `package:MODULE[/PATH]`, `trial:SWEEP_FOLDER/TRIAL_ID`, `python:stdlib`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Scheme = Literal["hf", "path", "package", "python", "trial"]
Use = Literal["weights", "data"]
SCHEMES: tuple[Scheme, ...] = ("hf", "path", "package", "python", "trial")
_FORMS: Mapping[Scheme, str] = {
    "hf": "hf:ORG/NAME@REVISION",
    "path": "path:FOLDER",
    "package": "package:MODULE/PATH",
    "trial": "trial:SWEEP_FOLDER/TRIAL_ID",
    "python": "python:stdlib",
}
_NOT_FOR: Mapping[Use, Mapping[Scheme, str]] = {
    "weights": {"python": "is the text of a Python library, which holds no weights"},
    "data": {"trial": "is a checkpoint, which holds no data"},
}
UNPINNED = "unpinned"
_REVISION = re.compile(r"[0-9a-f]{40}")
_TRIAL_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A parsed source. `location` is the hub id, the folder, the file in a package, or 'stdlib'.

    A hub id has a `revision`, unless its entry says that it is unpinned; a trial has its sweep folder and its id.
    """

    scheme: Scheme
    location: str
    revision: str | None = None
    trial_id: str | None = None

    def __str__(self) -> str:
        if self.scheme == "hf":
            return f"hf:{self.location}@{self.revision or UNPINNED}"
        return f"{self.scheme}:{self.location}" + (f"/{self.trial_id}" if self.trial_id else "")


def parse_source(text: str, use: Use | None = None) -> Source:
    """Parse a source, of `use` where it is known what is read from it.

    Raises:
        ValueError: no known scheme, or none that holds what is to be read, an empty location, a hub id without a pinned
            (40 hex digits) revision, or a trial without its identity.
    """
    scheme, _, rest = text.partition(":")
    unfit = _NOT_FOR[use] if use else {}
    if scheme not in SCHEMES or not rest or scheme in unfit:
        *forms, last = (form for known, form in _FORMS.items() if known not in unfit)
        what = unfit.get(scheme, "is not a source") if scheme in SCHEMES and rest else "is not a source"
        raise ValueError(f"'{text}' {what} (write {', '.join(forms)} or {last})")
    if scheme == "hf":
        return _hub(text, rest)
    if scheme == "trial":
        return _trial(text, rest)
    return Source(scheme=scheme, location=rest)


def _hub(text: str, rest: str) -> Source:
    location, _, revision = rest.partition("@")
    if revision == UNPINNED:
        return Source(scheme="hf", location=location)
    if not _REVISION.fullmatch(revision):
        raise ValueError(f"'{text}' has no pinned revision (write hf:{location}@ and the commit's 40 hex digits)")
    return Source(scheme="hf", location=location, revision=revision)


def _trial(text: str, rest: str) -> Source:
    folder, _, trial_id = rest.rpartition("/")
    if not folder or not _TRIAL_ID.fullmatch(trial_id):
        form = "trial:SWEEP_FOLDER/TRIAL_ID, with the 16 hex digits that `densesweep status` lists"
        raise ValueError(f"'{text}' names no trial (write {form})")
    return Source(scheme="trial", location=folder, trial_id=trial_id)
