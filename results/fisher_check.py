"""The Fisher check: what predictors called before training, held against which of qnorm and dnorm won."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from results.predictions import PREDICTORS, predictions
from results.scores import group_scores, mean_if_whole
from results.selection import refuse_repeats, scale_name, select_trials
from results.softmax import PROBE_SOFTMAX_COLUMNS, probe_softmax
from search_spaces.catalogue.init_regimes import INIT_REGIMES

Verdict = Literal["hit", "miss", "undecided", "tie", "not run"]
SIDES = ("qnorm", "dnorm")
ROWS_MISSING = "its rows are missing"
PROBE_MISSING = "its probe is missing"
DERIVED_REASONS = (ROWS_MISSING, PROBE_MISSING)  # they follow from what collect lists as missing
_TIED_BELOW = 1e-12  # of a score of 0 to 1: a difference that only the order of summation makes
_CELL = ["training_data", "training_data_hash", "scale_mode", "scale_value", "family", "layers", "init_regime"]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Both sides' scores in one cell (0 to 1), None where rows are missing. `seeds` are those of each side's trials."""

    scores: Mapping[str, float | None]
    seeds: Mapping[str, tuple[int | None, ...]]

    @property
    def not_trained(self) -> tuple[str, ...]:
        """The sides that the sweep does not train in this cell."""
        return tuple(side for side in SIDES if not self.seeds[side])

    @property
    def winner(self) -> str | None:
        """The side with the higher score, 'tie', or None where there is nothing to compare."""
        qnorm, dnorm = (self.scores[side] for side in SIDES)
        if qnorm is None or dnorm is None:
            return None
        if abs(qnorm - dnorm) < _TIED_BELOW:
            return "tie"
        return "qnorm" if qnorm > dnorm else "dnorm"


def fisher_check(
    probes: pl.DataFrame,
    per_query: pl.DataFrame,
    expected: pl.DataFrame,
    *,
    primary_groups: Sequence[str],
    where: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """One row per predictor and trained cell: the call, the observed winner, and the verdict on the call.

    The winner is the side with the higher unweighted mean score over `primary_groups`, averaged over seeds. Where
    weights are random there is a probe, and a row, for each seed, held against that seed's trials.
    Verdicts: 'hit', 'miss', 'undecided' (no call), 'tie' (no winner), 'not run' (the sweep does not train both sides).
    A verdict that missing rows forbid is null, and `reason` says why. Scores are 0 to 1, kappa's logarithm is of base
    10. PROBE_SOFTMAX_COLUMNS say how sharp the softmax was at which the probe was taken. In `where`, a choice of
    similarity or kind changes nothing here.

    Raises:
        SelectionError: two trials of one cell and seed, primary groups of two evaluation tiers, or a choice that finds
            nothing.
    """
    chosen = select_trials(expected, where or {})
    refuse_repeats(chosen)
    trained = chosen.filter(pl.col("kind") == "train")
    found = predictions(probes).join(probe_softmax(probes), on="probe_id", how="left", maintain_order="left")
    calls = _calls(trained, found)
    in_primary = trained.filter(pl.col("group").is_in(primary_groups) & pl.col("similarity").is_in(SIDES))
    scores = _primary_scores(group_scores(per_query, in_primary))
    rows = [_row(call, _observe(call, scores)) for call in calls.iter_rows(named=True)]
    added = {"qnorm_score": pl.Float64, "dnorm_score": pl.Float64, "num_seeds": pl.Int64}
    texts = dict.fromkeys(["statistic", "scale", "winner", "verdict"], pl.String)
    return pl.DataFrame(rows, schema={**calls.schema, **added, **texts}).select(
        *("predictor", "statistic", "training_data", "scale", "family", "layers", "init_regime", "seed"),
        *("qnorm_min", "qnorm_max", "dnorm_min", "dnorm_max", "difference_min", "difference_max", "low", "high"),
        *PROBE_SOFTMAX_COLUMNS,
        *("call", "qnorm_score", "dnorm_score", "winner", "verdict", "num_seeds", "reason"),
    )


def _calls(trained: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Every predictor's call for every trained cell (and seed, where weights are random); empty without its probe."""
    seeded = [regime.name for regime in INIT_REGIMES.values() if regime.seeded]
    cells = trained.with_columns(seed=pl.when(pl.col("init_regime").is_in(seeded)).then("seed"))
    cells = cells.select(*_CELL, "seed").unique(maintain_order=True)
    asked = cells.join(pl.DataFrame({"predictor": list(PREDICTORS)}), how="cross")
    known = calls.drop("probe_id").with_columns(has_probe=pl.lit(value=True))
    key = [*_CELL, "seed", "predictor"]
    found = asked.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")
    reason = pl.when(pl.col("has_probe").is_null()).then(pl.lit(PROBE_MISSING)).otherwise("reason")
    return found.with_columns(reason=reason).drop("has_probe")


def _primary_scores(scores: pl.DataFrame) -> pl.DataFrame:
    """Each trial's unweighted mean over the primary groups."""
    return scores.group_by(["trial_id", *_CELL, "seed", "similarity"], maintain_order=True).agg(mean_if_whole("score"))


def _observe(cell: Mapping[str, Any], scores: pl.DataFrame) -> Observed:
    same = [pl.col(name).eq_missing(cell[name]) for name in _CELL]
    if cell["seed"] is not None:
        same.append(pl.col("seed") == cell["seed"])
    here = scores.filter(*same)
    sides = {side: here.filter(pl.col("similarity") == side) for side in SIDES}
    return Observed(
        scores={side: rows.select(mean_if_whole("score")).item() for side, rows in sides.items()},
        seeds={side: tuple(rows["seed"].sort()) for side, rows in sides.items()},
    )


def _row(call: Mapping[str, Any], observed: Observed) -> dict[str, Any]:
    verdict, reason = _verdict(call, observed)
    return {
        **call,
        "statistic": PREDICTORS[call["predictor"]].statistic,
        "scale": scale_name(call["scale_mode"], call["scale_value"]),
        "qnorm_score": observed.scores["qnorm"],
        "dnorm_score": observed.scores["dnorm"],
        "winner": observed.winner,
        "verdict": verdict,
        "num_seeds": len({*observed.seeds["qnorm"], *observed.seeds["dnorm"]}),
        "reason": reason,
    }


def _verdict(call: Mapping[str, Any], observed: Observed) -> tuple[Verdict | None, str | None]:
    if observed.not_trained:
        return "not run", f"the sweep does not train {' and '.join(observed.not_trained)} here"
    if observed.winner is None:
        return None, ROWS_MISSING
    if observed.seeds["qnorm"] != observed.seeds["dnorm"]:
        return None, "qnorm and dnorm have different seeds"
    if call["call"] is None:
        return None, call["reason"]
    if call["call"] == "undecided":
        return "undecided", None
    if observed.winner == "tie":
        return "tie", None
    return ("hit" if call["call"] == observed.winner else "miss"), None
