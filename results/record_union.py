"""The records of several sweeps as one: what all of them ask for, and where they ask for what cannot stand together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from results.layout import PlannedEvaluation, PlannedStudy, PlannedTrial, Redeclared, SweepRecord
from search_spaces.problems import Problem

Named = tuple[str, SweepRecord]  # where the record is from
_RULES = ("main_measure", "relevance_threshold", "part_of", "pool_id", "reader", "num_passages")
_Item = TypeVar("_Item")


def union(records: Sequence[Named]) -> tuple[SweepRecord, list[str], list[Problem]]:
    """What any of the records asks for; notes on what they declare differently; and why they cannot be joined."""
    first = records[0][1]
    only = [record for _, record in records]
    trials = _planned(trial for record in only for trial in record.trials)
    titles = {trial.title for trial in trials}
    left_out = dict.fromkeys(item for record in only for item in record.left_out if item.title not in titles)
    joined = replace(
        first,
        name=" + ".join(dict.fromkeys(record.name for record in only)),
        trials=trials,
        pilots=_planned(pilot for record in only for pilot in record.pilots),
        probes=_planned(probe for record in only for probe in record.probes),
        evaluations=_evaluations(only),
        left_out=tuple(left_out),
        studies=_studies(only),
        redeclared=tuple(_redeclared(records)),
        references=tuple(dict.fromkeys(reference for record in only for reference in record.references)),
        searched_under=next((record.searched_under for record in only if record.searched_under), None),
    )
    return joined, list(_notes(records)), [*_other_rules(records), *_other_content(records)]


def _planned(items: Iterable[PlannedTrial]) -> tuple[PlannedTrial, ...]:
    """Each identity once, under the first title."""
    found: dict[str, PlannedTrial] = {}
    for item in items:
        found.setdefault(item.trial_id, item)
    return tuple(found.values())


def _key(evaluation: PlannedEvaluation) -> tuple[str, str, str, str]:
    return evaluation.data_set, evaluation.data_hash, evaluation.split, evaluation.tier


def _evaluations(records: Iterable[SweepRecord]) -> tuple[PlannedEvaluation, ...]:
    """Each data set as evaluated once, in all groups that it has anywhere."""
    found: dict[tuple[str, str, str, str], PlannedEvaluation] = {}
    for evaluation in (evaluation for record in records for evaluation in record.evaluations):
        known = found.setdefault(_key(evaluation), evaluation)
        groups = tuple(dict.fromkeys((*known.groups, *evaluation.groups)))
        in_domain = known.in_domain or evaluation.in_domain
        found[_key(evaluation)] = replace(known, groups=groups, in_domain=in_domain)
    return tuple(found.values())


def _studies(records: Iterable[SweepRecord]) -> tuple[PlannedStudy, ...]:
    """Each search once, as the record that has come furthest tells it."""
    found: dict[str, PlannedStudy] = {}
    for study in (study for record in records for study in record.studies):
        known = found.setdefault(study.study_id, study)
        if len(study.waiting) < len(known.waiting):
            found[study.study_id] = study
    return tuple(found.values())


def _redeclared(records: Sequence[Named]) -> Iterator[Redeclared]:
    """Those of every source, under its name; a collected folder names those of its own sources already."""
    for where, record in records:
        for later in record.redeclared:
            yield later if later.source else replace(later, source=where)


def _notes(records: Sequence[Named]) -> Iterator[str]:
    primary = {where: ", ".join(record.primary_groups) or "none" for where, record in records}
    if len(set(primary.values())) > 1:
        told = "; ".join(f"{where}: {groups}" for where, groups in primary.items())
        yield f"the sources declare different primary groups ({told}): those of the first decide"


def _other_rules(records: Sequence[Named]) -> Iterator[Problem]:
    """One data set by two rules: no mean over such scores has a meaning."""
    known: dict[tuple[str, str, str, str], tuple[str, PlannedEvaluation]] = {}
    for where, evaluation in _each(records):
        first, like = known.setdefault(_key(evaluation), (where, evaluation))
        for rule in _RULES:
            one, other = getattr(like, rule), getattr(evaluation, rule)
            if one != other:
                what = f"{evaluation.data_set}/{evaluation.split}: {rule.replace('_', ' ')} is {_told(one)} in {first} "
                yield Problem(where=where, key="evaluation", message=f"{what}but {_told(other)} here: read them apart")


def _other_content(records: Sequence[Named]) -> Iterator[Problem]:
    """One data set of two contents: its scores are not comparable."""
    known: dict[tuple[str, str], tuple[str, str]] = {}
    for where, evaluation in _each(records):
        first, content = known.setdefault((evaluation.data_set, evaluation.split), (where, evaluation.data_hash))
        if where != first and content != evaluation.data_hash:
            what = (
                f"{evaluation.data_set}/{evaluation.split} has other content (hash {evaluation.data_hash[:12]}) than in"
            )
            message = f"{what} {first} (hash {content[:12]}): their scores are not comparable, read them apart"
            yield Problem(where=where, key="evaluation", message=message)


def _each(records: Sequence[Named]) -> Iterator[tuple[str, PlannedEvaluation]]:
    """Every evaluation with where it is from."""
    for where, record in records:
        for evaluation in record.evaluations:
            yield where, evaluation


def _told(value: object) -> str:
    return "none" if value is None else str(value)
