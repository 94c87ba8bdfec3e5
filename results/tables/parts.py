"""What several tables share: names of models and regimes, columns shown only where they vary, holes of trials."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from results.collect import Collected
from results.fairness import fairness_notes
from results.layout import PlannedEvaluation, SweepRecord
from results.leaks import leaks_of_sweep
from results.missing import MissingKind
from results.tables.table import Column, TableOptions
from search_spaces.catalogue.data_sets import PARTS


def model_name() -> pl.Expr:
    """The family with its number of layers where it is cut: 'minilm-3l', as trials are titled."""
    cut = pl.format("{}-{}l", "family", "layers")
    return pl.when(pl.col("layers").is_null()).then("family").otherwise(cut).alias("model")


def varying(rows: pl.DataFrame, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Those of `columns` that hold more than one value: what is the same in every row stands in a note."""
    return tuple(column for column in columns if rows[column.key].drop_nulls().n_unique() > 1)


def softmax_columns(rows: pl.DataFrame, first: str, second: str) -> tuple[Column, ...]:
    """How sharp the softmax was, from two columns of `rows` for each statistic; those of which some row has a number.

    `first` and `second` are the columns' prefixes: a note says what they are, since headers have little room.
    """

    def column(statistic: str, header: str, **more: Any) -> Column:
        return Column(key=f"{first}_{statistic}", upper=f"{second}_{statistic}", header=header, **more)

    columns = (
        column("saturated_share", "sat. (%)", kind="share_pair", decimals=0),
        column("perplexity", "perplexity", kind="pair", detail=True),
        column("logit_std", "logit dev.", kind="pair", decimals=1, detail=True),
    )
    return tuple(c for c in columns if rows[c.key].drop_nulls().len())


def scale_note(scales: Sequence[str]) -> Iterator[str]:
    """What a matched scale is, where there is one."""
    for scale in scales:
        if scale.startswith("matched"):
            yield (
                f"Scale {scale}: as {scale.replace('matched', 'fixed')} with scores divided, once before training, by "
                "mean |q|^(1-gamma_q) * mean |d|^(1-gamma_d) of the starting encoder, so that logits start alike."
            )


def members(evaluations: Iterable[PlannedEvaluation]) -> str:
    """The data sets in a line, those that are parts of another one named as its parts."""
    wholes: dict[str, list[str]] = {}
    for evaluation in evaluations:
        wholes.setdefault(evaluation.whole, []).append(evaluation.data_set)
    return ", ".join(
        name if parts == [name] * len(parts) else _with_parts(name, parts) for name, parts in wholes.items()
    )


def parts_note(evaluations: Iterable[PlannedEvaluation]) -> Iterator[str]:
    """Which data sets are means over their parts, where some are."""
    parts = [evaluation for evaluation in evaluations if evaluation.part_of]
    if parts:
        yield f"Of several parts, whose unweighted mean is shown: {members(parts)}."


def _with_parts(whole: str, parts: Sequence[str]) -> str:
    """A whole that lacks parts says so: its mean is none of the benchmark's."""
    distinct = tuple(dict.fromkeys(parts))
    known = PARTS.get(whole, distinct)
    some = f"{len(distinct)} of its {len(known)}" if len(distinct) < len(known) else f"its {len(distinct)}"
    return f"{whole} (mean of {some} parts {', '.join(distinct)})"


def missing_lines(collected: Collected, chosen: pl.DataFrame, kinds: Collection[MissingKind]) -> Iterator[str]:
    """What is missing of the chosen trials; what has no known cell counts as chosen."""
    known, wanted = set(collected.every_trial["trial_id"]), set(chosen["trial_id"])
    for item in collected.missing:
        if item.kind in kinds and (item.trial_id in wanted or item.trial_id not in known):
            yield str(item)


def warning_notes(collected: Collected) -> tuple[str, ...]:
    """The warnings of the collected rows as notes."""
    return tuple(f"Careful: {warning}." for warning in collected.warnings)


def declaration_notes(record: SweepRecord) -> Iterator[str]:
    """That there came to be other primary groups after there were rows, if there did: the first ones decide."""
    for later in record.redeclared:
        of = f" of {later.source}" if later.source else ""
        decides = "" if later.source else f" ({', '.join(record.primary_groups)})"
        others = ", ".join(later.groups) or "none"
        what = (
            f"the sweep file{of}, which names no primary groups, has others by default ({others}) since"
            if later.by_default
            else f"the sweep file{of} declared other primary groups ({others}) on"
        )
        yield f"Careful: {what} {later.at}, when trials had finished; those declared first decide{decides}."


def primary_origin(record: SweepRecord, declared: str) -> str:
    """Who chose the primary groups, in words: `declared` where the sweep file did."""
    return "by default, since the sweep file names none" if record.primary_by_default else declared


def fairness_lines(collected: Collected, chosen: pl.DataFrame) -> tuple[str, ...]:
    """As notes, in what the similarities of the chosen trials, or the searches before them, were not treated alike.

    What is reported of texts that trainings have seen comes first.
    """
    notes = fairness_notes(chosen.unique("trial_id", keep="first", maintain_order=True).iter_rows(named=True))
    seen = collected.trials.join(chosen.select("trial_id").unique(), on="trial_id", how="semi")
    leaking = (f"Leak: {leak}." for leak in leaks_of_sweep(seen, collected.record))
    return (*leaking, *(f"Not on equal terms: {note}." for note in (*notes, *collected.unequal_searches)))


def correction_name(options: TableOptions) -> str:
    """The correction as people write it."""
    return {"holm": "Holm", "benjamini-hochberg": "Benjamini-Hochberg"}[options.correction]


def correction_header(options: TableOptions) -> str:
    """The same where there is little room: in the header of a column."""
    return {"holm": "Holm", "benjamini-hochberg": "BH"}[options.correction]


def correlation_columns(options: TableOptions) -> Iterator[Column]:
    """How far a correlation can be trusted: its interval, its p, and what it is without each of its points."""
    yield Column(key="low", upper="high", header="95 % interval", kind="interval")
    yield Column(key="p", header="p", kind="p", decimals=3)
    yield Column(key="adjusted_p", header=f"p ({correction_header(options)})", kind="p", decimals=3)
    yield Column(key="left_out_low", upper="left_out_high", header="leave one out", kind="range")
    yield Column(key="most_influential", header="most influential", detail=True)


def no_paired_test(options: TableOptions, own: str) -> Iterator[str]:
    """That a choice of the per query test does nothing here, where one was made; `own` is the table's own test."""
    if options.paired_test != TableOptions().paired_test:
        yield f"The per query test '{options.paired_test}' has no part in this table: its p values are of {own}."
