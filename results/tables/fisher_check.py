"""Tables `fisher_check` and `fisher_published`: what Fisher information called before training, and who won."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from results.collect import Collected
from results.fisher_check import DERIVED_REASONS, PRIMARY, fisher_check
from results.observed_sides import SIDES
from results.predictions import PREDICTORS, needs_pilots
from results.published_fisher import published_check
from results.selection import select_trials
from results.tables.gain_parts import reason_notes
from results.tables.parts import (
    declaration_notes,
    missing_lines,
    model_name,
    primary_origin,
    scale_note,
    softmax_columns,
    varying,
    warning_notes,
)
from results.tables.table import Column, Origin, Table, TableOptions

_NOT_RUN = "not run"
_DECLARED = "the sweep file's primary groups, declared before running"
FISHER = "fisher_condition"  # the predictor that the study tests
_PROBE = Origin(trials=(), probes=("probe_id",), data="none")


def build(collected: Collected, options: TableOptions) -> Table:
    """The Fisher check. It never pools: each training data set and scale has rows of its own.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    rows = check_rows(collected, options)
    return Table(
        name="fisher_check",
        title="Fisher check: predicted and observed side",
        columns=_columns(rows),
        rows=rows,
        notes=(*_notes(rows, collected), *warning_notes(collected)),
        block=("predictor", "training_data", "scale", "model"),
        holes=tuple(check_holes(rows, collected, options)),
        formula="difference = statistic of qnorm - that of dnorm; gain = score of qnorm - score of dnorm",
        origin=Origin(trials=("trial_ids",), probes=("probe_id",)),
    )


def build_published(_: Collected, __: TableOptions) -> Table:
    """The study's own check in the same layout; the same whatever was collected."""
    rows = _named(published_check())
    return Table(
        name="fisher_published",
        title="Fisher check: what the study reports",
        columns=_columns(rows),
        rows=rows,
        notes=(
            "Reference rows from arXiv 2602.09229, in the layout of `fisher_check`; none of them enters a summary.",
            "Kappa as published, before training, without an interval: its margins are 0.3 % and 0.6 %.",
            "Scores (qnorm / dnorm) and gain (qnorm - dnorm) are nDCG@10 times 100, means of three seeds. Winner: the "
            "higher one; there are no intervals to tell a tie by.",
            "Primary: the unweighted mean over beir, bright and multi_hop; in_domain: over MS MARCO dev, TREC-DL 2019 "
            "and 2020.",
        ),
        block=("model",),
        formula="difference = kappa of qnorm - that of dnorm; gain = score of qnorm - score of dnorm",
        origin=Origin(trials=(), published=True),
    )


def check_rows(collected: Collected, options: TableOptions) -> pl.DataFrame:
    """`results.fisher_check` of what was collected, with `model`, `regime` and `shown_group` as tables show them."""

    def check() -> pl.DataFrame:
        return fisher_check(
            collected.probes,
            collected.data_set_scores,
            collected.query_scores,
            collected.expected,
            primary_groups=collected.record.primary_groups,
            where=options.where,
        )

    return _named(collected.once(("fisher_check", *sorted(options.where.items())), check))


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    seeded = pl.format("{} (seed {})", "init_regime", "seed")
    regime = pl.when(pl.col("seed").is_null()).then("init_regime").otherwise(seeded)
    return rows.with_columns(model_name(), regime=regime, shown_group=shown_group())


def shown_group() -> pl.Expr:
    """The group's name, with a star where it is the primary one."""
    is_alone = pl.col("is_primary") & (pl.col("group") != PRIMARY)
    return pl.when(is_alone).then(pl.format("{} *", "group")).otherwise("group")


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    statistic = rows["statistic"][0] if rows["statistic"].n_unique() == 1 else "statistic"
    measure = rows["measure"][0] if rows["measure"].n_unique() == 1 and rows["measure"][0] else "score"
    of = [Column(key=key, header=key.replace("_", " ")) for key in ("predictor", "training_data", "scale")]
    # Where there are intervals they are what a call is made from; both sides' own spans then are details.
    has_intervals = rows["low"].drop_nulls().len() > 0
    return (
        *varying(rows, tuple(of)),
        Column(key="model", header="model"),
        Column(key="regime", header="init regime"),
        *varying(rows, (Column(key="shown_group", header="group"),)),
        *(
            Column(
                key=f"{side}_min",
                upper=f"{side}_max",
                header=f"{statistic} {side}",
                kind="range",
                detail=has_intervals,
                origin=_PROBE,
            )
            for side in SIDES
        ),
        Column(
            key="difference_min",
            upper="difference_max",
            header="difference",
            kind="range",
            decimals=3 if has_intervals else 2,
            origin=_PROBE,
        ),
        Column(key="low", upper="high", header="interval", kind="interval", decimals=3, origin=_PROBE),
        *(replace(column, origin=_PROBE) for column in softmax_columns(rows, "qnorm", "dnorm")),
        Column(key="call", header="call", origin=_PROBE),
        Column(key="qnorm_score", upper="dnorm_score", header=measure, kind="score_pair", origin=Origin()),
        Column(key="gain", header="gain", kind="points", origin=Origin()),
        Column(key="gain_low", upper="gain_high", header="95 % interval", kind="points_interval", origin=Origin()),
        Column(key="winner", header="winner", origin=Origin()),
        Column(key="verdict", header="verdict"),
    )


