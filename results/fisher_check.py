"""The Fisher check: what predictors called before training, held against which of qnorm and dnorm won, per group."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from results.observed_sides import SIDES, Observed, observe
from results.predictions import PREDICTORS, applicable, needs_pilots, predictions
from results.query_scores import DataKey, QueryScores
from results.scores import ROWS_MISSING, group_means
from results.selection import refuse_repeats, scale_name, select_trials
from results.softmax import PROBE_SOFTMAX_COLUMNS, probe_softmax
from search_spaces.catalogue.init_regimes import INIT_REGIMES

Verdict = Literal["hit", "miss", "undecided", "tie", "not run"]
PRIMARY = "primary"  # the mean of several primary groups, as a group of its own
PROBE_MISSING = "its probe is missing"
DERIVED_REASONS = (ROWS_MISSING, PROBE_MISSING)  # they follow from what collect lists as missing
COLUMNS = (
    *("predictor", "statistic", "training_data", "scale", "family", "layers", "init_regime", "seed"),
    *("group", "is_primary", "measure"),
    *("qnorm_min", "qnorm_max", "dnorm_min", "dnorm_max", "difference_min", "difference_max", "low", "high"),
    *PROBE_SOFTMAX_COLUMNS,
    *("call", "qnorm_score", "dnorm_score", "gain", "gain_low", "gain_high", "gain_p", "sources"),
    *("winner", "verdict", "num_seeds", "reason", "probe_id", "trial_ids"),
)
_CELL = ["training_data", "training_data_hash", "scale_mode", "scale_value", "family", "layers", "init_regime"]
_ADDED = {
    **dict.fromkeys(["statistic", "scale", "group", "measure"], pl.String),
    "is_primary": pl.Boolean,
    **dict.fromkeys(["qnorm_score", "dnorm_score", "gain", "gain_low", "gain_high", "gain_p"], pl.Float64),
    **dict.fromkeys(["sources", "winner", "verdict", "trial_ids"], pl.String),
    "num_seeds": pl.Int64,
}


def fisher_check(
    probes: pl.DataFrame,
    data_set_scores: pl.DataFrame,
    query_scores: Mapping[DataKey, QueryScores],
    expected: pl.DataFrame,
    *,
    primary_groups: Sequence[str],
    where: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """One row per predictor, trained cell and group: the call, the observed winner, and the verdict on the call.

    The first rows of a cell (`is_primary`) are of the primary groups, declared before running: where there are several
    of them, their unweighted mean, as group PRIMARY: over all of them, never over a part. `gain` is qnorm's score
    minus dnorm's, seeds averaged, with the interval and p of the two-way model (`results.statistics.contrasts`); the
    winner is the side on which that interval lies, 'tie' where it holds 0 or is unknown (a difference that is the same
    in every query decides by its sign).
    Where weights are random there is a probe, and a row, for each seed, held against that
    seed's trials. `sources` says what the interval takes as random: with one seed the winner is one of these
    checkpoints, not of the similarity.

    Verdicts: 'hit', 'miss', 'undecided' (no call), 'tie' (no winner), 'not run' (the sweep does not train both sides,
    or does not evaluate them on a group that counts; `reason` says which).
    A verdict that missing rows forbid is null, and `reason` says why. Scores are 0 to 1, kappa's logarithm is of base
    10. PROBE_SOFTMAX_COLUMNS say how sharp the softmax was at which the probe was taken. Frames and scores are those of
    `results.collect.Collected`. In `where`, a choice of similarity or kind changes nothing here.

    Raises:
        SelectionError: two trials of one cell and seed, two evaluation tiers, or a choice that finds nothing.
        MixedMeasuresError: a group whose data sets have different main measures.
    """
    chosen = select_trials(expected, where or {})
    refuse_repeats(chosen)
    trained = chosen.filter(pl.col("kind") == "train")
    found = predictions(probes).join(probe_softmax(probes), on="probe_id", how="left", maintain_order="left")
    calls = _calls(trained, found, applicable(probes))
    sides = trained.filter(pl.col("similarity").is_in(SIDES))
    observed = _Observations(sides, group_means(data_set_scores, sides), query_scores, primary_groups)
    rows = [row for call in calls.iter_rows(named=True) for row in observed.rows(call)]
    return pl.DataFrame(rows, schema={**calls.schema, **_ADDED}).select(COLUMNS)


def _calls(trained: pl.DataFrame, calls: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """The predictors' calls for every trained cell (and seed, where weights are random); empty without its probe.

    `said`: which of them say something of which probe; of a cell without one, those that say something of any do.
    """
    seeded = [regime.name for regime in INIT_REGIMES.values() if regime.seeded]
    cells = trained.with_columns(seed=pl.when(pl.col("init_regime").is_in(seeded)).then("seed"))
    cells = cells.select(*_CELL, "seed").unique(maintain_order=True)
    of_any = set(said["predictor"]) or {name for name in PREDICTORS if not needs_pilots(name)}
    asked = cells.join(pl.DataFrame({"predictor": [name for name in PREDICTORS if name in of_any]}), how="cross")
    key = [*_CELL, "seed", "predictor"]
    found = asked.join(calls, on=key, how="left", nulls_equal=True, maintain_order="left")
    is_said = pl.struct("probe_id", "predictor").is_in(
        said.select(pl.struct("probe_id", "predictor")).to_series().implode()
    )
    is_missing = pl.col("probe_id").is_null() & ~pl.col("predictor").is_in(list(filter(needs_pilots, PREDICTORS)))
    found = found.filter(is_said | is_missing)
    reason = pl.when(pl.col("probe_id").is_null()).then(pl.lit(PROBE_MISSING)).otherwise("reason")
    return found.with_columns(reason=reason)


class _Observations:
    """What was observed in each cell and group; each is computed once, since several predictors are held against it."""

    def __init__(
        self,
        sides: pl.DataFrame,
        means: pl.DataFrame,
        queries: Mapping[DataKey, QueryScores],
        primary_groups: Sequence[str],
    ) -> None:
        self._sides, self._means, self._queries = sides, means, queries
        self._primary = tuple(primary_groups)
        self._known: dict[tuple[Any, ...], list[tuple[str, bool, str | None, Observed]]] = {}

    def rows(self, call: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The rows of one call."""
        cell = tuple(call[name] for name in (*_CELL, "seed"))
        if cell not in self._known:
            self._known[cell] = list(self._observe(cell))
        for group, is_primary, measure, observed in self._known[cell]:
            yield _row(call, observed) | {"group": group, "is_primary": is_primary, "measure": measure}

    def _observe(self, cell: tuple[Any, ...]) -> Iterator[tuple[str, bool, str | None, Observed]]:
        *values, seed = cell
        same = [pl.col(name).eq_missing(value) for name, value in zip(_CELL, values, strict=True)]
        if seed is not None:
            same.append(pl.col("seed") == seed)
        here = self._sides.filter(*same)
        for group, is_primary, members in self._groups():
            measures = here.filter(pl.col("group").is_in(members))["measure"].unique().to_list()
            observed = observe(here, self._means, self._queries, members, cell=" ".join(map(str, cell)))
            yield group, is_primary, measures[0] if len(measures) == 1 else None, observed

    def _groups(self) -> Iterator[tuple[str, bool, Sequence[str]]]:
        """(name, whether the primary one, its groups): the primary one first, then the others in the sweep's order."""
        alone = len(self._primary) == 1
        if self._primary:
            yield self._primary[0] if alone else PRIMARY, True, self._primary
        for group in self._sides["group"].unique(maintain_order=True):
            if not (alone and group in self._primary):
                yield group, False, [group]


