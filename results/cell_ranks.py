"""Similarities ranked over the data sets of a group: Friedman's test, and the data sets that each really won."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from results.compared import CELL_TYPES, Compared
from results.statistics.corrections import Correction, adjust
from results.statistics.groups import GroupScores, group_means
from results.statistics.ranks import PostHoc, Ranking, data_sets_won, rank_over_data_sets
from results.statistics.winners import Winner, winner_of

_TYPES = {
    **CELL_TYPES,
    "similarity": pl.String,
    "mean_rank": pl.Float64,
    **dict.fromkeys(("num_best", "num_won", "num_data_sets"), pl.Int64),
    **dict.fromkeys(("friedman", "friedman_p", "baseline_p", "first_p", "critical_difference"), pl.Float64),
    **dict.fromkeys(("reason", "trial_ids", "compared_trial_ids"), pl.String),
    "num_seeds": pl.Int64,
}


_Pairs = Mapping[tuple[str, str], float | None]


@dataclass(frozen=True, kw_only=True)
class _Won:
    """By similarity, the data sets where it scores best, and those it really won."""

    best: Mapping[str, int]
    won: Mapping[str, int]


def cell_ranks(
    cells: Sequence[Compared], baseline: str, *, post_hoc: PostHoc = "holm", correction: Correction = "holm"
) -> pl.DataFrame:
    """One row for each similarity of a model, init regime and group of two data sets or more.

    Columns: those of CELL_TYPES, `similarity`, `mean_rank` (1 is best), `num_best` of `num_data_sets` where it scores
    best, `num_won` where it can also be told from the second there (p of the leads adjusted over all data sets of all
    rows), Friedman's chi square and p (the same in a cell's rows), `adjusted_p` (Friedman's, over the cells), and p of
    the pair with the baseline and with the first in rank, from the post-hoc test: Holm's over all pairs of all cells,
    Nemenyi's, which is a test of one cell, over that cell's. `reason` says why there is none.
    Similarities that cannot be compared are left out, unless none can.
    """
    several = [cell for cell in cells if cell.num_data_sets > 1]
    won = _won(several, correction)
    rankings = [_ranking(cell.scores, post_hoc) for cell in several]
    pairs = _adjusted_pairs(rankings)
    found = [_rows(*of_cell, baseline) for of_cell in zip(several, rankings, pairs, won, strict=True)]
    one_each = adjust([rows[0]["friedman_p"] for rows in found], correction)
    adjusted_p = [p for rows, p in zip(found, one_each, strict=True) for _ in rows]
    frame = pl.DataFrame([row for rows in found for row in rows], schema=_TYPES)
    return frame.with_columns(pl.Series("adjusted_p", adjusted_p, dtype=pl.Float64))


def _won(cells: Sequence[Compared], correction: Correction) -> list[_Won]:
    of_cell = [_winners(cell.scores) for cell in cells]
    every = [winner for winners in of_cell for winner in winners]
    left = iter(adjust([winner.lead.p for winner in every], correction))
    return [_counted(winners, [next(left) for _ in winners]) for winners in of_cell]


def _winners(group: GroupScores | None) -> list[Winner]:
    return [winner_of(alone) for alone in _alone(group)] if group and len(group.columns) > 1 else []


def _counted(winners: Sequence[Winner], adjusted_p: Sequence[float | None]) -> _Won:
    best = [winner.best for winner in winners]
    return _Won(best={name: best.count(name) for name in best}, won=data_sets_won(winners, adjusted_p))


def _alone(group: GroupScores) -> list[GroupScores]:
    return [replace(group, name=name, data_sets=tuple(parts)) for name, parts in group.members.items()]


def _ranking(group: GroupScores | None, post_hoc: PostHoc) -> Ranking | None:
    if group is None or len(group.columns) < 2:
        return None
    scores_JC = np.stack([group_means(alone) for alone in _alone(group)])
    return rank_over_data_sets(scores_JC, group.columns, post_hoc=post_hoc)


def _adjusted_pairs(rankings: Sequence[Ranking | None]) -> list[_Pairs]:
    """The p of each ranking's pairs."""
    unadjusted = [(ranking.unadjusted_pair_p if ranking else None) or {} for ranking in rankings]
    left = iter(adjust([p for of_cell in unadjusted for p in of_cell.values()], "holm"))
    over_all = [{pair: next(left) for pair in of_cell} for of_cell in unadjusted]
    return [own or (ranking.pair_p if ranking else None) or {} for own, ranking in zip(over_all, rankings, strict=True)]


def _rows(cell: Compared, ranking: Ranking | None, pairs: _Pairs, won: _Won, baseline: str) -> list[dict[str, Any]]:
    group = cell.scores
    if group is None or ranking is None:
        reason = cell.why_not(*cell.similarities) or "only one similarity is trained here"
        return [
            {
                **cell.cell,
                "similarity": name,
                "friedman_p": None,
                "reason": reason,
                "trial_ids": " ".join(cell.trial_ids[name]),
            }
            for name in cell.similarities
        ]
    compared = " ".join(trial for name in group.columns for trial in cell.trial_ids[name])
    first = min(group.columns, key=lambda name: ranking.mean_ranks[name])
    return [
        {
            **cell.cell,
            "similarity": name,
            "mean_rank": ranking.mean_ranks[name],
            "num_best": won.best.get(name, 0),
            "num_won": won.won.get(name, 0),
            "num_data_sets": ranking.num_data_sets,
            "friedman": ranking.statistic,
            "friedman_p": ranking.p,
            "baseline_p": pairs.get((name, baseline), pairs.get((baseline, name))),
            "first_p": pairs.get((name, first), pairs.get((first, name))),
            "critical_difference": ranking.critical_difference,
            "reason": ranking.reason,
            "trial_ids": " ".join(cell.trial_ids[name]),
            "compared_trial_ids": compared,
            "num_seeds": len(cell.seeds),
        }
        for name in group.columns
    ]
