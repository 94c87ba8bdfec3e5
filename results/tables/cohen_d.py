"""Table `cohen_d`: whether relevant documents have longer embeddings, per model, data set and similarity."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.magnitude import NORMS_MISSING, NOT_DEFINED, cohen_ds, norm_statistics
from results.missing import MissingKind
from results.selection import select_trials
from results.statistics.effect_sizes import D_UNIT
from results.tables.parts import missing_lines, model_name, parts_note, varying, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions
from search_spaces.catalogue.data_sets import SPEARMAN


def build(collected: Collected, options: TableOptions) -> Table:
    """The table of document norms. Raises what `results.magnitude.cohen_ds` raises."""
    found = cohen_ds(found_statistics(collected), collected.expected, where=options.where)
    label = pl.when(pl.col("kind") == "train").then("similarity").otherwise(pl.lit("untrained"))
    rows = found.with_columns(model_name(), label=label)
    return Table(
        name="cohen_d",
        title="Norms of relevant and irrelevant documents",
        columns=_columns(rows),
        rows=rows,
        notes=(*_notes(rows, collected), *warning_notes(collected)),
        block=("task", "model", "init_regime", "data_set", "split"),
        holes=tuple(_holes(rows, collected, options)),
        formula="d = (mean norm of relevant - mean norm of irrelevant documents) / pooled standard deviation",
        origin=Origin(data="data set"),
    )


def found_statistics(collected: Collected) -> pl.DataFrame:
    """`results.magnitude.norm_statistics` of what was collected."""
    thresholds = {(e.data_set, e.data_hash, e.split): e.relevance_threshold for e in collected.record.evaluations}
    return collected.once("norm_statistics", lambda: norm_statistics(collected.encodings(), thresholds))


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    several = rows["num_seeds"].max() != 1
    return (
        *varying(
            rows, tuple(Column(key=key, header=key.replace("_", " ")) for key in ("task", "training_data", "scale"))
        ),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        Column(key="data_set", header="data set"),
        *varying(rows, (Column(key="split", header="split"),)),
        Column(key="label", header="similarity"),
        Column(key="irrelevant", header="irrelevant"),
        Column(key="cohen_d", header="Cohen's d", kind="plain"),
        *((Column(key="cohen_d_min", upper="cohen_d_max", header="over seeds", kind="range"),) if several else ()),
        Column(key="relevant_norm", upper="irrelevant_norm", header="mean norms", kind="pair"),
        Column(key="num_relevant", header="relevant", kind="count"),
        Column(key="num_irrelevant", header="irrelevant docs", kind="count"),
        Column(key="query_cv", header="query CV", kind="plain", decimals=3),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    yield (
        "Cohen's d: (mean norm of relevant documents - mean norm of irrelevant ones) / pooled standard deviation; "
        f"unit: {D_UNIT}, one observation a document. Above 0, relevant documents are longer. Seeds averaged."
    )
    thresholds = sorted({e.relevance_threshold for e in collected.record.evaluations if e.main_measure != SPEARMAN})
    yield (
        f"Relevant: graded {' or '.join(map(str, thresholds))} or more (each data set's threshold) for some query. "
        "Irrelevant: judged 0 (for some query, and relevant for none) or unjudged (for every query); a better grade "
        "below the threshold is on neither side."
    )
    data, scales = (", ".join(rows[name].drop_nulls().unique().sort()) for name in ("training_data", "scale"))
    yield f"Trained on {data}, scale {scales}."
    yield "Mean norms: relevant / irrelevant. Query CV: standard deviation of query norms over their mean (no unit)."
    yield from parts_note(e for e in collected.record.evaluations if e.main_measure != SPEARMAN and e.groups)
    dashed = rows.filter(pl.col("reason") == NOT_DEFINED)["data_set"].unique(maintain_order=True)
    if len(dashed):
        yield f"Dash in {', '.join(dashed)}: {NOT_DEFINED}."
    if rows["num_seeds"].max() == 1:
        yield "One seed: nothing here says how far another seed would move a number."


def _holes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    chosen = select_trials(collected.expected, options.where)
    kinds: tuple[MissingKind, ...] = ("trial",)
    yield from missing_lines(collected, chosen, kinds)
    yield from norm_holes(rows, collected)


def norm_holes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    """Norms or judgements that are missing of the rows of `build`, but for those of whole missing trials."""
    waiting = {item.trial_id for item in collected.missing if item.kind == "trial"}
    for row in rows.filter(pl.col("reason") == NORMS_MISSING).iter_rows(named=True):
        if waiting.issuperset(row["trial_ids"].split("; ")):
            continue  # they are missing as a whole
        place = f"{row['model']}/{row['init_regime']}/{row['label']} on {row['data_set']}/{row['split']}"
        yield f"{place}: {NORMS_MISSING} (run the sweep again)"
