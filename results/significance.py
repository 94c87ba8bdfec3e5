"""Every comparison with a baseline and what tells it from chance: two-way model, crossed bootstrap, paired test."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from results.compared import CELL_TYPES, Compared
from results.estimates import adjusted, interval_columns, interval_types
from results.statistics.bootstrap import Draws, bootstrap_group_means, percentile_interval
from results.statistics.contrasts import paired_gain
from results.statistics.corrections import Correction
from results.statistics.groups import DataSetScores, GroupScores
from results.statistics.paired_tests import PairedTest, d_z, data_set_gains, group_differences, paired_test

SEVERAL = "signed ranks of queries from several data sets or parts have no common scale"
_TYPES = {
    **CELL_TYPES,
    "similarity": pl.String,
    "gain": pl.Float64,
    **{name: dtype for prefix in ("gain", "new_gain") for name, dtype in interval_types(prefix).items()},
    **dict.fromkeys(("df", "seed_share", "bootstrap_low", "bootstrap_high", "fixed_p"), pl.Float64),
    "fixed_reason": pl.String,
    "d_z": pl.Float64,
    "d_z_unit": pl.String,
    "sources": pl.String,
    **dict.fromkeys(("num_seeds", "num_data_sets", "num_queries"), pl.Int64),
    **dict.fromkeys(("trial_ids", "baseline_trial_ids"), pl.String),
}


@dataclass(frozen=True, kw_only=True)
class Methods:
    """How comparisons are tested: the correction over all of them, the per query test, the bootstrap's draws."""

    correction: Correction = "holm"
    paired_test: PairedTest = "t"
    draws: Draws = field(default_factory=Draws)


def significance(cells: Sequence[Compared], baseline: str, tests: Methods) -> pl.DataFrame:
    """One row for each model, init regime, group and trained similarity but the baseline.

    One that cannot be compared with it has only `gain_reason`. Columns: those of CELL_TYPES, `similarity`, `gain`, and

    - `interval_columns` of `gain` (for these data sets) and `new_gain`, from the two-way model, with `df` and
      `seed_share`,
    - `bootstrap_low` and `bootstrap_high`, the crossed bootstrap's interval for these data sets: a check,
    - `fixed_p`, of the per query test for 'these seeds only',
    - `d_z`, the paired effect size in standard deviations between `d_z_unit`: data sets, or queries of one,
    - `adjusted_p`, `adjusted_new_p` and `adjusted_fixed_p`: the p values, each adjusted over all rows.
    """
    bootstrapped = bootstrap_intervals(cells, baseline, tests.draws)
    rows = [row for cell in cells for row in _rows(cell, baseline, tests, bootstrapped)]
    frame = pl.DataFrame(rows, schema=_TYPES)
    for p, into in (
        ("gain_p", "adjusted_p"),
        ("new_gain_p", "adjusted_new_p"),
        ("fixed_p", "adjusted_fixed_p"),
    ):
        frame = adjusted(frame, p, into, tests.correction)
    return frame


def bootstrap_intervals(
    cells: Iterable[Compared], baseline: str, draws: Draws
) -> Mapping[tuple[int, str], tuple[float, float]]:
    """The crossed bootstrap's interval of each gain for these data sets, by the identity of its cell and similarity.

    Cells of one group and number of seeds stand side by side, so that the weights of a data set are made once.
    """
    alike: dict[tuple[Any, ...], list[Compared]] = {}
    for cell in cells:
        if cell.scores is not None and cell.has(baseline):
            shapes = tuple((part.name, part.values_CSQ.shape[1:]) for part in cell.scores.data_sets)
            alike.setdefault((cell.group, shapes), []).append(cell)
    found = {}
    for together in alike.values():
        groups = [cell.scores for cell in together if cell.scores is not None]
        means_BC = bootstrap_group_means(_side_by_side(groups), draws)
        start = 0
        for cell, group in zip(together, groups, strict=True):
            of_cell_BC = means_BC[:, start : start + len(group.columns)]
            start += len(group.columns)
            base_B = of_cell_BC[:, group.columns.index(baseline)]
            for place, similarity in enumerate(group.columns):
                found[id(cell), similarity] = percentile_interval(of_cell_BC[:, place] - base_B)
    return found


def _side_by_side(groups: Sequence[GroupScores]) -> GroupScores:
    """Groups on the same queries as one, whose columns are those of each in turn."""
    first = groups[0]
    columns = tuple(f"{place} {column}" for place, group in enumerate(groups) for column in group.columns)
    parts = zip(*(group.data_sets for group in groups), strict=True)
    return replace(first, columns=columns, data_sets=tuple(_stacked(part) for part in parts))


def _stacked(parts: Sequence[DataSetScores]) -> DataSetScores:
    return replace(parts[0], values_CSQ=np.concatenate([part.values_CSQ for part in parts]))


def _rows(
    cell: Compared, baseline: str, tests: Methods, bootstrapped: Mapping[tuple[int, str], tuple[float, float]]
) -> Iterator[dict[str, Any]]:
    group = cell.scores
    for similarity in cell.similarities:
        if similarity == baseline:
            continue
        if group is None or not cell.has(similarity, baseline):
            yield {**cell.cell, "similarity": similarity, "gain_reason": cell.why_not(similarity, baseline)}
            continue
        gain = cell.gain(similarity, baseline)
        fixed_p, fixed_reason = _fixed_seeds_p(group, similarity, baseline, tests.paired_test)
        low, high = bootstrapped[id(cell), similarity]
        several = len(group.members) > 1
        units = (data_set_gains if several else group_differences)(group, similarity, baseline)
        yield {
            **cell.cell,
            "similarity": similarity,
            "gain": gain.value,
            **interval_columns("gain", gain),
            **interval_columns("new_gain", cell.gain(similarity, baseline, "new data sets")),
            "df": gain.df,
            "seed_share": gain.seed_share,
            "bootstrap_low": low,
            "bootstrap_high": high,
            "fixed_p": fixed_p,
            "fixed_reason": fixed_reason,
            "d_z": d_z(units),
            "d_z_unit": "data sets" if several else "queries",
            "sources": gain.sources,
            "num_seeds": gain.num_seeds,
            "num_data_sets": len(group.members),
            "num_queries": sum(part.values_CSQ.shape[2] for part in group.data_sets),
            "trial_ids": " ".join(cell.trial_ids[similarity]),
            "baseline_trial_ids": " ".join(cell.trial_ids[baseline]),
        }


def _fixed_seeds_p(
    group: GroupScores, similarity: str, baseline: str, test: PairedTest
) -> tuple[float | None, str | None]:
    """The p of a per query test with these checkpoints, or why there is none."""
    if test == "t":  # on one data set the paired t-test; over several, the sum of their variances
        found = paired_gain(group, similarity, baseline, sources="these seeds only")
        return found.p, None if found.p is not None else found.reason
    if test == "wilcoxon" and len(group.data_sets) > 1:
        return None, SEVERAL
    result = paired_test(group_differences(group, similarity, baseline), test)
    return result.p, result.reason
