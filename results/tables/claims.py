"""Table `claims`: what the study claims, as contrasts that were declared before, and the verdict of these rows."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from results.claims import CLAIMS
from results.claims.effects import effect_sizes
from results.claims.evaluate import Sides, evaluate_claims
from results.collect import Collected
from results.selection import select_trials
from results.statistics.power import MIN_SEEDS
from results.tables.cohen_d import found_statistics
from results.tables.gain_parts import INTERVAL, TWO_WAY, comparisons, reason_notes, trial_holes
from results.tables.parts import (
    correction_name,
    declaration_notes,
    fairness_lines,
    model_name,
    no_paired_test,
    varying,
    warning_notes,
)
from results.tables.table import Column, Origin, Table, TableOptions
from search_spaces.evaluation_specs import IN_DOMAIN

_ALL = "all models"


def build(collected: Collected, options: TableOptions) -> Table:
    """The claims, each model and all of them together; `options.baseline` changes nothing, a claim names its own.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    found = evaluate_claims(
        comparisons(collected, collected.expected, options), _sides(collected), correction=options.correction
    )
    shown = [_shown(row) for row in found.iter_rows(named=True)]
    texts = pl.DataFrame(shown, schema={"shown_estimate": pl.String, "shown_interval": pl.String})
    rows = found.hstack(texts).with_columns(model_name())
    rows = rows.with_columns(model=pl.when(pl.col("scope") == _ALL).then(pl.lit(_ALL)).otherwise("model"))
    return Table(
        name="claims",
        title="Claims of the study, declared before",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows, collected, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=("claim",),
        holes=trial_holes(collected, options),
        formula="estimate = sum of coefficient * score over the claim's similarities, regimes and groups",
        origin=Origin(data="groups"),
    )


def _sides(collected: Collected) -> Sides:
    groups = dict.fromkeys(group for evaluation in collected.record.evaluations for group in evaluation.groups)
    return Sides(
        in_domain=tuple(group for group in groups if group == IN_DOMAIN),
        out_of_domain=tuple(group for group in collected.record.primary_groups if group != IN_DOMAIN),
        validation=dict(collected.trials.select("trial_id", "validation_score").iter_rows()),
        effects=effect_sizes(found_statistics(collected), collected.expected),
    )


def _shown(row: Mapping[str, Any]) -> dict[str, str | None]:
    """A difference of scores in points, an effect size as it is."""
    factor = 100 if row["unit"] == "score" else 1
    estimate, low, high = row["estimate"], row["low"], row["high"]
    return {
        "shown_estimate": None if estimate is None else f"{factor * estimate:+.2f}",
        "shown_interval": None if low is None else f"[{factor * low:+.2f}, {factor * high:+.2f}]",
    }


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    return (
        Column(key="claim", header="claim"),
        *varying(rows, (Column(key="task", header="task"), Column(key="training_data", header="training data"))),
        Column(key="model", header="model"),
        *varying(rows, (Column(key="scale", header="scale"),)),
        Column(key="shown_estimate", header="estimate"),
        Column(key="shown_interval", header=INTERVAL),
        Column(key="p", header="p", kind="p", decimals=3, detail=True),
        Column(key="adjusted_p", header="adj. p", kind="p", decimals=3),
        Column(key="verdict", header="verdict"),
        Column(key="chosen", header="chosen", detail=True),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    for claim in CLAIMS.values():
        yield f"{claim.name}: {claim.hypothesis} ({claim.source})."
    sides = _sides(collected)
    yield (
        f"In domain: {', '.join(sides.in_domain) or 'no group'}; out of domain: the unweighted mean over "
        f"{', '.join(sides.out_of_domain) or 'no group'} (the sweep file's primary groups). Estimates in points (times "
        "100) for these data sets; effect sizes for new ones."
    )
    yield from declaration_notes(collected.record)
    num_tests = rows["p"].drop_nulls().len()
    yield (
        f"Verdict: confirmed or refuted, by the side on which the estimate lies, where p, adjusted "
        f"({correction_name(options)}) over the {num_tests} tests of this table, is at most 0.05; undecided elsewhere, "
        f"and with fewer than {MIN_SEEDS} seeds. Non-inferiority: p and side are of the difference from minus the "
        "margin, so that it is confirmed and refuted alike."
    )
    yield from no_paired_test(options, TWO_WAY)
    yield from reason_notes(rows, "reason", "verdict or interval", ["claim", "model"])