def _row(call: Mapping[str, Any], observed: Observed) -> dict[str, Any]:
    verdict, reason = _verdict(call, observed)
    found = observed.difference
    ids = dict.fromkeys(trial for side in SIDES for _, trial in observed.trials[side])
    return {
        **call,
        "statistic": PREDICTORS[call["predictor"]].statistic,
        "scale": scale_name(call["scale_mode"], call["scale_value"]),
        "qnorm_score": observed.scores["qnorm"],
        "dnorm_score": observed.scores["dnorm"],
        "gain": found.value if found else None,
        "gain_low": found.low if found else None,
        "gain_high": found.high if found else None,
        "gain_p": found.p if found else None,
        "sources": found.sources if found else None,
        "winner": observed.winner,
        "verdict": verdict,
        "num_seeds": len({seed for side in SIDES for seed, _ in observed.trials[side]}),
        "reason": reason,
        "trial_ids": "; ".join(ids),
    }


def _verdict(call: Mapping[str, Any], observed: Observed) -> tuple[Verdict | None, str | None]:
    if observed.not_trained:
        return "not run", f"the sweep does not train {' and '.join(observed.not_trained)} here"
    if observed.not_evaluated:
        return "not run", observed.reason
    if observed.difference is None:
        return None, observed.reason
    if call["call"] is None:
        return None, call["reason"]
    if call["call"] == "undecided":
        return "undecided", call["reason"]
    if observed.winner == "tie":
        return "tie", observed.difference.reason if observed.difference.low is None else None
    return ("hit" if call["call"] == observed.winner else "miss"), None
