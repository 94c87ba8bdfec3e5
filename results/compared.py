"""Which trained similarities of a cell can be compared on a group: the same seeds, every query; as dense scores."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from results.query_scores import DataKey, QueryScores, data_set_scores_of
from results.scores import ROWS_MISSING, refuse_mixed_measures
from results.selection import refuse_mixed_tiers, scale_name
from results.statistics.contrasts import paired_gain
from results.statistics.estimate import Estimate, Target
from results.statistics.groups import GroupScores
from search_spaces.catalogue.similarities import SIMILARITIES

MODEL = ("task", "training_data", "training_data_hash", "scale_mode", "scale_value", "family", "layers")
TRAINING = (*MODEL, "init_regime")
UNLIKE_SEEDS = "its seeds are not those it is compared with"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The similarities that one model and init regime was trained with, on one group or data set.

    Attributes:
        training: the values of TRAINING, and `scale` as text.
        group: its name, or that of the data set.
        measure: the main one.
        similarities: all that were trained, in the catalogue's order.
        num_data_sets: of the group; one of several parts counts once.
        scores: of those that can be compared; None where there is none.
        seeds: of the trainings that are compared.
        trial_ids: by similarity, in the order of seeds.
        reasons: why a similarity is not in `scores`.
    """

    training: Mapping[str, Any]
    group: str
    measure: str
    similarities: tuple[str, ...]
    num_data_sets: int
    scores: GroupScores | None
    seeds: tuple[int, ...]
    trial_ids: Mapping[str, tuple[str, ...]]
    reasons: Mapping[str, str]
    _gains: dict[tuple[str, str, Target], Estimate] = field(default_factory=dict, repr=False, compare=False)

    def gain(self, similarity: str, baseline: str, target: Target = "these data sets") -> Estimate:
        """`paired_gain` of its scores, found once: several tables show it. Both can be compared."""
        key = (similarity, baseline, target)
        if key not in self._gains:
            assert self.scores is not None, "what cannot be compared has no gain"
            self._gains[key] = paired_gain(self.scores, similarity, baseline, target=target)
        return self._gains[key]

    @property
    def cell(self) -> dict[str, Any]:
        """What names a row of a table, but for the similarity."""
        return {**self.training, "group": self.group, "measure": self.measure}

    def has(self, *similarities: str) -> bool:
        """Whether all of them can be compared."""
        return self.scores is not None and set(similarities) <= set(self.scores.columns)

    def why_not(self, *similarities: str) -> str:
        """Why they cannot be compared."""
        absent = [name for name in similarities if not self.has(name)]
        told = [f"{name}: {self.reasons.get(name, 'the sweep trains none here')}" for name in absent]
        return "; ".join(told)


CELL_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("task", "training_data", "training_data_hash", "scale_mode"), pl.String),
    "scale_value": pl.Float64,
    "family": pl.String,
    "layers": pl.Int64,
    **dict.fromkeys(("init_regime", "scale", "group", "measure"), pl.String),
}


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A similarity's trials, and whether no query of theirs is missing on any data set."""

    seeds: tuple[int, ...]
    trial_ids: tuple[str, ...]
    score_similarity: str
    is_whole: bool


class Comparisons:
    """The cells of some trained rows: which of a cell's similarities are compared follows from whose seeds count."""

    def __init__(self, scores: Mapping[DataKey, QueryScores], expected: pl.DataFrame) -> None:
        """Find each model, init regime and group of the trained rows of `expected`, in its order.

        Args:
            scores: those of `query_scores.query_scores`.
            expected: that of `Collected`, chosen; or what `scores.by_data_set` makes of it.

        Raises:
            MixedMeasuresError: a group whose data sets have different main measures.
            SelectionError: some of the scores are on pools, and others over whole corpora.
        """
        trained = expected.filter(pl.col("kind") == "train")
        refuse_mixed_measures(trained)
        refuse_mixed_tiers(trained)
        keys = [*TRAINING, "group", "measure"]
        split_up = _with_several_splits(trained)
        self._cells = [
            _Cell(scores, dict(zip(keys, key, strict=True)), rows, split_up)
            for key, rows in trained.group_by(keys, maintain_order=True)
        ]

    def like(self, *similarities: str) -> list[Compared]:
        """Each cell, with the similarities that have the seeds of those named (of all where none is named, or trained).

        Where these have different seeds among themselves, the seeds of most of them count; of as many the longer
        list, then the first in the catalogue's order.
        """
        return [cell.like(similarities) for cell in self._cells]


