"""Lines of a JSON Lines file, each an object whose fields are checked one by one."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainers.data_sets.faults import Faults

Row = dict[str, Any]
_SHOWN_CHARACTERS = 60


_NOT_TEXT = {
    b"\x1f\x8b": "it is packed by gzip; unpack it",
    b"\xff\xfe": "it is UTF-16, and must be UTF-8",
    b"\xfe\xff": "it is UTF-16, and must be UTF-8",
    b"PK\x03\x04": "it is a zip archive; unpack it",
}


def is_text(file: Path, name: str, faults: Faults) -> bool:
    """Whether the file begins as text does; if not, that is noted once in `faults`, instead of for each line."""
    with file.open("rb") as opened:
        start = opened.read(4)
    for mark, message in _NOT_TEXT.items():
        if start.startswith(mark):
            faults.add("malformed", file=name, key="", message=message)
            return False
    return True


def json_objects(lines: Iterable[bytes], file: str, faults: Faults) -> Iterator[tuple[str, Row]]:
    """The objects of a file's lines, each with its place ('line 3'); blank lines are passed over.

    Lines that hold none are noted in `faults`, under the name `file`.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            yield place, _json_object(line)
        except ValueError as error:
            faults.add("malformed", file=file, key=place, message=str(error))


def text(row: Row, key: str, default: str | None = None) -> str:
    """A field that is text; where it is missing or null, the default. Raises ValueError."""
    value = row.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ValueError(f"'{key}' must be text, not {shown(value)}" if key in row else f"'{key}' is missing")
    return checked_text(value, key)


def checked_text(value: Any, key: str) -> str:
    """The value, if it is text that can be written as UTF-8. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"'{key}' must be text, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"'{key}' holds half of a surrogate pair: {shown(value)}") from error
    return value


def shown(value: Any) -> str:
    """A value as messages show it: short, and without what a terminal would act on."""
    seen = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return seen if len(seen) <= _SHOWN_CHARACTERS else f"{seen[: _SHOWN_CHARACTERS - 3]}..."


def _json_object(line: bytes) -> Row:
    if b"\0" in line:
        raise ValueError("the line holds NUL bytes: the file is damaged, or is not UTF-8")
    try:
        value = json.loads(line.decode("utf-8-sig"))  # bytes would be taken for UTF-16 where they look like it
    except UnicodeDecodeError as error:
        raise ValueError(f"this is not UTF-8: byte 0x{line[error.start]:02x} at position {error.start}") from error
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("this is not JSON that can be read: it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is expected, not {shown(value)}")
    return value
