"""How scores and gains vary between the seeds of a cell, and how many seeds a claim needs there."""

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from results.compared import CELL_TYPES, Compared
from results.statistics.contrasts import paired_gain
from results.statistics.power import MIN_SEEDS
from results.statistics.spread import Spread, gain_spread, seed_scores

_TYPES = {
    **CELL_TYPES,
    **dict.fromkeys(("similarity", "seeds"), pl.String),
    "num_seeds": pl.Int64,
    **dict.fromkeys(("score", "score_std", "score_min", "score_max"), pl.Float64),
    **dict.fromkeys(("gain", "seed_std", "seeds_error", "queries_error", "rest_error", "seed_share"), pl.Float64),
    **dict.fromkeys(("num_needed", "num_short"), pl.Int64),
    **dict.fromkeys(("trial_ids", "baseline_trial_ids", "reason"), pl.String),
}


def seed_spread(cells: Iterable[Compared], baseline: str) -> pl.DataFrame:
    """One row for each model, init regime, group and similarity, compared or not.

    Columns: those of CELL_TYPES, `similarity`, `seeds` (with spaces between), mean, standard deviation, lowest and
    highest of the score over seeds, the gain with what `statistics.spread.Spread` says of it, the share of its variance
    that seeds bring, `num_needed`, at least MIN_SEEDS, and `num_short`, how many seeds there are too few. Scores and
    gains are 0 to 1. What one seed cannot tell is null.
    """
    return pl.DataFrame([row for cell in cells for row in _rows(cell, baseline)], schema=_TYPES)


def _rows(cell: Compared, baseline: str) -> Iterator[dict[str, Any]]:
    for similarity in cell.similarities:
        ids = cell.trial_ids[similarity]
        row = {**cell.cell, "similarity": similarity, "num_seeds": len(ids), "trial_ids": " ".join(ids)}
        row["baseline_trial_ids"] = " ".join(cell.trial_ids.get(baseline, ())) or None
        if cell.scores is None or similarity not in cell.scores.columns:
            yield {**row, "reason": cell.why_not(similarity)}
            continue
        by_seed = pl.Series(seed_scores(cell.scores, similarity))
        row |= {"seeds": " ".join(map(str, cell.seeds)), "score": by_seed.mean(), "score_std": by_seed.std()}
        row |= {"score_min": by_seed.min(), "score_max": by_seed.max()}
        yield row | _of_gain(cell, similarity, baseline)


def _of_gain(cell: Compared, similarity: str, baseline: str) -> dict[str, Any]:
    if similarity == baseline:
        return {}
    if cell.scores is None or not cell.has(baseline):
        return {"reason": cell.why_not(baseline)}
    gain = paired_gain(cell.scores, similarity, baseline)
    spread = gain_spread(cell.scores, similarity, baseline)
    needed = _needed(spread)
    return {
        "gain": gain.value,
        "seed_std": spread.seed_std,
        "seeds_error": spread.seeds_error,
        "queries_error": spread.queries_error,
        "rest_error": spread.rest_error,
        "seed_share": gain.seed_share,
        "num_needed": needed,
        "num_short": max(needed - len(cell.seeds), 0) if needed is not None else None,
        "reason": gain.reason,
    }


def _needed(spread: Spread) -> int | None:
    """Without any spread between seeds the fewest are enough; with one seed it is unknown."""
    if spread.seed_std is None:
        return None
    return spread.num_needed or (MIN_SEEDS if spread.seed_std <= 1e-12 else None)
