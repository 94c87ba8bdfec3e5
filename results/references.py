"""External numbers: scores that others published or measured, from a CSV file that `docs/tables.md` documents.

They stand beside ours, and enter no mean, interval, test or rank of ours.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces.catalogue.data_sets import DATA_SETS, SPEARMAN
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.problems import InputError, Problem, unknown_name

UNTRAINED = "untrained"
REQUIRED = ("model", "data_set", "measure", "similarity", "value", "source")
OPTIONAL = ("group", "init_regime", "unit")
COLUMNS = (*REQUIRED, *OPTIONAL)
UNITS = {"points": 100.0, "fraction": 1.0}
_OTHER_NAMES: Mapping[str, str] = {"dataset": "data_set", "pt": UNTRAINED, "learn": "learnable"}
_OTHER_GROUPS: Mapping[str, str] = {"mh": "multi_hop"}  # as the study's tables name it
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_BY_LEVEL = "a group's own average: data_set is empty, and group names it"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One score. `value` is 0 to 1 (a correlation -1 to 1); without `data_set` it is that of `group` as published."""

    model: str
    init_regime: str | None
    group: str | None
    data_set: str | None
    measure: str
    similarity: str
    value: float
    source: str
    place: str  # the file and its line

    @property
    def key(self) -> tuple[str | None, ...]:
        """What there may be one value of in a source."""
        return self.source, self.model, self.init_regime, self.group, self.data_set, self.measure, self.similarity


def load_references(paths: Sequence[str]) -> tuple[Reference, ...]:
    """The scores of all files. A path may be followed by `,COLUMN=VALUE` for columns that its file lacks.

    Raises:
        InputError: every line that is none, a file that cannot be read, two values for one thing in one source.
    """
    found: list[Reference] = []
    problems: list[Problem] = []
    for text in paths:
        path, given = split_given(text)
        try:
            found += _read(path, given, problems)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            problems.append(Problem(where=path, key="", message=f"cannot be read as a CSV file: {error}"))
    problems += contradictions(found)
    if problems:
        raise InputError(problems)
    return tuple(found)


def kept_references(paths: Sequence[str]) -> tuple[Reference, ...]:
    """The scores of files that a sweep keeps: their places are the files' names, whatever machine they lie on.

    Raises:
        InputError: as `load_references`.
    """
    return tuple(replace(found, place=Path(found.place).name) for found in load_references(paths))


def split_given(text: str) -> tuple[str, dict[str, str]]:
    """(path, columns that are given) of `PATH,COLUMN=VALUE,...`; a value may have commas in it."""
    parts = text.split(",")
    given: dict[str, str] = {}
    path, name = parts[0], ""
    for part in parts[1:]:
        column, separator, value = part.partition("=")
        if separator and column.strip() in COLUMNS:
            name = column.strip()
            given[name] = value.strip()
        elif name:
            given[name] += f",{part}"
        else:
            path += f",{part}"
    return path, given


def _read(path: str, given: Mapping[str, str], problems: list[Problem]) -> list[Reference]:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        names = {name: _column(name) for name in reader.fieldnames or ()}
        if other := [sign for sign in _OTHER_SEPARATORS if len(names) == 1 and any(sign in name for name in names)]:
            message = f"its columns are separated by {_OTHER_SEPARATORS[other[0]]} (write commas between them)"
            problems.append(Problem(where=path, key="", message=message))
            return []
        if faults := list(_faults_of_header(path, list(map(_column, reader.fieldnames or ())), given)):
            problems += faults
            return []
        lines = []
        for row in reader:
            if row.pop(None, None):  # where DictReader keeps what has no column
                message = f"has more values than the header has columns ({len(names)})"
                problems.append(Problem(where=f"{path}:{reader.line_num}", key="", message=message))
            lines.append((reader.line_num, {names[name]: (value or "").strip() for name, value in row.items()}))
    if not lines:
        problems.append(Problem(where=path, key="", message="has no line below its header"))
    long = [(line, row) for line, wide in lines for row in _long({**given, **wide})]
    found = []
    for line, row in long:
        place = f"{path}:{line}"
        if faults := list(_faults(place, row)):
            problems += faults
        else:
            found.append(_reference(row, place))
    problems += _unit_doubts(path, long)
    return found


def _column(header: str) -> str:
    """A header as this module names it: 'QNorm' is 'qnorm', 'Learn' 'learnable', 'dataset' 'data_set'."""
    name = header.strip().lower().replace(" ", "_")
    return _OTHER_NAMES.get(name, name)


