"""JSON objects of a model folder, as far as they can be read. Torch-free."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_json(file: Path, kind: type[Any] = dict) -> Any:
    """What a file holds: an object by default, or a list.

    Raises:
        ValueError: it cannot be read, is no JSON, or of another kind; the message does not name the file.
    """
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{error.strerror or error}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be a model's") from error
    if not isinstance(value, kind):
        raise ValueError(f"it is no JSON {'list' if kind is list else 'object'}")
    return value


def whole_number(holder: Mapping[str, Any], key: str) -> int | None:
    """A count that an object states, None where it does not, or says null. Raises ValueError where it is none."""
    value = holder.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"its {key} is {value!r}, and not a number of 0 or more")
    return value


def text(holder: Mapping[str, Any], key: str) -> str | None:
    """A text that an object states, None where it does not, or says null. Raises ValueError where it is none."""
    value = holder.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"its {key} is {value!r}, and not a text")
    return value
