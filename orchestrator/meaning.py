"""Whether a sweep file still means by its names what the finished trials of its folder were: else it is refused.

A changed hyperparameter asks for other trials, and a changed folder of data or weights too; but under the same names,
which stand in tables and papers.
"""

from collections.abc import Iterable, Iterator, Mapping

from orchestrator.plan import Plan
from results.layout import SWEEP_RECORD, SweepRecord, from_bytes, spec_key, trial_prefix, trial_rows
from results.store import Store
from search_spaces.identity import differing_fields, named_meaning
from search_spaces.problems import Problem, UnreadableError
from search_spaces.specs import DataSpec, TrialSpec, from_json


def meaning_problems(plan: Plan, store: Store) -> Iterator[Problem]:
    """A problem for each field in which finished trials differ from what the file now means by them."""
    if not store.exists(SWEEP_RECORD):
        return
    record = from_bytes(SweepRecord, store.read(SWEEP_RECORD))
    finished = {t.trial_id: t.title for t in record.trials if store.exists(trial_rows(t.trial_id))}
    if not finished:
        return
    yield from _trial_problems(plan, finished, store)
    planned = {(e.spec.data.name, e.spec.data.split): e.spec.data.content_hash for e in plan.evaluations}
    for old in record.evaluations:
        now = planned.get((old.data_set, old.split))
        if now is not None and now != old.data_hash:
            what = f"split '{old.split}' of data set '{old.data_set}'"
            yield _problem(plan, "evaluation.groups", what, old.data_hash, now, finished.values())


def _trial_problems(plan: Plan, finished: Mapping[str, str], store: Store) -> Iterator[Problem]:
    by_name = {named_meaning(trial.spec): trial.spec for trial in plan.trials}
    by_id = {trial.trial_id: trial.spec for trial in plan.trials}
    changed: dict[tuple[str, str, str, str], list[str]] = {}
    for key, title in finished.items():
        old = _stored(key, store)
        if old is None:
            continue
        if key in by_id and (fields := differing_fields(by_id[key], old)):
            found = f"{spec_key(trial_prefix(key))} in {store.uri} describes another ({', '.join(fields)} differs)"
            message = f"is finished, but {found}: restore that file"
            yield Problem(where=plan.where, key=f"trial {key}, {title}", message=message)
        elif new := by_name.get(named_meaning(old)):
            for change in _changes(old, new):
                changed.setdefault(change, []).append(title)
    for (field, what, before, now), titles in changed.items():
        yield _problem(plan, field, what, before, now, titles)


def _stored(trial_id: str, store: Store) -> TrialSpec | None:
    """The spec beside a trial's rows; None where there is none that this version reads."""
    key = spec_key(trial_prefix(trial_id))
    try:
        return from_json(TrialSpec, store.read(key)) if store.exists(key) else None
    except UnreadableError:
        return None


def _changes(old: TrialSpec, new: TrialSpec) -> Iterator[tuple[str, str, str, str]]:
    """(field, what it is, its content before, and now) of what has the same name and another content."""
    family = f"the weights of family '{old.encoder.family}' under '{old.encoder.init_regime}'"
    inputs = [
        ("family", family, old.encoder.weights.content_hash, new.encoder.weights.content_hash),
        ("training_data", *_of_data(old.training_data, new.training_data)),
        ("validation.data", *_of_data(*(spec.validation.data if spec.validation else None for spec in (old, new)))),
    ]
    for field, what, before, now in inputs:
        if before != now:
            yield field, what, str(before), str(now)


def _of_data(old: DataSpec | None, new: DataSpec | None) -> tuple[str, str | None, str | None]:
    """What a data set is, and what identifies it: its content, and from which grade on a judgement is a pair."""
    if old is None or new is None:
        return "", None, None
    what = f"split '{old.split}' of data set '{old.name}'"
    if old.content_hash == new.content_hash and old.entry.relevance_threshold != new.entry.relevance_threshold:
        threshold = f"relevance_threshold of data set '{old.name}'"
        return threshold, str(old.entry.relevance_threshold), str(new.entry.relevance_threshold)
    return what, old.content_hash, new.content_hash


def _problem(plan: Plan, key: str, what: str, before: str, now: str, titles: Iterable[str]) -> Problem:
    named = list(titles)
    of = named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} more"
    message = (
        f"{what} changed: it was {before[:16]} when {of} finished, and is {now[:16]} (restore it, give what it is now "
        "another name, or take another sweep folder)"
    )
    return Problem(where=plan.where, key=key, message=message)
