"""Sizes of memory as people write them: '512MiB', '2GiB'. One way of writing them, in files and options."""

import re

SIZE_PATTERN = r"[1-9][0-9]*[KMGT]iB"
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_size(written: object) -> int:
    """The bytes of a whole number of KiB, MiB, GiB or TiB.

    Raises:
        ValueError: it is anything else: 'GB' means two things, and a bare number could be any unit.
    """
    if not isinstance(written, str) or re.fullmatch(SIZE_PATTERN, written) is None:
        raise ValueError(f"{written!r} is not a size (write a whole number and {', '.join(_UNITS)}, such as 2GiB)")
    return int(written[:-3]) * _UNITS[written[-3:]]


def size_text(num_bytes: int) -> str:
    """The size in the largest unit that divides it, such as '2GiB'; rounded up to whole KiB."""
    whole = -(-num_bytes // _UNITS["KiB"]) * _UNITS["KiB"]
    unit = next(name for name in reversed(_UNITS) if whole % _UNITS[name] == 0)
    return f"{whole // _UNITS[unit]}{unit}"
