"""What a sweep asked for and its folder does not have, each with the reason that its status gives."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from results.asked import asked_encodings, planned_evaluations
from results.layout import (
    PlannedStudy,
    PlannedTrial,
    Status,
    from_bytes,
    pilot_rows,
    probe_prefix,
    status_key,
    trial_prefix,
    trial_rows,
)
from results.scores import query_gaps
from results.store import Readable
from results.studies import read_study

MissingKind = Literal[
    "trial", "evaluation", "sts", "qa", "norms", "probe", "pilot"
]  # 'sts': on scored pairs; 'qa': a reader's answers
_FAILED = "failed: "
_SCORED = ["trial_id", "data_set", "data_hash", "split", "score_similarity"]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """One thing that is not there. `what` and `reason` are one line each, for people."""

    kind: MissingKind
    trial_id: str  # or the probe's identity; of a trial whose hyperparameters are not known yet, nothing
    title: str
    what: str
    reason: str

    @property
    def is_failed(self) -> bool:
        """Whether it was tried, and failed."""
        return self.reason.startswith(_FAILED)

    def __str__(self) -> str:
        return f"{self.title}: {self.what}: {self.reason}"


def missing_trials(store: Readable, trials: Iterable[PlannedTrial]) -> Iterator[Missing]:
    """`trials` have no checkpoint: say why."""
    for trial in trials:
        reason = _reason(store, trial_prefix(trial.trial_id))
        yield Missing(kind="trial", trial_id=trial.trial_id, title=trial.title, what="whole trial", reason=reason)


def missing_searched(store: Readable, studies: Iterable[PlannedStudy]) -> Iterator[Missing]:
    """Trials that wait for the hyperparameters that a search is to find."""
    for planned in studies:
        study = read_study(store, planned.study_id) if planned.waiting else None
        states = [sample.state for sample in study.samples] if study else []
        ended = f"{len(states) - states.count('drawn')} of {planned.num_samples} samples have ended"
        failed = f", {states.count('failed')} of them failed" if "failed" in states else ""
        for title in planned.waiting:
            reason = f"waits for what search {planned.title} finds: {ended}{failed}"
            yield Missing(kind="trial", trial_id="", title=title, what="whole trial", reason=reason)


def missing_probes(store: Readable, probes: Iterable[PlannedTrial]) -> Iterator[Missing]:
    """`probes` have no rows: say why."""
    for probe in probes:
        reason = _reason(store, probe_prefix(probe.trial_id))
        yield Missing(kind="probe", trial_id=probe.trial_id, title=probe.title, what="whole probe", reason=reason)


def missing_pilots(store: Readable, pilots: Iterable[PlannedTrial]) -> Iterator[Missing]:
    """Those of `pilots` that have no rows: say why."""
    for pilot in pilots:
        if not store.exists(pilot_rows(pilot.trial_id)) or not store.exists(trial_rows(pilot.trial_id)):
            reason = _reason(store, trial_prefix(pilot.trial_id))
            yield Missing(kind="pilot", trial_id=pilot.trial_id, title=pilot.title, what="whole pilot", reason=reason)


def missing_evaluations(store: Readable, expected: pl.DataFrame, scores: pl.DataFrame) -> Iterator[Missing]:
    """Expected evaluations without rows, and those that lost queries.

    `expected` lists trials that have a checkpoint; `scores` are those of `results.scores.data_set_scores`.
    """
    yield from _absent(store, expected, scores, "evaluation")
    titles = dict(expected.select("trial_id", "title").iter_rows())
    gaps = query_gaps(scores).unique(_SCORED, keep="first", maintain_order=True)
    for row in gaps.iter_rows(named=True):
        lost = f"{row['num_queries'] - row['num_found']} of {row['num_queries']} queries have no value"
        yield _evaluation(row, titles[row["trial_id"]], lost, "evaluation")


def missing_sts(store: Readable, expected: pl.DataFrame, correlations: pl.DataFrame) -> Iterator[Missing]:
    """Expected evaluations on scored pairs without rows; the frames are as in `missing_evaluations`."""
    yield from _absent(store, expected, correlations, "sts")


def missing_answers(store: Readable, expected: pl.DataFrame, answers: pl.DataFrame) -> Iterator[Missing]:
    """Expected answers of a reader without rows; the frames are those of `results.collect.Collected`."""
    yield from _absent(store, expected, answers, "qa")


def missing_norms(store: Readable, trials: pl.DataFrame, scores: pl.DataFrame) -> Iterator[Missing]:
    """Norms, or the judgements that tell them apart, of what has scores; the frames are those of `Collected`."""
    scored = set(scores.select("trial_id", "data_set", "data_hash", "split", "tier").iter_rows())
    for trial in trials.iter_rows(named=True):
        for asked in asked_encodings(store, trial):
            data, tier = asked.evaluation.data, asked.evaluation.tier
            place = (trial["trial_id"], data.name, data.content_hash, data.split, tier)
            if place in scored and not (store.exists(asked.norms) and store.exists(asked.judgements)):
                what = f"norms on {data.name}/{data.split}{' on its pool' if tier == 'pool' else ''}"
                reason = "its norms or judgements are not in the folder (run the sweep again)"
                yield Missing(kind="norms", trial_id=trial["trial_id"], title=trial["title"], what=what, reason=reason)


def _absent(store: Readable, expected: pl.DataFrame, found: pl.DataFrame, kind: MissingKind) -> Iterator[Missing]:
    key = _SCORED if kind == "sts" else [*_SCORED, "tier"]  # pairs have no tier
    wanted = expected.unique(key, keep="first", maintain_order=True)
    absent = wanted.join(found.select(key).unique(), on=key, how="anti", maintain_order="left")
    for row in absent.iter_rows(named=True):
        yield _evaluation(row, row["title"], _why_absent(store, row), kind)


def _why_absent(store: Readable, row: Mapping[str, Any]) -> str:
    """Of a trial that another sweep than the one that asks for the rows has run, that it was not asked to."""
    asked = planned_evaluations(store, row["trial_id"])
    data = [(e.data.name, e.data.content_hash, e.data.split, e.tier) for e in asked]
    if asked and (row["data_set"], row["data_hash"], row["split"], row["tier"]) not in data:
        return "not asked for where the trial was run (run its sweep with this data set)"
    return _reason(store, trial_prefix(row["trial_id"]))


def _evaluation(row: Mapping[str, Any], title: str, reason: str, kind: MissingKind) -> Missing:
    data_set = f"{row['data_set']}/{row['split']}"
    what = scored_words(data_set, kind, similarity=row["score_similarity"], on_pool=row.get("tier") == "pool")
    return Missing(kind=kind, trial_id=row["trial_id"], title=title, what=what, reason=reason)


def scored_words(data_set: str, kind: MissingKind, *, similarity: str, on_pool: bool) -> str:
    """An evaluation in words; `data_set` is its name and split."""
    return (
        f"{'answers to ' if kind == 'qa' else ''}{data_set}{' on its pool' if on_pool else ''} scored with {similarity}"
    )


def _reason(store: Readable, prefix: str) -> str:
    """Why the rows of a trial or probe are not there, as its status tells."""
    if not store.exists(status_key(prefix)):
        return "not started"
    status = from_bytes(Status, store.read(status_key(prefix)))
    if status.state == "failed":
        return f"{_FAILED}{status.reason or 'no reason was recorded'}"
    if status.state == "running":
        return f"running since {status.started_at}, or interrupted (attempt {status.attempt})"
    return "recorded as finished, but its rows are not in the folder (run the sweep again)"
