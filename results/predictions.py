"""Predictors of the better of qnorm and dnorm: each turns one probe's rows into a call. One entry here adds one."""

import polars as pl

from results.pilots import PILOT, PILOT_NORMS
from results.predicting.effective_rank import EFFECTIVE_RANK
from results.predicting.fisher_condition import FISHER_CONDITION
from results.predicting.norm_distance import NORM_DISTANCE
from results.predicting.pilot import PILOT_GAIN
from results.predicting.prediction import Call, Prediction, Predictor, Side
from results.predicting.query_norm_variation import QUERY_NORM_VARIATION
from search_spaces.catalogue.registry import Registry

__all__ = ["PREDICTORS", "PROBE_COLUMNS", "Call", "Prediction", "Predictor", "Side", "predictions"]

PROBE_COLUMNS = (
    *("probe_id", "family", "layers", "init_regime", "seed"),
    *("training_data", "training_data_hash", "scale_mode", "scale_value"),
)
PREDICTORS = Registry("predictor", [FISHER_CONDITION, NORM_DISTANCE, EFFECTIVE_RANK, QUERY_NORM_VARIATION, PILOT_GAIN])


def predictions(probes: pl.DataFrame) -> pl.DataFrame:
    """Every predictor's call for every probe: one row each.

    `probes` are those of `results.collect.Collected`, which have what pilots show beside the probes' own rows.

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


def applicable(probes: pl.DataFrame) -> pl.DataFrame:
    """Which predictors say something of which probe: `probe_id`, `predictor`.

    Those that read probes alone say something of all, where any probe has rows of theirs; those that need pilots of the
    probes whose cells have such.
    """
    blocks = probes.select("probe_id", "block").unique(maintain_order=True)
    of_blocks = pl.DataFrame({"predictor": list(PREDICTORS), "block": [p.block for p in PREDICTORS.values()]})
    found = blocks.join(of_blocks, on="block", maintain_order="left").drop("block")
    of_probes = [name for name in found["predictor"].unique(maintain_order=True) if not needs_pilots(name)]
    every = (
        blocks.select("probe_id").unique(maintain_order=True).join(pl.DataFrame({"predictor": of_probes}), how="cross")
    )
    return pl.concat([found, every.select(found.columns)]).unique(maintain_order=True)


def needs_pilots(predictor: str) -> bool:
    """Whether it reads what pilots show."""
    return PREDICTORS[predictor].block in (PILOT, PILOT_NORMS)
