"""The overview's scores: a line for each model, regime and place, a column for each similarity, the best in bold."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from results.collect import Collected
from results.overview_section import MOST_LINES, Section, aligned
from results.rendering.markdown import DASH
from results.selection import NothingChosenError
from results.tables.built import build_one
from results.tables.table import Table, TableOptions

Build = Callable[[Collected, TableOptions], list[Section]]
_TRAINED = "train"


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How rows of a table become lines.

    `always` and `varying` (where they do) are the columns that name a line, with their headers; `value` is that of the
    number which each similarity has in it.
    """

    always: Mapping[str, str]
    varying: Mapping[str, str]
    value: str


_LAYOUTS: Mapping[str, _Layout] = {
    "gains": _Layout(
        always={"model": "model", "init_regime": "regime", "group": "group"},
        varying={"task": "task", "scale": "scale", "measure": "measure", "tier": "tier"},
        value="gain",
    ),
    "sts": _Layout(
        always={"model": "model", "init_regime": "regime", "shown_data_set": "data set"},
        varying={"task": "task", "group": "group"},
        value="forward",
    ),
    "rag": _Layout(
        always={"model": "model", "init_regime": "regime", "data_set": "data set"},
        varying={"task": "task", "split": "split"},
        value="f1",
    ),
}


def score_sections(applicable: Collection[str]) -> Mapping[str, Build]:
    """The sections of those tables that say something of a sweep."""
    builds: Mapping[str, Build] = {"gains": _gains, "sts": _pairs, "rag": _answers}
    return {name: build for name, build in builds.items() if name in applicable}


def _gains(collected: Collected, options: TableOptions) -> list[Section]:
    table = _table("gains", collected, options)
    baseline = options.baseline
    trained = table.rows
    seeds_given = trained["mark"].str.starts_with("(")
    only_given = seeds_given.any() and not trained.filter(~seeds_given)["mark"].str.contains("*", literal=True).any()
    rows = trained.with_columns(mark=pl.col("mark").str.strip_chars("()")) if only_given else trained
    primary = list(collected.record.primary_groups)
    section = _section(
        table,
        rows.sort(~pl.col("group").is_in(primary), maintain_order=True) if _is_long(rows, "gains") else rows,
        title=f"Gains against {baseline} in points of {_measures(rows)} (times 100), the best in bold",
        first=(baseline, "baseline_score"),
    )
    return [replace(section, notes=(*section.notes, *_gain_notes(rows, options, only_given=only_given)))]


def _gain_notes(rows: pl.DataFrame, options: TableOptions, *, only_given: bool) -> Iterator[str]:
    num_tests = rows["adjusted_p"].drop_nulls().len()
    if num_tests:
        correction = {"holm": "Holm", "benjamini-hochberg": "Benjamini-Hochberg"}[options.correction]
        of = "another seed may differ" if only_given else "(*): for these seeds only"
        yield f"*, **, ***: adjusted p at most 0.05, 0.01, 0.001 ({correction}, {num_tests} gains); {of}."
    data, scales = (", ".join(rows[name].drop_nulls().unique().sort()) for name in ("training_data", "scale"))
    if data:
        yield f"Trained on {data}, scale {scales}."


def _pairs(collected: Collected, options: TableOptions) -> list[Section]:
    table = _table("sts", collected, options)
    title = "Scored pairs of texts: Spearman's correlation with the raters times 100; the best in bold"
    return [_section(table, _own_scores(table.rows), title=title)]


def _answers(collected: Collected, options: TableOptions) -> list[Section]:
    table = _table("rag", collected, options)
    return [_section(table, _own_scores(table.rows), title="Answers of the reader: F1 times 100; the best in bold")]


def _table(name: str, collected: Collected, options: TableOptions) -> Table:
    table = build_one(name, collected, options)
    trained = table.rows.filter(pl.col("kind") == _TRAINED)
    if trained.is_empty():
        raise NothingChosenError("nothing is trained yet")
    return replace(table, rows=trained)


def _own_scores(rows: pl.DataFrame) -> pl.DataFrame:
    """Those scored with what was trained with: these alone have a rank."""
    return rows.filter(pl.col("rank").is_not_null())


def _is_long(rows: pl.DataFrame, name: str) -> bool:
    return rows.select(list(_names(rows, _LAYOUTS[name]))).n_unique() > MOST_LINES


def _section(table: Table, rows: pl.DataFrame, *, title: str, first: tuple[str, str] | None = None) -> Section:
    """`first`: a similarity that stands before the others, with another number, which every row has."""
    layout = _LAYOUTS[table.name]
    names = _names(rows, layout)
    others = [name for name in rows["similarity"].unique(maintain_order=True) if not first or name != first[0]]
    found = [(line, block) for line, block in rows.group_by(list(names), maintain_order=True)]
    kept = found[:MOST_LINES]
    columns = [[(_score(block.row(0, named=True)[first[1]]), "") for _, block in kept]] if first else []
    columns += [[_value(_of(block, name), layout.value) for _, block in kept] for name in others]
    texts = [aligned(column) for column in columns]
    shown = [first[0], *others] if first else others
    best = [_best(block, shown) for _, block in found]
    return Section(
        title=title,
        headers=(*names.values(), *shown),
        names=tuple(range(len(names))),
        lines=tuple((*map(_name, line), *(column[at] for column in texts)) for at, (line, _) in enumerate(kept)),
        best=tuple(None if name is None else len(names) + shown.index(name) for name in best[: len(kept)]),
        notes=tuple(_best_note(best)),
        table=table.name,
        left_away=len(found) - len(kept),
        holes=table.holes,
    )


def _names(rows: pl.DataFrame, layout: _Layout) -> dict[str, str]:
    varying = {
        key: header
        for key, header in layout.varying.items()
        if key in rows.columns and rows[key].drop_nulls().n_unique() > 1
    }
    return {**layout.always, **varying}


def _of(block: pl.DataFrame, similarity: str) -> Mapping[str, Any] | None:
    rows = block.filter(pl.col("similarity") == similarity)
    return rows.row(0, named=True) if rows.height else None


def _value(row: Mapping[str, Any] | None, key: str) -> tuple[str, str]:
    if row is None or row[key] is None:
        return DASH, ""
    return (_gain(row[key]), row["mark"] or "") if key == "gain" else (_score(row[key]), "")


def _gain(gain: float) -> str:
    return f"{100 * gain:+.2f}" if round(100 * gain, 2) else "0.00"


def _score(score: float | None) -> str:
    return DASH if score is None else f"{100 * score:.2f}"


def _name(value: object) -> str:
    return DASH if value is None else str(value)


def _best(block: pl.DataFrame, shown: Sequence[str]) -> str | None:
    best = block.filter(pl.col("rank") == 1)["similarity"]
    return best[0] if best.len() and best[0] in shown else None


def _best_note(best: Sequence[str | None]) -> Iterator[str]:
    """Which similarity is how often the best, in words: not every terminal shows bold."""
    counts = Counter(name for name in best if name is not None)
    if counts:
        each = ", ".join(f"{name} in {number}" for name, number in counts.most_common())
        yield f"Highest score, of {len(best)} lines: {each}."


def _measures(rows: pl.DataFrame) -> str:
    return " or ".join(rows["measure"].drop_nulls().unique(maintain_order=True)) or "the main measure"
