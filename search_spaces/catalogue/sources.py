"""Where weights and data come from: `hf:ORG/NAME@REVISION`, `path:FOLDER`, `package:MODULE[/PATH]`, `python:stdlib`."""

import re
from dataclasses import dataclass
from typing import Literal

Scheme = Literal["hf", "path", "package", "python"]
SCHEMES: tuple[Scheme, ...] = ("hf", "path", "package", "python")
_REVISION = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A parsed source. `location` is the hub id, the folder, the file in a package, or 'stdlib'."""

    scheme: Scheme
    location: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.scheme}:{self.location}" + (f"@{self.revision}" if self.revision else "")


def parse_source(text: str) -> Source:
    """Parse a source.

    Raises:
        ValueError: no known scheme, an empty location, or a hub id without a pinned (40 hex digits) revision.
    """
    scheme, _, rest = text.partition(":")
    if scheme not in SCHEMES or not rest:
        raise ValueError(f"'{text}' is not a source (write hf:ORG/NAME@REVISION, path:FOLDER or package:MODULE/PATH)")
    if scheme != "hf":
        return Source(scheme=scheme, location=rest)
    location, _, revision = rest.partition("@")
    if not _REVISION.fullmatch(revision):
        raise ValueError(f"'{text}' has no pinned revision (write hf:{location}@ and the commit's 40 hex digits)")
    return Source(scheme="hf", location=location, revision=revision)
