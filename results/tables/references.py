"""External numbers beside ours: rows of their own, marked with their source, put into tables that are done."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from results.collect import Collected
from results.reference_gains import PUBLISHED, Level, ReferenceRow, reference_gains
from results.references import UNTRAINED, Reference, contradictions
from results.selection import SelectionError
from results.tables.table import Column, Table, TableOptions
from search_spaces.catalogue.data_sets import SPEARMAN

Build = Callable[[Collected, TableOptions], Table]
Shows = Literal["group", "data set", "pairs", "answers"]
KIND = "reference"
OURS = "ours"
_ANSWERS: Mapping[str, str] = {"EM": "exact_match", "F1": "f1"}  # what tables of answers call measures, by column
_PLACE: Mapping[Shows, str] = {
    "group": "group",
    "data set": "group",
    "pairs": "shown_data_set",
    "answers": "data_set",
}


@dataclass(frozen=True, kw_only=True)
class _Block:
    """The rows of one source, model and place."""

    model: str
    place: str
    rows: tuple[dict[str, Any], ...]


def with_references(build: Build, shows: Shows) -> Build:
    """The table with the rows of the references that belong into it; without references, the table itself.

    They are put into a table whose numbers are all computed, so that none of ours depends on them.
    """

    def built(collected: Collected, options: TableOptions) -> Table:
        table = build(collected, options)
        chosen = [r for r in every_reference(collected, options) if _is_chosen(r, options.where)]
        found = [r for r in chosen if belongs(r, shows)]
        whole = _joined(table, found, shows, options) if found else table
        return replace(whole, notes=(*whole.notes, *_left_out(chosen))) if shows == "group" else whole

    return built


def every_reference(collected: Collected, options: TableOptions) -> list[Reference]:
    """Those that the sweep keeps and those that `options` add, each once.

    Raises:
        SelectionError: they have two values of one thing in one source.
    """
    kept = collected.record.references
    known = {(*reference.key, reference.value) for reference in kept}
    every = [*kept, *(r for r in options.references if (*r.key, r.value) not in known)]
    if problems := list(contradictions(every)):
        raise SelectionError("; ".join(map(str, problems)))
    return every


def belongs(reference: Reference, shows: Shows) -> bool:
    """Whether a table of that kind shows it: scored pairs, answers, or rankings on groups or data sets."""
    if reference.measure.casefold() == SPEARMAN.casefold():
        return shows == "pairs" and reference.data_set is not None
    if reference.measure in _ANSWERS:
        return shows == "answers" and reference.data_set is not None
    return (shows == "group" and reference.group is not None) or (
        shows == "data set" and reference.data_set is not None
    )


def _left_out(references: Iterable[Reference]) -> Iterator[str]:
    """Rankings on data sets of which the file names no group: they are in no mean over one."""
    without = [r for r in references if belongs(r, "data set") and r.group is None]
    for source in dict.fromkeys(r.source for r in without):
        names = ", ".join(dict.fromkeys(r.data_set for r in without if r.source == source and r.data_set))
        yield (
            f"Not shown of {source}: {names}, whose file names no group (column `group`); they stand in "
            "`gains_by_dataset`."
        )


def _is_chosen(reference: Reference, where: Mapping[str, str]) -> bool:
    """The choices that a reference can follow; similarities are chosen when gains are computed."""
    has = {"family": reference.model.casefold(), "init_regime": reference.init_regime, "kind": KIND}
    return all(has[name] in (value, value.casefold()) for name, value in where.items() if name in has)


def _joined(table: Table, references: Sequence[Reference], shows: Shows, options: TableOptions) -> Table:
    level: Level = "group" if shows == "group" else "data set"
    rows = reference_gains(references, options.baseline, level)
    sources = {source: f"[{place}]" for place, source in enumerate(dict.fromkeys(row.source for row in rows), start=1)}
    chosen = options.where.get("similarity")
    wanted = [row for row in rows if chosen in (None, row.similarity)]
    blocks = list(_blocks(wanted, sources, shows))
    place = _PLACE[shows]
    ours = [{**row, "source": OURS} for row in table.rows.iter_rows(named=True)]
    schema: dict[str, Any] = {
        **table.rows.schema,
        "source": pl.String,
        "source_name": pl.String,
        "reference": pl.String,
    }
    merged = pl.DataFrame([{n: row.get(n) for n in schema} for row in _beside(ours, blocks, place)], schema=schema)
    return replace(
        table,
        rows=merged,
        columns=_columns(table, merged),
        block=(*table.block, "source"),
        notes=(*table.notes, *_notes(rows, sources, shows, options.baseline)),
    )


def _beside(ours: Sequence[dict[str, Any]], blocks: Iterable[_Block], place: str) -> Iterator[dict[str, Any]]:
    """Our rows, each block after ours of the same model and place, or at the end."""
    last = {}
    for index, row in enumerate(ours):
        for name in (row["family"], row["model"]):
            last[name.casefold(), row[place]] = index
    after: dict[int, list[_Block]] = {}
    for block in blocks:
        after.setdefault(last.get((block.model.casefold(), block.place), len(ours)), []).append(block)
    for index, row in enumerate(ours):
        yield row
        for block in after.get(index, ()):
            yield from block.rows
    for block in after.get(len(ours), ()):
        yield from block.rows


def _blocks(rows: Iterable[ReferenceRow], sources: Mapping[str, str], shows: Shows) -> Iterator[_Block]:
    blocks: dict[tuple[Any, ...], list[ReferenceRow]] = {}
    for row in rows:
        measure = None if shows == "answers" else row.measure
        blocks.setdefault((row.source, row.model, row.init_regime, row.place, measure), []).append(row)
    for (source, model, regime, place, _), block in blocks.items():
        common = {"model": model, "init_regime": regime, "kind": KIND, "source": sources[source], "source_name": source}
        made = [common | row for row in _MAKERS[shows](block)]
        yield _Block(model=model, place=place, rows=tuple(made))


def _gain_rows(block: Sequence[ReferenceRow]) -> Iterator[dict[str, Any]]:
    for row in block:
        yield {
            "group": row.place,
            "groups": ", ".join(row.groups) or None,
            "measure": row.measure,
            "similarity": row.similarity,
            "label": row.similarity,
            **{name: getattr(row, name) for name in ("score", "baseline_score", "gain", "gain_ratio")},
            **{name: getattr(row, name) for name in ("mean_of_ratios", "rank", "num_data_sets", "reason")},
            "reference": _places(row),
        }


def _pair_rows(block: Sequence[ReferenceRow]) -> Iterator[dict[str, Any]]:
    for row in block:
        yield {
            **{"data_set": row.place, "shown_data_set": row.place, "similarity": row.similarity},
            **{"score_similarity": row.similarity, "forward": row.score, "rank": row.rank, "reference": _places(row)},
        }


def _answer_rows(block: Sequence[ReferenceRow]) -> Iterator[dict[str, Any]]:
    """One row for each similarity, of both measures where the source has both."""
    found: dict[str, dict[str, Any]] = {}
    for row in block:
        column = _ANSWERS[row.measure]
        made = found.setdefault(row.similarity, {"data_set": row.place, "similarity": row.similarity})
        made |= {"score_similarity": row.similarity, column: row.score}
        made |= {"rank": row.rank} if column == "f1" else {}
        made["reference"] = "; ".join(filter(None, (made.get("reference"), _places(row))))
    yield from found.values()


_MAKERS: Mapping[Shows, Callable[[Sequence[ReferenceRow]], Iterator[dict[str, Any]]]] = {
    "group": _gain_rows,
    "data set": _gain_rows,
    "pairs": _pair_rows,
    "answers": _answer_rows,
}


def _places(row: ReferenceRow) -> str:
    return "; ".join(row.places)


def _columns(table: Table, merged: pl.DataFrame) -> tuple[Column, ...]:
    """The table's, with the source behind the similarity, and what now varies and did not."""
    shown = [column.key for column in table.columns]
    label = next(place for place, key in enumerate(shown) if key in ("label", "similarity"))
    more = [
        Column(key=key, header=key)
        for key in ("measure",)
        if key in merged.columns and key not in shown and merged[key].drop_nulls().n_unique() > 1
    ]
    source = Column(key="source", header="source")
    return (*table.columns[:label], *more, table.columns[label], source, *table.columns[label + 1 :])