def _notes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    for name in rows["predictor"].unique(maintain_order=True):
        yield f"Call ({name}): {PREDICTORS[name].rule}; undecided unless every interval of the difference excludes 0."
    levels = ", ".join(f"{level:.0%}" for level in collected.probes["level"].drop_nulls().unique().sort())
    yield (
        f"Difference: {', '.join(rows['statistic'].unique(maintain_order=True))} of qnorm minus that of dnorm, lowest "
        "to highest over the grid of the shared subspace's dimension (both sides' own spans are in Markdown and CSV); "
        f"the interval holds all {levels or 'of the'} intervals of the grid."
    )
    if of_others := [name for name in rows["predictor"].unique(maintain_order=True) if name != FISHER]:
        yield (
            f"Of {', '.join(of_others)} there is no grid, but one value; what sees no sides (Cohen's d, a ratio of "
            "variations) stands as its own difference."
        )
    groups = ", ".join(collected.record.primary_groups)
    star = "* " if len(collected.record.primary_groups) == 1 else ""
    yield from declaration_notes(collected.record)
    yield (
        f"{star}Primary: {groups} ({primary_origin(collected.record, _DECLARED)})"
        f"{', their unweighted mean' if len(collected.record.primary_groups) > 1 else ''}. Scores (qnorm / dnorm) and "
        "gain (qnorm - dnorm) are times 100, seeds averaged."
    )
    yield (
        "Winner: the side on which the gain's 95 % interval lies (two-way model of seeds and queries, "
        "these data sets), tie where it holds 0. Verdict: hit or miss where there are a call and a winner. "
        "Each interval is of its gain alone, not adjusted for the number of cells: where nothing differs one gain in "
        "20 has a winner."
    )
    data, scales = (rows[name].unique().sort().to_list() for name in ("training_data", "scale"))
    yield f"Trained on {', '.join(data)}, scale {' or '.join(scales)}."
    yield from scale_note(scales)
    if softmax_columns(rows, "qnorm", "dnorm"):
        yield (
            "Sat.: saturated queries, those of the probe whose likeliest candidate has a probability above 0.99, under "
            "qnorm / under dnorm, before training; likewise, in Markdown and CSV, means of the perplexity and the "
            "deviation of a query's logits over its candidates."
        )
    yield from _not_run_notes(rows)
    if rows["num_seeds"].max() == 1:
        yield "One seed: intervals and winners are of these checkpoints; another seed may have another winner."
    absent = rows.filter(pl.col("gain").is_not_null() & pl.col("gain_low").is_null())
    if absent.height:
        yield "No interval: every query has the same difference, or a data set has one query alone."
    for reason in rows.filter(pl.col("reason").str.contains("main measures"))["reason"].unique(maintain_order=True):
        yield f"No primary verdict: {reason}; each group has its own."


def _not_run_notes(rows: pl.DataFrame) -> Iterator[str]:
    not_run = rows.filter(pl.col("verdict") == _NOT_RUN)
    is_untrained = pl.col("reason").str.contains("does not train")
    if not_run.filter(is_untrained).height:
        yield "Not run: the sweep trains only one side, or none, in that cell."
    yield from reason_notes(
        not_run.filter(~is_untrained), "reason", "verdict", ["training_data", "model", "regime", "shown_group"]
    )


def check_holes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    """What is missing of the rows of `check_rows`, once each."""
    yield from dict.fromkeys(_holes(rows, collected, options))


def _holes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    chosen = select_trials(collected.expected, options.where)
    sides = chosen.filter(pl.col("similarity").is_in(SIDES))
    yield from missing_lines(collected, sides, ("trial", "evaluation"))
    probes = {item.title: str(item) for item in collected.missing if item.kind == "probe"}
    for row in rows.iter_rows(named=True):
        seed = "" if row["seed"] is None else f"/s{row['seed']}"
        scale = f"/{row['scale']}" if row["scale"].startswith("matched") else ""  # as probes are titled
        title = f"probe {row['model']}/{row['init_regime']}{scale}{seed}"
        if row["call"] is None and row["probe_id"] is not None and needs_pilots(row["predictor"]):
            yield f"pilots of {title.removeprefix('probe ')}: {row['reason']}"
        elif row["call"] is None:
            yield probes.get(title, f"{title}: {row['reason']}")
        elif row["verdict"] is None and row["reason"] not in DERIVED_REASONS and "main measures" not in row["reason"]:
            yield f"{row['model']}/{row['regime']}{scale}: {row['reason']}"
