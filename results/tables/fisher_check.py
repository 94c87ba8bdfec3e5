"""Table `fisher_check`: what Fisher information called before training, and who won."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.fisher_check import DERIVED_REASONS, fisher_check
from results.predictions import PREDICTORS
from results.selection import select_trials
from results.tables.parts import missing_lines, model_name, scale_note, softmax_columns, varying, warning_notes
from results.tables.table import Column, Table, TableOptions

_NOT_RUN = "not run"


def build(collected: Collected, options: TableOptions) -> Table:
    """The Fisher check. It never pools: each training data set and scale has rows of its own.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    found = fisher_check(
        collected.probes,
        collected.per_query,
        collected.expected,
        primary_groups=collected.record.primary_groups,
        where=options.where,
    )
    seeded = pl.format("{} (seed {})", "init_regime", "seed")
    regime = pl.when(pl.col("seed").is_null()).then("init_regime").otherwise(seeded)
    rows = found.with_columns(model_name(), regime=regime)
    return Table(
        name="fisher_check",
        title="Fisher check: predicted and observed side",
        columns=_columns(rows, collected),
        rows=rows,
        notes=(*_notes(rows, collected), *warning_notes(collected)),
        block=("predictor", "training_data", "scale", "model"),
        holes=tuple(_holes(rows, collected, options)),
    )


def _columns(rows: pl.DataFrame, collected: Collected) -> tuple[Column, ...]:
    statistic = rows["statistic"][0] if rows["statistic"].n_unique() == 1 else "statistic"
    of = [Column(key=key, header=key.replace("_", " ")) for key in ("predictor", "training_data", "scale")]
    return (
        *varying(rows, tuple(of)),
        Column(key="model", header="model"),
        Column(key="regime", header="init regime"),
        Column(key="qnorm_min", upper="qnorm_max", header=f"{statistic} qnorm", kind="range"),
        Column(key="dnorm_min", upper="dnorm_max", header=f"{statistic} dnorm", kind="range"),
        Column(key="difference_min", upper="difference_max", header="difference", kind="range", decimals=3),
        Column(key="low", upper="high", header="interval", kind="interval", decimals=3),
        *softmax_columns(rows, "qnorm", "dnorm"),
        Column(key="call", header="call"),
        Column(key="qnorm_score", header=f"{_measure(collected)} qnorm", kind="score"),
        Column(key="dnorm_score", header=f"{_measure(collected)} dnorm", kind="score"),
        Column(key="winner", header="winner"),
        Column(key="verdict", header="verdict"),
    )


def _measure(collected: Collected) -> str:
    primary = set(collected.record.primary_groups)
    measures = {e.main_measure for e in collected.record.evaluations if primary & set(e.groups)}
    return measures.pop() if len(measures) == 1 else "score"


def _notes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    for name in rows["predictor"].unique(maintain_order=True):
        yield f"Call ({name}): {PREDICTORS[name].rule}; undecided unless every interval of the difference excludes 0."
    levels = ", ".join(f"{level:.0%}" for level in collected.probes["level"].drop_nulls().unique().sort())
    yield (
        "From lowest to highest over the grid of the shared subspace's dimension; difference: qnorm minus dnorm; the "
        f"interval holds all {levels or 'of the'} intervals of the grid."
    )
    groups = ", ".join(collected.record.primary_groups)
    yield f"Winner: the higher unweighted mean over {groups} (the sweep file's primary groups), seeds averaged, x 100."
    data, scales = (rows[name].unique().sort().to_list() for name in ("training_data", "scale"))
    yield f"Trained on {', '.join(data)}, scale {' or '.join(scales)}."
    yield from scale_note(scales)
    if softmax_columns(rows, "qnorm", "dnorm"):
        yield (
            "Sat.: saturated queries, those of the probe whose likeliest candidate has a probability above 0.99, under "
            "qnorm / under dnorm, before training; likewise, in Markdown and CSV, means of the perplexity and the "
            "deviation of a query's logits over its candidates."
        )
    not_run = rows.filter(pl.col("verdict") == _NOT_RUN)
    if not_run.height:
        yield "Not run: the sweep trains only one side, or none, in that cell."
    if rows["num_seeds"].max() == 1:
        yield "One seed: a winner by a small margin may be another one with another seed."


def _holes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    chosen = select_trials(collected.expected, options.where)
    sides = chosen.filter(pl.col("similarity").is_in(["qnorm", "dnorm"]))
    yield from missing_lines(collected, sides, ("trial", "evaluation"))
    probes = {item.title: str(item) for item in collected.missing if item.kind == "probe"}
    for row in rows.iter_rows(named=True):
        seed = "" if row["seed"] is None else f"/s{row['seed']}"
        scale = f"/{row['scale']}" if row["scale"].startswith("matched") else ""  # as probes are titled
        title = f"probe {row['model']}/{row['init_regime']}{scale}{seed}"
        if row["call"] is None:
            yield probes.get(title, f"{title}: {row['reason']}")
        elif row["verdict"] is None and row["reason"] not in DERIVED_REASONS:
            yield f"{row['model']}/{row['regime']}{scale}: {row['reason']}"