def _notes(rows: Sequence[ReferenceRow], sources: Mapping[str, str], shows: Shows, baseline: str) -> Iterator[str]:
    yield (
        "Reference rows are external numbers: others made them, and they are in no mean, interval, test or rank of "
        "ours. Their best and second are those of their own source."
    )
    for source, mark in sources.items():
        own = [row for row in rows if row.source == source]
        files = dict.fromkeys(place.rpartition(":")[0] for row in own for place in row.places)
        names = ", ".join(file.replace("\\", "/").rpartition("/")[2] for file in files)
        how = f"; {'; '.join(_averages(own))}" if shows == "group" else ""
        yield f"{mark} {source} ({names}){how}."
    if shows in ("group", "data set"):
        yield f"Gains of a reference are against {baseline} of the same source, model and init regime."
    lacking: dict[str, list[str]] = {}
    for row in rows:
        if row.reason is not None and row.similarity != UNTRAINED:
            where = f"{sources[row.source]} {row.model}/{row.similarity} on {row.place}"
            lacking.setdefault(row.reason, []).append(where)
    for reason, places in lacking.items():
        yield f"Dash in {', '.join(places)}: {reason}."


def _averages(rows: Iterable[ReferenceRow]) -> Iterator[str]:
    """How the source's averages over groups came about, once each."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row.averaged, []).append(row.place)
    for how, places in groups.items():
        named = ", ".join(dict.fromkeys(places))
        yield f"{named}: averages {how}" if how == PUBLISHED else f"{named}: {how} that it gives, taken here"
