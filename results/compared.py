"""Which trained similarities of a cell can be compared on a group: the same seeds, every query; as dense scores."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from results.query_scores import DataKey, QueryScores
from results.scores import refuse_mixed_measures
from results.selection import refuse_mixed_tiers, scale_name
from results.statistics.contrasts import paired_gain
from results.statistics.estimate import Estimate, Floats, Target
from results.statistics.groups import DataSetScores, GroupScores
from search_spaces.catalogue.similarities import SIMILARITIES

MODEL = ("task", "training_data", "training_data_hash", "scale_mode", "scale_value", "family", "layers")
TRAINING = (*MODEL, "init_regime")
ROWS_MISSING = "its rows are missing"
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
    """A similarity's trials, and its scores on each data set; None where a query is missing."""

    seeds: tuple[int, ...]
    trial_ids: tuple[str, ...]
    scores: tuple[Floats, ...] | None


def compared(scores: Mapping[DataKey, QueryScores], expected: pl.DataFrame, *, reference: str) -> list[Compared]:
    """One for each model, init regime and group of the trained rows of `expected`, in its order.

    Args:
        scores: those of `query_scores.query_scores`.
        expected: that of `Collected`, chosen; or what `scores.by_data_set` makes of it.
        reference: the similarity whose seeds the others must have; where it was not trained, the first that is whole.

    Raises:
        MixedMeasuresError: a group whose data sets have different main measures.
        SelectionError: some of the scores are on pools, and others over whole corpora.
    """
    trained = expected.filter(pl.col("kind") == "train")
    refuse_mixed_measures(trained)
    refuse_mixed_tiers(trained)
    keys = [*TRAINING, "group", "measure"]
    split_up = _with_several_splits(trained)
    return [
        _compared(scores, dict(zip(keys, key, strict=True)), rows, reference, split_up)
        for key, rows in trained.group_by(keys, maintain_order=True)
    ]


def _compared(
    scores: Mapping[DataKey, QueryScores],
    key: Mapping[str, Any],
    rows: pl.DataFrame,
    reference: str,
    split_up: Collection[str],
) -> Compared:
    data = rows.select("data_set", "data_hash", "split", "tier", "part_of").unique(maintain_order=True)
    names = _names(data, split_up)
    found = {name: _candidate(scores, key["measure"], data, of) for name, of in _by_similarity(rows)}
    like = _alike(found, reference)
    training = {name: key[name] for name in TRAINING}
    training["scale"] = scale_name(training["scale_mode"], training["scale_value"])
    return Compared(
        training=training,
        group=key["group"],
        measure=key["measure"],
        similarities=tuple(found),
        num_data_sets=len({whole for _, whole in names}),
        scores=_group(training, key["group"], names, {name: found[name] for name in like}),
        seeds=found[like[0]].seeds if like else (),
        trial_ids={name: candidate.trial_ids for name, candidate in found.items()},
        reasons={n: UNLIKE_SEEDS if c.scores else ROWS_MISSING for n, c in found.items() if n not in like},
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


def _candidate(
    scores: Mapping[DataKey, QueryScores], measure: str, data: pl.DataFrame, trials: pl.DataFrame
) -> _Candidate:
    ids, similarity = tuple(trials["trial_id"]), trials["score_similarity"][0]
    found = []
    for row in data.iter_rows(named=True):
        of_data = scores.get(DataKey(row["data_set"], row["data_hash"], row["split"], row["tier"], measure))
        values_SQ = None if of_data is None else of_data.seeds_by_queries(ids, similarity)
        if values_SQ is None:
            return _Candidate(seeds=tuple(trials["seed"]), trial_ids=ids, scores=None)
        found.append(values_SQ)
    return _Candidate(seeds=tuple(trials["seed"]), trial_ids=ids, scores=tuple(found))


def _alike(found: Mapping[str, _Candidate], reference: str) -> list[str]:
    """Those with the reference's seeds of which nothing is missing."""
    whole = [name for name, candidate in found.items() if candidate.scores]
    if not whole:
        return []
    first = found[reference if reference in found else whole[0]]
    return [name for name in whole if found[name].seeds == first.seeds]


def _group(
    training: Mapping[str, Any], group: str, names: Sequence[tuple[str, str]], alike: Mapping[str, _Candidate]
) -> GroupScores | None:
    if not alike:
        return None
    by_data = zip(*(candidate.scores or () for candidate in alike.values()), strict=True)
    return GroupScores(
        name=group,
        trainings=" ".join(str(training[name]) for name in TRAINING),
        columns=tuple(alike),
        data_sets=tuple(
            DataSetScores(name=name, part_of=whole, values_CSQ=np.stack(columns))
            for (name, whole), columns in zip(names, by_data, strict=True)
        ),
    )
