"""Predictors of the better of qnorm and dnorm: each turns one probe's rows into a call. One entry here adds one."""

import polars as pl

from results.predicting.effective_rank import EFFECTIVE_RANK
from results.predicting.fisher_condition import FISHER_CONDITION
from results.predicting.norm_distance import NORM_DISTANCE
from results.predicting.prediction import Call, Prediction, Predictor, Side
from search_spaces.catalogue.registry import Registry

__all__ = ["PREDICTORS", "PROBE_COLUMNS", "Call", "Prediction", "Predictor", "Side", "predictions"]

PROBE_COLUMNS = (
    *("probe_id", "family", "layers", "init_regime", "seed"),
    *("training_data", "training_data_hash", "scale_mode", "scale_value"),
)
PREDICTORS = Registry("predictor", [FISHER_CONDITION, NORM_DISTANCE, EFFECTIVE_RANK])


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
