"""Trials and probes that several sources have: identical rows are one, and different ones are told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import polars as pl
import pyarrow as pa

from results.asked import asked_answers, asked_encodings, asked_evaluations, asked_norms
from results.findings import Finding
from results.layout import (
    PlannedTrial,
    Status,
    SweepRecord,
    from_bytes,
    history_rows,
    probe_prefix,
    probe_rows,
    status_key,
    trial_prefix,
    trial_rows,
)
from results.rows import read_rows
from results.store import Readable
from search_spaces.problems import Problem

Held = tuple[str, Readable, SweepRecord]  # where it is from
# How long it took and where, and where weights and data lay: of one checkpoint, trained twice, all of it may differ.
_OF_THE_RUN = ("train_wall_s", "pairs_per_s", "tokens_per_s", "peak_memory_bytes", "spec_json", "provenance_json")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What is in several sources: once for each trial or probe in `findings`, and each difference in `problems`."""

    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...]


def compare(sources: Sequence[Held]) -> Compared:
    """Compare what is in more than one of the sources."""
    findings: list[Finding] = []
    problems: list[Problem] = []
    seen: set[tuple[str, str, str]] = set()
    for is_trial in (True, False):
        for planned, holders in _shared(sources, is_trial=is_trial):
            rows = trial_rows if is_trial else probe_rows
            having = [held for held in holders if held[1].exists(rows(planned.trial_id))]
            pairs = [(having[0], other) for other in having[1:]]
            found = [
                problem
                for one, other in pairs
                for problem in _differences(planned, one, other, seen, is_trial=is_trial)
            ]
            problems += found
            if not found:
                findings.append(_duplicate(planned, holders, having, is_trial=is_trial))
    return Compared(findings=tuple(findings), problems=tuple(problems))


def _shared(sources: Sequence[Held], *, is_trial: bool) -> Iterator[tuple[PlannedTrial, list[Held]]]:
    """What more than one source asks for, with those sources."""
    found: dict[str, tuple[PlannedTrial, list[Held]]] = {}
    for held in sources:
        for planned in held[2].trials if is_trial else held[2].probes:
            holders = found.setdefault(planned.trial_id, (planned, []))[1]
            # What a collected folder joins was compared when it was collected.
            if all(held[1] is not other[1] for other in holders):
                holders.append(held)
    yield from (entry for entry in found.values() if len(entry[1]) > 1)


def _duplicate(planned: PlannedTrial, holders: Sequence[Held], having: Sequence[Held], *, is_trial: bool) -> Finding:
    without = [held for held in holders if held not in having]
    prefix = (trial_prefix if is_trial else probe_prefix)(planned.trial_id)
    told = [f"identical rows in {' and '.join(where for where, _, _ in having)}"] if len(having) > 1 else []
    if having and without:
        told += [
            f"{_state(store, prefix)} in {where}, so the rows of {having[0][0]} count" for where, store, _ in without
        ]
    if not having:
        told = [f"{_state(store, prefix)} in {where}" for where, store, _ in without]
    told += _differing_runs(planned, having) if is_trial else []
    what = f"in {len(holders)} sources, counted once"
    return Finding(kind="duplicate", trial_id=planned.trial_id, title=planned.title, what=what, reason="; ".join(told))


def _state(store: Readable, prefix: str) -> str:
    key = status_key(prefix)
    if not store.exists(key):
        return "not started"
    status = from_bytes(Status, store.read(key))
    return f"{status.state} ({status.reason})" if status.reason else status.state


def _differing_runs(planned: PlannedTrial, having: Sequence[Held]) -> list[str]:
    """That one checkpoint was trained more than once, where its rows say so."""
    tables = [read_rows(store, trial_rows(planned.trial_id), "trials") for _, store, _ in having]
    differ = {name for one, other in combinations(tables, 2) for name in _OF_THE_RUN if one[name] != other[name]}
    times = sorted(differ - {"spec_json", "provenance_json"})
    return [f"trained more than once to one checkpoint ({', '.join(times)} of the first count)"] if times else []


def _differences(
    planned: PlannedTrial, one: Held, other: Held, seen: set[tuple[str, str, str]], *, is_trial: bool
) -> Iterator[Problem]:
    for key, name in _rows_of(planned, (one, other), is_trial=is_trial):
        pair = (one[0], other[0], key)
        if pair in seen:  # judgements are of a collection, and so of many trials
            continue
        seen.add(pair)
        if one[1].exists(key) and other[1].exists(key):
            left, right = (read_rows(store, key, name) for _, store, _ in (one, other))
            if differing := _differing(left, right):
                yield Problem(
                    where=planned.title,
                    key=key,
                    message=f"{one[0]} and {other[0]} have different rows of it ({', '.join(differing)}), and which "
                    "ones count cannot be told: read them apart, or remove it from one of them",
                )


def _rows_of(planned: PlannedTrial, pair: tuple[Held, Held], *, is_trial: bool) -> Iterator[tuple[str, str]]:
    """(key, schema) of all rows that make a trial or probe."""
    if not is_trial:
        yield probe_rows(planned.trial_id), "probes"
        return
    yield trial_rows(planned.trial_id), "trials"
    yield history_rows(planned.trial_id), "history"
    keys = {}
    for _, store, _ in pair:
        [trial] = read_rows(store, trial_rows(planned.trial_id), "trials").to_pylist()
        for asked in asked_evaluations(store, trial):
            keys[asked.key] = "sts" if asked.evaluation.data.entry.is_scored else "per_query"
        keys |= {asked.key: "qa" for asked in asked_answers(store, trial)}
        keys |= dict.fromkeys(asked_norms(store, trial), "norms")
        keys |= {asked.judgements: "judgements" for asked in asked_encodings(store, trial)}
    yield from keys.items()


def _differing(one: pa.Table, other: pa.Table) -> list[str]:
    """What differs: columns, or the number of rows."""
    if one.num_rows != other.num_rows:
        return [f"{one.num_rows} rows, {other.num_rows} rows"]
    left, right = pl.DataFrame(one), pl.DataFrame(other)
    return [name for name in left.columns if name not in _OF_THE_RUN and not left[name].equals(right[name])]
