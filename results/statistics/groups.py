"""A group's scores as dense arrays, and the layouts that a contrast of its similarities has for either target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from results.statistics.estimate import Floats, Target
from results.statistics.two_way import Layout


@dataclass(frozen=True, kw_only=True)
class DataSetScores:
    """All scores on one data set, or on one forum of it.

    Attributes:
        name: its own name, for example 'cqadupstack/android'.
        part_of: the data set that counts in the group's mean: parts of one data set are averaged before it.
        values_CSQ: 0 to 1, by column, seed and query; paired, so seeds and queries have one order for all columns.
    """

    name: str
    part_of: str
    values_CSQ: Floats


@dataclass(frozen=True, kw_only=True)
class GroupScores:
    """The scores of one cell (family, init regime, ...) on one group.

    Attributes:
        name: the group's.
        trainings: names what was trained: groups of one name share their seeds' checkpoints.
        columns: what is compared, the similarities.
        data_sets: at least one; their group mean is unweighted.
    """

    name: str
    trainings: str
    columns: tuple[str, ...]
    data_sets: tuple[DataSetScores, ...]

    @property
    def members(self) -> dict[str, list[DataSetScores]]:
        """The parts of each data set that counts."""
        found: dict[str, list[DataSetScores]] = {}
        for data_set in self.data_sets:
            found.setdefault(data_set.part_of, []).append(data_set)
        return found


def group_means(group: GroupScores) -> Floats:
    """The mean of each column, shape (C,): over seeds and queries, then parts, then data sets."""
    return np.mean(
        [np.mean([part.values_CSQ.mean(axis=(1, 2)) for part in parts], axis=0) for parts in group.members.values()],
        axis=0,
    )


def coefficient_vector(group: GroupScores, coefficients: Mapping[str, float]) -> Floats:
    """The coefficients in the order of the group's columns, shape (C,).

    Raises:
        ValueError: a coefficient of a column that the group lacks.
    """
    unknown = [name for name in coefficients if name not in group.columns]
    if unknown:
        raise ValueError(f"group '{group.name}' has no '{unknown[0]}' (it has {', '.join(group.columns)})")
    return np.array([coefficients.get(column, 0.0) for column in group.columns])


def contrast_layouts(
    group: GroupScores, coefficients_C: Floats, *, target: Target, weight: float = 1.0
) -> list[Layout]:
    """The layouts whose `two_way.mean_of` is `weight` times the group mean of the coefficients' sum.

    For 'these data sets' there is one for each part, seeds crossed with its queries. For 'new data sets' the data sets
    are the sample: one layout of seeds crossed with data sets.
    """
    sums = {part.name: np.tensordot(coefficients_C, part.values_CSQ, axes=1) for part in group.data_sets}
    if target == "these data sets":
        return _over_queries(group, sums, weight)
    return [_over_data_sets(group, sums, weight)]


def shared_data_sets(groups: Sequence[GroupScores]) -> list[str]:
    """Data sets that count in more than one of the groups, sorted."""
    names = [name for group in groups for name in group.members]
    return sorted({name for name in names if names.count(name) > 1})


def _over_queries(group: GroupScores, sums: Mapping[str, Floats], weight: float) -> list[Layout]:
    members = group.members
    return [
        Layout(
            values_SQ=sums[part.name],
            weight=weight / len(members) / len(parts),
            seeds=group.trainings,
            queries=part.name,
        )
        for parts in members.values()
        for part in parts
    ]


def _over_data_sets(group: GroupScores, sums: Mapping[str, Floats], weight: float) -> Layout:
    # By name, so that the data sets of two trainings are paired.
    members = [group.members[name] for name in sorted(group.members)]
    columns = [np.mean([sums[part.name].mean(axis=1) for part in parts], axis=0) for parts in members]
    return Layout(values_SQ=np.stack(columns, axis=1), weight=weight, seeds=group.trainings, queries=group.name)
