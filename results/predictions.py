"""Predictors of the better of qnorm and dnorm: each turns one probe's rows into a call. One entry here adds one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl

from search_spaces.catalogue.registry import Registry

Side = Literal["qnorm", "dnorm"]
Call = Literal["qnorm", "dnorm", "undecided"]
PROBE_COLUMNS = (
    *("probe_id", "family", "layers", "init_regime", "seed"),
    *("training_data", "training_data_hash", "scale_mode", "scale_value"),
)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A call with its evidence: what was seen on each side, lowest to highest where it was seen more than once.

    `difference` is qnorm - dnorm; `low` and `high` bound all of its intervals. A call that the probe's rows do not
    allow is None, with the reason.
    """

    call: Call | None
    reason: str | None = None
    qnorm: tuple[float, float] | None = None
    dnorm: tuple[float, float] | None = None
    difference: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """A rule. `statistic` names what is shown of each side; `predict` reads the rows of one probe."""

    name: str
    statistic: str
    rule: str
    predict: Callable[[pl.DataFrame], Prediction]


def fisher_condition(probe: pl.DataFrame) -> Prediction:
    """The side whose Fisher information has the smaller condition number (arXiv 2602.09229).

    Read on the block 'embedding' (sum of the query's and the document's H x H matrices), in one subspace shared by the
    similarities, over a grid of its dimension r. It is a call only if log10 kappa(qnorm) - log10 kappa(dnorm) has one
    sign at every r and no interval holds 0.
    """
    rows = probe.filter((pl.col("block") == "embedding") & (pl.col("statistic") == "log10_kappa"))
    difference = rows.filter(pl.col("similarity") == "qnorm-dnorm")
    if difference.is_empty():
        # Where every query is saturated there is no Fisher information: no further run would bring a call.
        return Prediction(call="undecided", reason="the probe has no log10_kappa difference of block 'embedding'")
    return Prediction(
        call=_one_sided(difference),
        qnorm=_span(rows.filter(pl.col("similarity") == "qnorm")["value"]),
        dnorm=_span(rows.filter(pl.col("similarity") == "dnorm")["value"]),
        difference=_span(difference["value"]),
        low=_bound(difference["low"], min),
        high=_bound(difference["high"], max),
    )


def _one_sided(difference: pl.DataFrame) -> Call:
    """Every value and its whole interval on one side of 0; an interval that is absent decides nothing."""
    bounds = [bound for row in difference.select("low", "value", "high").rows() for bound in row]
    if any(bound is None or not math.isfinite(bound) for bound in bounds):
        return "undecided"
    if max(bounds) < 0:
        return "qnorm"
    return "dnorm" if min(bounds) > 0 else "undecided"


def _span(values: pl.Series) -> tuple[float, float] | None:
    known = values.drop_nulls().to_list()
    return (min(known), max(known)) if known else None


def _bound(values: pl.Series, pick: Callable[[list[float]], float]) -> float | None:
    """The outermost of the bounds; None where one is absent, since it could lie anywhere."""
    return pick(values.to_list()) if values.len() and not values.null_count() else None


PREDICTORS = Registry(
    "predictor",
    [
        Predictor(
            name="fisher_condition",
            statistic="log10 kappa",
            rule="the side with the smaller condition number of the Fisher information in the embedding space",
            predict=fisher_condition,
        ),
    ],
)


def predictions(probes: pl.DataFrame) -> pl.DataFrame:
    """Every predictor's call for every probe: one row each.

    Columns: PROBE_COLUMNS, `predictor`, `call` ('qnorm', 'dnorm', 'undecided'; null where the rows allow none),
    `reason`, and the evidence: `qnorm_min`, `qnorm_max`, the same of `dnorm` and `difference`, `low`, `high`.
    """
    rows = []
    for name, predictor in PREDICTORS.items():
        for cell, probe in probes.group_by(list(PROBE_COLUMNS), maintain_order=True):
            found = predictor.predict(probe)
            evidence = {"call": found.call, "reason": found.reason, "low": found.low, "high": found.high}
            for side, span in (("qnorm", found.qnorm), ("dnorm", found.dnorm), ("difference", found.difference)):
                evidence[f"{side}_min"], evidence[f"{side}_max"] = span or (None, None)
            rows.append({**dict(zip(PROBE_COLUMNS, cell, strict=True)), "predictor": name, **evidence})
    evidence_types = dict.fromkeys(
        [f"{s}_{e}" for s in ("qnorm", "dnorm", "difference") for e in ("min", "max")], pl.Float64
    )
    types = {name: dtype for name, dtype in probes.schema.items() if name in PROBE_COLUMNS}
    texts = dict.fromkeys(["predictor", "call", "reason"], pl.String)
    return pl.DataFrame(rows, schema={**types, **texts, **evidence_types, "low": pl.Float64, "high": pl.Float64})