def _faults_of_header(path: str, names: Sequence[str], given: Mapping[str, str]) -> Iterator[Problem]:
    similarities = [name for name in names if _is_similarity(name)]
    unknown = [name for name in names if name not in COLUMNS and name not in similarities]
    for name in unknown:
        yield Problem(where=path, key=name, message=unknown_name("column", name, (*COLUMNS, *SIMILARITIES, UNTRAINED)))
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(where=path, key=name, message="stands twice in the header")
    for name in given:
        if name in names:
            yield Problem(where=path, key=name, message="is given, but the file has that column")
    has = {*names, *given, *(("similarity", "value") if similarities else ())}
    for name in REQUIRED:
        if name not in has:
            message = f"no such column (add it to the file, or give it: {path},{name}=...)"
            yield Problem(where=path, key=name, message=message)


def _is_similarity(name: str) -> bool:
    return name in SIMILARITIES or name == UNTRAINED


def _long(row: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """A row of the documented columns; of one with a column for each similarity, one for each that has a value."""
    rest = {name: value for name, value in row.items() if not _is_similarity(name)}
    if "similarity" in rest:
        yield {**rest, "similarity": _column(rest["similarity"])}
        return
    for name, value in row.items():
        if _is_similarity(name) and value:
            yield {**rest, "similarity": name, "value": value}


def _faults(place: str, row: Mapping[str, str]) -> Iterator[Problem]:
    for name in ("model", "measure", "source"):
        if not row.get(name):
            yield Problem(where=place, key=name, message="is empty")
    if not row.get("data_set") and not row.get("group"):
        yield Problem(where=place, key="data_set", message=f"is empty, and so is group ({_BY_LEVEL})")
    if not _is_similarity(row["similarity"]):
        message = unknown_name("similarity", row["similarity"], (*SIMILARITIES, UNTRAINED))
        yield Problem(where=place, key="similarity", message=message)
    unit = row.get("unit") or "points"
    if unit not in UNITS:
        yield Problem(where=place, key="unit", message=unknown_name("unit", unit, list(UNITS)))
        return
    value = _number(row.get("value", ""))
    least = -1 if row.get("measure", "").casefold() == SPEARMAN.casefold() else 0
    if value is None or not least <= value / UNITS[unit] <= 1:
        most = f"{UNITS[unit]:g}"
        message = f"'{row.get('value', '')}' is not a score of {'-' + most if least else 0} to {most} ({unit})"
        yield Problem(where=place, key="value", message=message)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _unit_doubts(path: str, rows: Iterable[tuple[int, Mapping[str, str]]]) -> Iterator[Problem]:
    """That a file without units holds nothing above 1: it is hardly one of points."""
    values = [_number(row.get("value", "")) for _, row in rows if not row.get("unit")]
    known = [abs(value) for value in values if value is not None]
    if known and max(known) <= 1:
        message = f"no value is above 1: say whether they are 'points' (times 100) or 'fraction' ({path},unit=fraction)"
        yield Problem(where=path, key="unit", message=message)


def _reference(row: Mapping[str, str], place: str) -> Reference:
    group = _group(row.get("group", "")) or None
    return Reference(
        model=row["model"],
        init_regime=row.get("init_regime") or None,
        group=group,
        data_set=_data_set(row.get("data_set", ""), group) or None,
        measure=row["measure"],
        similarity=row["similarity"],
        value=float(row["value"]) / UNITS[row.get("unit") or "points"],
        source=row["source"],
        place=place,
    )


def _group(name: str) -> str:
    """A group as sweep files name it: 'BEIR' is 'beir'."""
    lower = name.lower().replace("-", "_").replace(" ", "_")
    return _OTHER_GROUPS.get(lower, lower)


def _data_set(name: str, group: str | None) -> str:
    """A data set as the catalogue names it, some with their group: 'biology' of bright is 'bright_biology'."""
    with_group = f"{group}_{name}"
    return with_group if group and name not in DATA_SETS and with_group in DATA_SETS else name


def contradictions(found: Iterable[Reference]) -> Iterator[Problem]:
    """Two values of one thing in one source, be it in two groups."""
    known: dict[tuple[str | None, ...], Reference] = {}
    for reference in found:
        anywhere = (*reference.key[:3], None, *reference.key[4:]) if reference.data_set else reference.key
        before = known.setdefault(anywhere, reference)
        if before is not reference and (before.value != reference.value or before.key == reference.key):
            what = f"{reference.model} on {reference.data_set or reference.group} with {reference.similarity}"
            message = f"{what} has another value in {before.place}, of the same source: give them different ones"
            if before.value == reference.value:
                message = f"{what} stands in {before.place} already"
            yield Problem(where=reference.place, key="value", message=message)