class _Cell:
    """One model, init regime and group. What is compared alike is one object, since several tables show it."""

    def __init__(
        self,
        scores: Mapping[DataKey, QueryScores],
        key: Mapping[str, Any],
        rows: pl.DataFrame,
        split_up: Collection[str],
    ) -> None:
        data = rows.select("data_set", "data_hash", "split", "tier", "part_of").unique(maintain_order=True)
        self._key = key
        self._names = _names(data, split_up)
        of_data = data.select("data_set", "data_hash", "split", "tier").iter_rows(named=True)
        keys = [DataKey(**row, measure=key["measure"]) for row in of_data]
        self._data = [scores.get(data_key) for data_key in keys]
        self._found = {name: _candidate(self._data, of) for name, of in _by_similarity(rows)}
        self._made: dict[tuple[str, ...], Compared] = {}

    def like(self, similarities: Sequence[str]) -> Compared:
        alike = tuple(_alike(self._found, similarities))
        if alike not in self._made:
            self._made[alike] = self._compared(alike)
        return self._made[alike]

    def _compared(self, alike: Sequence[str]) -> Compared:
        found = self._found
        training = {name: self._key[name] for name in TRAINING}
        training["scale"] = scale_name(training["scale_mode"], training["scale_value"])
        return Compared(
            training=training,
            group=self._key["group"],
            measure=self._key["measure"],
            similarities=tuple(found),
            num_data_sets=len({whole for _, whole in self._names}),
            scores=self._group(training, alike) if alike else None,
            seeds=found[alike[0]].seeds if alike else (),
            trial_ids={name: candidate.trial_ids for name, candidate in found.items()},
            reasons={n: UNLIKE_SEEDS if c.is_whole else ROWS_MISSING for n, c in found.items() if n not in alike},
        )

    def _group(self, training: Mapping[str, Any], alike: Sequence[str]) -> GroupScores:
        sides = [(self._found[name].score_similarity, self._found[name].trial_ids) for name in alike]
        return GroupScores(
            name=self._key["group"],
            trainings=" ".join(str(training[name]) for name in TRAINING),
            columns=tuple(alike),
            data_sets=tuple(
                data_set_scores_of(of_data, sides, name=name, part_of=whole)
                for (name, whole), of_data in zip(self._names, self._data, strict=True)
                if of_data is not None  # which it is not where something is compared
            ),
        )


def _with_several_splits(rows: pl.DataFrame) -> Collection[str]:
    """The data sets of which there are several splits, be it in several groups: their queries are not the same."""
    splits = rows.group_by("data_set").agg(pl.col("split").n_unique())
    return set(splits.filter(pl.col("split") > 1)["data_set"])


def _names(data: pl.DataFrame, split_up: Collection[str]) -> list[tuple[str, str]]:
    """(own name, that of the whole) of each data set; contrasts pair queries of data sets with one name."""
    found = []
    for row in data.rows(named=True):
        name = f"{row['data_set']} ({row['split']})" if row["data_set"] in split_up else row["data_set"]
        found.append((name, row["part_of"] or name))
    return found


def _by_similarity(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    order = {name: place for place, name in enumerate(SIMILARITIES)}
    parts = rows.partition_by("similarity", as_dict=True, maintain_order=True)
    for name in sorted((str(key[0]) for key in parts), key=lambda n: order.get(n, len(order))):
        yield name, parts[name,].unique("trial_id", keep="first", maintain_order=True).sort("seed")


def _candidate(data: Sequence[QueryScores | None], trials: pl.DataFrame) -> _Candidate:
    ids, similarity = tuple(trials["trial_id"]), trials["score_similarity"][0]
    is_whole = all(of is not None and of.seeds_by_queries(ids, similarity) is not None for of in data)
    return _Candidate(
        seeds=tuple(trials["seed"]), trial_ids=ids, score_similarity=similarity, is_whole=bool(data) and is_whole
    )


def _alike(found: Mapping[str, _Candidate], similarities: Sequence[str]) -> list[str]:
    """Those of which nothing is missing, with the seeds that `Comparisons.like` says."""
    whole = [name for name, candidate in found.items() if candidate.is_whole]
    if not whole:
        return []
    named = [name for name in found if name in similarities]
    deciding = [name for name in named if name in whole] or named or whole
    seeds = [found[name].seeds for name in deciding]
    most = max(seeds, key=lambda of: (seeds.count(of), len(of)))
    return [name for name in whole if found[name].seeds == most]
