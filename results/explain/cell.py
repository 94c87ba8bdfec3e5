"""Which number of a table is meant: `similarity=qnorm group=beir column=gain`, or `3 gain` for the third row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.rendering.values import is_text, shown_rows
from results.tables.table import Column, Table
from search_spaces.problems import unknown_name

_COLUMN = "column"
_NEXT = re.compile(r"[\s,]+(?=[\w.]+=)")
_LISTED = 12


class CellError(ValueError):
    """No cell, or more than one, is what was written. Says what the table has."""


@dataclass(frozen=True, kw_only=True)
class FoundCell:
    """A cell: its row's number as printed (from 1), the row's raw values and shown texts by column, and its column."""

    number: int
    row: Mapping[str, Any]
    texts: Mapping[str, str | None]
    column: Column


def find_cell(table: Table, words: Sequence[str]) -> FoundCell:
    """The cell that `words` name: choices `NAME=VALUE`, a row's number, and a column (alone, or as `column=NAME`).

    Names are headers or keys of columns, also their last words ('regime' is 'init_regime'); values are as printed, or
    raw; without regard to case.

    Raises:
        CellError: a name or value that the table does not have, no row or several, or no column.
    """
    number, choices, named = _parsed(words)
    texts = [{c.key: cell.text for c, cell in zip(table.columns, row.cells, strict=True)} for row in shown_rows(table)]
    rows = list(enumerate(zip(table.rows.iter_rows(named=True), texts, strict=True), start=1))
    if not rows:
        raise CellError(f"table '{table.name}' has no rows")
    if number is not None and not 1 <= number <= len(rows):
        raise CellError(f"row {number}: table '{table.name}' has rows 1 to {len(rows)}")
    left = [rows[number - 1]] if number is not None else rows
    for name, value in choices:
        key = _key(table, name)
        chosen = [item for item in left if _has(item[1], key, value)]
        if not chosen:
            raise CellError(_no_value(table, name, key, value, left))
        left = chosen
    if len(left) > 1:
        raise CellError(_several(table, left))
    at, (row, shown) = left[0]
    return FoundCell(number=at, row=row, texts=shown, column=_column(table, named, shown))


def _parsed(words: Sequence[str]) -> tuple[int | None, list[tuple[str, str]], str | None]:
    """(row, choices, column) of the words; one word may hold several, with spaces or commas between."""
    number, choices, column = None, [], None
    for word in (part for text in words for part in _split(text.strip()) if part):
        name, separator, value = word.partition("=")
        if separator and _plain(name) == _COLUMN:
            column = value
        elif separator and _plain(name) == "row" and value.isdecimal():
            number = int(value)
        elif separator:
            choices.append((name.strip(), value.strip()))
        elif word.isdecimal():
            number = int(word)
        elif column is None:
            column = word
        else:
            raise CellError(f"'{word}' and '{column}' are two columns: name one")
    return number, choices, column


def _split(text: str) -> list[str]:
    """The choices of one word; a name may have a space in it, where it stands alone."""
    return _NEXT.split(text) if text.count("=") > 1 else [text]


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def _names(table: Table) -> dict[str, str]:
    """What columns may be called, by which key: keys of all columns of the rows, and headers of the shown ones."""
    return {**{_plain(c.header): c.key for c in table.columns}, **{_plain(key): key for key in table.rows.columns}}


def _key(table: Table, name: str) -> str:
    names, plain = _names(table), _plain(name)
    if plain in names:
        return names[plain]
    ends = {key for known, key in names.items() if known.endswith(f"_{plain}")}
    if len(ends) == 1:
        return ends.pop()
    shown = [_plain(column.header) for column in table.columns if is_text(column)]
    told = unknown_name(f"column of table {table.name}", plain, list(names))
    raise CellError(f"{told}; rows are told apart by {', '.join(shown)}")


def _has(item: tuple[Mapping[str, Any], Mapping[str, str | None]], key: str, value: str) -> bool:
    row, texts = item
    raw, wanted = row[key], value.casefold()
    if raw is None:
        return wanted in ("none", "–", "-", "")
    return wanted in (str(raw).casefold(), (texts.get(key) or "").casefold()) or _is_number(raw, value)


def _is_number(raw: Any, value: str) -> bool:
    try:
        return isinstance(raw, int | float) and not isinstance(raw, bool) and float(value) == float(raw)
    except ValueError:
        return False


def _no_value(table: Table, name: str, key: str, value: str, left: Sequence[tuple[int, Any]]) -> str:
    here = list(dict.fromkeys(_text(row, texts, key) for _, (row, texts) in left))
    told = unknown_name(f"value of {name} here", value, here)
    return (
        f"table '{table.name}': {told}; there are: {', '.join(here[:_LISTED])}{' ...' if len(here) > _LISTED else ''}"
    )


def _text(row: Mapping[str, Any], texts: Mapping[str, str | None], key: str) -> str:
    shown = texts.get(key)
    return str(row[key]) if shown is None and row[key] is not None else shown or "none"


def _several(table: Table, left: Sequence[tuple[int, Any]]) -> str:
    """What tells the rows apart: the columns in which they differ, those that are shown first."""
    marks = {column.marks for column in table.columns}
    named = [c.key for c in table.columns if is_text(c) and c.key not in marks] + [
        c.key for c in table.columns if c.kind == "count"
    ]
    differ = [key for key in named if len({_text(row, texts, key) for _, (row, texts) in left}) > 1]
    lines = [
        f"  {number}: " + " ".join(_choice(key, _text(row, texts, key)) for key in differ)
        for number, (row, texts) in left[:_LISTED]
    ]
    rest = [f"  ... and {len(left) - _LISTED} more"] if len(left) > _LISTED else []
    told = f"{len(left)} rows of table '{table.name}' are meant; say more, or give the row's number:"
    return "\n".join([told, *lines, *rest])


def _choice(key: str, text: str) -> str:
    return f"{key}='{text}'" if " " in text else f"{key}={text}"


def _column(table: Table, name: str | None, texts: Mapping[str, str | None]) -> Column:
    numbers = [column for column in table.columns if not is_text(column)]
    if name is None:
        if len(numbers) == 1:
            return numbers[0]
        raise CellError(f"which number of the row? Add one of: {_columns(table)}")
    plain = _plain(name)
    found = [c for c in table.columns if plain in (c.key.lower(), _plain(c.header), (c.upper or "").lower())]
    if not found:
        found = [c for c in table.columns if _plain(c.header).startswith(plain) or c.key.startswith(plain)]
    if len(found) == 1 or (found and len({c.key for c in found}) == 1):
        return found[0]
    if found:
        raise CellError(f"'{name}' may be {' or '.join(c.key for c in found)}")
    message = unknown_name(f"column of table {table.name}", plain, [c.key for c in table.columns])
    raise CellError(f"{message}; it shows {_columns(table)}")


def _columns(table: Table) -> str:
    shown = [c for c in table.columns if not is_text(c)] or list(table.columns)
    return ", ".join(c.key if _plain(c.header) == c.key else f"{c.key} ('{c.header}')" for c in shown)
