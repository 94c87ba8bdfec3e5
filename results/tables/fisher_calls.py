"""Table `fisher_calls`: what each predictor says, scale by scale and over the seeds of random weights."""

from collections.abc import Iterator

import polars as pl

from results.call_spread import call_spread
from results.collect import Collected
from results.predictions import PREDICTORS
from results.tables.fisher_check import check_holes, check_rows
from results.tables.parts import model_name, scale_note, varying, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions

_COUNTS = ("num_probes", "num_qnorm", "num_dnorm", "num_undecided")


def build(collected: Collected, options: TableOptions) -> Table:
    """Calls and their spread. Raises what `results.fisher_check.fisher_check` raises."""
    check = check_rows(collected, options)
    rows = call_spread(check).with_columns(model_name())
    return Table(
        name="fisher_calls",
        title="Fisher check: calls by scale and seed",
        columns=_columns(rows),
        rows=rows,
        notes=(*_notes(rows), *warning_notes(collected)),
        block=("predictor", "training_data", "model", "init_regime"),
        holes=tuple(check_holes(check, collected, options)),
        formula="agreement = share of probes that gave the answer that most gave",
        origin=Origin(trials=(), probes=("probe_ids",), data="none"),
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    of = (Column(key=key, header=key.replace("_", " ")) for key in ("predictor", "training_data"))
    return (
        *varying(rows, tuple(of)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        Column(key="scale", header="scale"),
        Column(key="difference_min", upper="difference_max", header="difference", kind="range", decimals=3),
        Column(key="spread", header="over seeds", kind="plain", decimals=3),
        Column(
            key="qnorm_saturated_share", upper="dnorm_saturated_share", header="sat. (%)", kind="share_pair", decimals=0
        ),
        *(Column(key=key, header=key.removeprefix("num_"), kind="count") for key in _COUNTS),
        Column(key="answer", header="answer"),
        Column(key="agreement", header="agreement", kind="plain"),
        Column(key="across_scales", header="across scales"),
    )


def _notes(rows: pl.DataFrame) -> Iterator[str]:
    for name in rows["predictor"].unique(maintain_order=True):
        found = PREDICTORS[name]
        yield (
            f"{name} ({found.statistic}): {found.rule}. From: {found.source}. Needs {found.needs}; costs {found.costs}."
        )
    yield (
        "Probes: one for each cell and scale, or one for each seed where weights are random. Answer: the one that most "
        "probes gave, agreement its share of them; over seeds: the deviation of the difference over them (a dash of a "
        "single probe). Difference: qnorm minus dnorm of the statistic, lowest to highest over all that was seen; of a "
        "statistic that sees no sides, itself."
    )
    if rows["qnorm_saturated_share"].drop_nulls().len():
        yield (
            "Sat.: mean share of the probes' queries whose likeliest candidate has a probability above 0.99, under "
            "qnorm / under dnorm: where most are saturated, few queries make up the Fisher information, and a call at "
            "another scale is another statement."
        )
    scales = rows["scale"].unique().sort().to_list()
    if len(scales) > 1:
        yield "Across scales: whether the answers of a cell are the same under all of its scales."
    yield from scale_note(scales)
