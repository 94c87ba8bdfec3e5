"""Which data is behind a number: what was trained, probed and evaluated on, with revisions, hashes and queries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from results.asked import planned_evaluations
from results.claims import CLAIMS, GainClaim
from results.collect import Collected
from results.fisher_check import PRIMARY
from results.layout import PlannedEvaluation, probe_prefix, spec_key
from results.tables.table import Origin
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.evaluation_specs import IN_DOMAIN
from search_spaces.specs import DataSpec, ProbeSpec, TrialSpec, from_json

NO_RECORD = "not recorded"


@dataclass(frozen=True, kw_only=True)
class DataBehind:
    """A data set or a split of one that was trained or evaluated on.

    Attributes:
        source: with its revision, as the catalogue or the sweep file names it.
        used_for: 'trained on', 'evaluated on', 'probed on'.
        num_queries: that have a score in every trial behind the number; None: no rows.
        unit: what was counted: queries, questions, scored pairs, training pairs.
    """

    name: str
    split: str
    used_for: str
    source: str
    content_hash: str
    tier: str | None = None
    groups: tuple[str, ...] = ()
    measure: str | None = None
    num_queries: int | None = None
    unit: str = "queries"


def trained_on(trials: pl.DataFrame) -> Iterator[DataBehind]:
    """Of trials, as rows of `Collected.trials`."""
    for text in trials["spec_json"]:
        data = from_json(TrialSpec, text).training_data
        if data is not None:
            yield _data_behind(data, "trained on")


def probed_on(collected: Collected, probe_ids: Iterable[str]) -> Iterator[DataBehind]:
    """Of probes whose spec is there."""
    for probe_id in probe_ids:
        key = spec_key(probe_prefix(probe_id))
        if collected.store.exists(key):
            yield _data_behind(from_json(ProbeSpec, collected.store.read(key)).training_data, "probed on")


def _data_behind(data: DataSpec, used_for: str) -> DataBehind:
    return DataBehind(
        name=data.name,
        split=data.split,
        used_for=used_for,
        source=str(data.entry.source),
        content_hash=data.content_hash or NO_RECORD,
        num_queries=data.num_pairs,
        unit="training pairs",
    )


def evaluations_behind(collected: Collected, origin: Origin, row: Mapping[str, Any]) -> list[PlannedEvaluation]:
    """The planned evaluations that the row's numbers are means over, in the sweep's order."""
    every = collected.record.evaluations
    tier = row.get("tier")
    if origin.data == "none":
        return []
    if origin.data == "groups":
        groups = _claimed_groups(collected, str(row["claim"]))
        found = [e for e in every if groups & set(e.groups)]
    elif origin.data == "listed":
        names = set(str(row.get("data_sets") or "").split(", "))
        found = [e for e in every if e.whole in names]
    elif origin.data == "data set" and row.get("data_set") is not None:
        found = [e for e in every if row["data_set"] in (e.whole, e.data_set) and row.get("split") in (None, e.split)]
    elif row.get("group") == PRIMARY:
        found = [e for e in every if set(collected.record.primary_groups) & set(e.groups)]
    else:
        found = _of_group(every, row.get("group"))
    if "reader" in row or "exact_match_gain" in row:
        found = [e for e in found if e.reader]
    return [e for e in found if tier in (None, e.tier)]


def _of_group(every: Sequence[PlannedEvaluation], group: str | None) -> list[PlannedEvaluation]:
    """Of a group by its name, or of a data set that stands as a group of its own."""
    named = [e for e in every if group in e.groups]
    return named or [e for e in every if group in (e.whole, f"{e.whole} ({e.split})")]


def _claimed_groups(collected: Collected, claim: str) -> set[str]:
    test = CLAIMS[claim].test
    sides = {part.side for part in test.parts} if isinstance(test, GainClaim) else {test.side}
    inside = {IN_DOMAIN} if "in domain" in sides else set()
    outside = set(collected.record.primary_groups) - {IN_DOMAIN} if "out of domain" in sides else set()
    return inside | outside


def evaluated_on(collected: Collected, trials: pl.DataFrame, evaluation: PlannedEvaluation) -> DataBehind:
    """An evaluation of the trials (rows of `Collected.trials`), with the queries that all of them have."""
    num_queries, unit = _counted(collected, trials["trial_id"].to_list(), evaluation)
    return DataBehind(
        name=evaluation.data_set,
        split=evaluation.split,
        used_for="evaluated on",
        source=_source(collected, trials, evaluation),
        content_hash=evaluation.data_hash,
        tier=evaluation.tier,
        groups=evaluation.groups,
        measure=evaluation.main_measure,
        num_queries=num_queries,
        unit=unit,
    )


def _counted(collected: Collected, trials: Sequence[str], evaluation: PlannedEvaluation) -> tuple[int | None, str]:
    """(number, of what) that has a score under every one of the trials; None where rows are missing."""
    is_here = [
        pl.col("trial_id").is_in(list(trials)),
        pl.col("data_set") == evaluation.data_set,
        pl.col("data_hash") == evaluation.data_hash,
        pl.col("split") == evaluation.split,
    ]
    if evaluation.main_measure == SPEARMAN:
        return _fewest(collected.correlations.filter(*is_here)["num_scored_pairs"]), "scored pairs"
    if evaluation.reader is not None and not evaluation.groups:
        answers = collected.answers.filter(*is_here).group_by("trial_id", "score_similarity").len()
        return _fewest(answers["len"]), "questions"
    scores = collected.data_set_scores.filter(*is_here, pl.col("tier") == evaluation.tier)
    return _fewest(scores["num_found"]), "queries"


def _fewest(counts: pl.Series) -> int | None:
    return min(counts.drop_nulls().to_list(), default=None)


def _source(collected: Collected, trials: pl.DataFrame, evaluation: PlannedEvaluation) -> str:
    """Where the data is from, with its revision, as the trials' own plans say."""
    for trial_id in trials["trial_id"]:
        for planned in planned_evaluations(collected.store, trial_id):
            if (planned.data.name, planned.data.content_hash) == (evaluation.data_set, evaluation.data_hash):
                return str(planned.data.entry.source)
    return NO_RECORD
