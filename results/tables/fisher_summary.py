"""Tables `fisher_summary` and `fisher_tau`: how good each predictor's calls are, group by group."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.fisher_check import PRIMARY
from results.fisher_summary import fisher_summary, fisher_tau
from results.predictions import PREDICTORS
from results.statistics.binary_outcomes import fewest_for_level
from results.tables.fisher_check import check_holes, check_rows, shown_group
from results.tables.parts import (
    correction_header,
    correction_name,
    correlation_columns,
    declaration_notes,
    no_paired_test,
    primary_origin,
    varying,
    warning_notes,
)
from results.tables.table import Column, Origin, Table, TableOptions

_BLOCK = ("predictor", "training_data", "scale", "group")


def build(collected: Collected, options: TableOptions) -> Table:
    """Hits against a coin and against fixed calls. Raises what `results.fisher_check.fisher_check` raises."""
    check = check_rows(collected, options)
    rows = fisher_summary(check, correction=options.correction).with_columns(shown_group=shown_group())
    return Table(
        name="fisher_summary",
        title="Fisher check: calls against a coin and against fixed calls",
        columns=_columns(rows, options),
        rows=rows,
        notes=(*_notes(rows, collected, options), *warning_notes(collected)),
        block=_BLOCK,
        holes=tuple(check_holes(check, collected, options)),
        formula="hits = decided cells whose call won; regret = mean over called cells of max(0, other - called)",
        origin=Origin(probes=("probe_ids",)),
    )


def build_tau(collected: Collected, options: TableOptions) -> Table:
    """Kendall's tau of differences. Raises what `results.fisher_check.fisher_check` raises."""
    check = check_rows(collected, options)
    rows = fisher_tau(check, correction=options.correction).with_columns(shown_group=shown_group())
    return Table(
        name="fisher_tau",
        title="Fisher check: does the predicted difference order the observed ones?",
        columns=(
            *_leading(rows),
            Column(key="scope", header="cells"),
            Column(key="n", header="n", kind="count"),
            Column(key="tau", header="Kendall's tau", kind="plain"),
            *correlation_columns(options),
        ),
        rows=rows,
        notes=(*_tau_notes(rows, collected, options), *warning_notes(collected)),
        block=_BLOCK,
        holes=tuple(check_holes(check, collected, options)),
        formula="Kendall's tau-b over cells of (predicted difference, gain), qnorm - dnorm both",
        origin=Origin(probes=("probe_ids",)),
    )


def _leading(rows: pl.DataFrame) -> tuple[Column, ...]:
    of = [Column(key=key, header=key.replace("_", " ")) for key in ("predictor", "training_data", "scale")]
    return (*varying(rows, tuple(of)), Column(key="shown_group", header="group"))


def _columns(rows: pl.DataFrame, options: TableOptions) -> tuple[Column, ...]:
    return (
        *_leading(rows),
        Column(key="num_cells", header="cells", kind="count"),
        Column(key="num_called", header="called", kind="count"),
        Column(key="num_decided", header="decided", kind="count"),
        Column(key="num_hits", header="hits", kind="count"),
        Column(key="opponent", header="against"),
        Column(key="opponent_hits", header="its hits", kind="plain", decimals=1),
        Column(key="num_for", header="for", kind="count"),
        Column(key="num_against", header="against it", kind="count"),
        Column(key="num_families", header="families", kind="count"),
        Column(key="clustered_p", header="p by family", kind="p", decimals=3, reason="reason"),
        Column(
            key="adjusted_clustered_p",
            header=f"p by family ({correction_header(options)})",
            kind="p",
            decimals=3,
            reason="reason",
        ),
        Column(key="p", header="p by cell", kind="p", decimals=3, detail=True, reason="reason"),
        Column(
            key="adjusted_p",
            header=f"p by cell ({correction_header(options)})",
            kind="p",
            decimals=3,
            detail=True,
            reason="reason",
        ),
        Column(key="regret", header="regret", kind="score"),
        Column(key="opponent_regret", header="its regret", kind="score"),
    )


def _notes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    yield from _common_notes(rows, collected)
    yield (
        "Decided: cells with a call and a winner. Against a coin: exact binomial test of hits; against a fixed call: "
        "exact McNemar on the decided cells where one of the two is right and the other wrong (for, against it). "
        f"Two-sided; {correction_name(options)} over all p values of the table."
    )
    yield (
        "p by family, the one to cite: families are the units, whose cells flip together, since cells of one family "
        "are no independent observations, and seeds of random weights, each of which is a cell, least of all. p by "
        "cell (Markdown and CSV) counts every cell as one observation, and is too small where a family has several."
    )
    yield from no_paired_test(options, "exact binomial and McNemar tests of cells")
    alone = fewest_for_level()
    fewest = max([alone, *rows["fewest"].to_list()])
    yield (
        f"Fewest cells (or families) that must differ, all one way, for p < 0.05: {alone} in a single test, {fewest} "
        f"with {correction_name(options)} over this table. Where fewer differ no outcome is significant, and a dash or "
        "a large p says nothing."
    )
    yield (
        "Regret: mean of what following the call loses against the other side over all called cells, ties too (measure "
        "times 100); its regret: what the opponent loses on the same cells, a coin half of each difference."
    )


def _tau_notes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    yield from _common_notes(rows, collected)
    yield (
        "Kendall's tau-b of the predictor's difference (the middle of its span) against the gain, qnorm minus dnorm "
        "both: a rule by which the smaller one wins gives -1. Within families: over pairs of cells of one family. "
        "Interval: BCa, 2,000 draws; p: permutations (within families where that is the scope); "
        f"{correction_name(options)} over the table."
    )
    names = rows["predictor"].unique(maintain_order=True).to_list()
    if rising := [name for name in names if PREDICTORS[name].positive == "qnorm"]:
        yield f"Of {', '.join(rising)} it is the larger one that calls qnorm: such a rule gives +1."
    yield from no_paired_test(options, "permutations of cells")
    places: dict[str, list[str]] = {}
    for reason, group, scope in rows.select("reason", "shown_group", "scope").iter_rows():
        if reason is not None:
            places.setdefault(str(reason), []).append(f"{group} ({scope})")
    for reason, where in places.items():
        yield f"Dash in {', '.join(dict.fromkeys(where))}: {reason}."


def _common_notes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    data, scales = (", ".join(rows[name].unique().sort()) for name in ("training_data", "scale"))
    yield f"Trained on {data}, scale {scales}. Cells: models x init regimes (x seeds, where weights are random)."
    for name in rows["predictor"].unique(maintain_order=True):
        yield f"Predictor {name}: {PREDICTORS[name].rule}."
    groups = ", ".join(collected.record.primary_groups)
    star, mean = ("", "the unweighted mean over ") if PRIMARY in set(rows["group"]) else ("* ", "")
    origin = primary_origin(collected.record, "declared in the sweep file before running")
    yield f"{star}Primary: {mean}{groups}, {origin}."
    yield from declaration_notes(collected.record)
