"""A plan for people and for programs: what is done, left, left out and missing, and what the rest takes."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator.costs import Costs
from orchestrator.data_commands import size
from orchestrator.plan import Plan, PoolPlan, StudyPlan
from results.cells import cell_of, settings_of
from results.fairness import fairness_notes
from results.studies import budget, searched_under_note, values_text
from search_spaces.cell_names import cell_name
from search_spaces.specs import TrialSpec

_UNKNOWN_ID = "not known yet"


def plan_as_json(plan: Plan, costs: Costs, uri: str) -> dict[str, Any]:
    """The plan as plain values. Identities are null where weights or data are not here."""
    num_done, num_left = _counts(plan)
    return {
        "sweep": plan.sweep.name,
        "folder": uri,
        "only": str(plan.only) or None,
        "cells": num_cells(plan),
        "done": num_done,
        "left": num_left,
        "to_take_over": _num_taken(plan),
        "trials": [
            {
                "trial_id": key,
                "title": _name(plan, key, spec),
                "kind": spec.kind,
                "state": state,
                "take_over_from": _source(plan, key),
            }
            for key, spec, state in _trials(plan)
        ],
        "probes": [
            {"probe_id": key, "title": title, "state": state, "take_over_from": _source(plan, key)}
            for key, title, state in _probes(plan)
        ],
        "pools": [
            {"pool_id": p.pool_id, "title": p.title, "state": _pool_state(p)}
            | {"take_over_from": _source(plan, p.pool_id)}
            for p in plan.pools
        ],
        "studies": [
            {
                "title": study.cell.title,
                "num_samples": budget(study.cell.tune),
                "num_left": study.num_left,
                "num_trials": len(study.cell.reporting),
                "found": _found(study),
                "take_over_from": _source(plan, study.study_id),
            }
            for study in _studies(plan)
        ],
        "left_out": [{"title": cell.title, "reason": cell.reason} for cell in plan.left_out],
        "missing": [asdict(found) for found in plan.missing.inputs],
        "costs": asdict(costs),
        "unequal_terms": list(unequal_terms(plan)),
        "notices": list(plan.notices),
    }


def print_plan(plan: Plan, costs: Costs, uri: str, console: Console) -> None:
    """The plan, line by line."""
    console.print(_work(plan))
    for line in (*_remarks(plan), *_summary(plan, costs, uri)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def num_cells(plan: Plan) -> int:
    """How many cells (`search_spaces.cell_names`) are trained, whatever part of them is planned."""
    return len(set(map(cell_name, _trained(plan))))


def unequal_terms(plan: Plan) -> tuple[str, ...]:
    """In what the whole sweep does not treat its similarities alike, whatever part of it is planned."""
    lines = fairness_notes({**cell_of(spec), **settings_of(spec)} for spec in _trained(plan))
    if not (plan.sweep.tune and (searched := plan.sweep.tune.of_similarity)):
        return lines
    return (*lines, searched_under_note(searched))


def _trained(plan: Plan) -> list[TrialSpec]:
    studies = [*(study.cell for study in plan.studies if study.found is None), *plan.unidentified.studies]
    trials = [*(trial.spec for trial in plan.trials), *plan.unidentified.trials]
    return [t for t in (*trials, *(t for cell in studies for t in cell.reporting)) if t.kind == "train"]


def _trials(plan: Plan) -> Iterator[tuple[str | None, TrialSpec, str]]:
    yield from ((t.trial_id, t.spec, t.state) for t in plan.trials if plan.only.takes(t.spec))
    yield from ((None, spec, "left") for spec in plan.unidentified.trials if plan.only.takes(spec))


def _name(plan: Plan, key: str | None, spec: TrialSpec) -> str:
    """What is not here yet has no identity, and is told apart by its title alone."""
    return spec.title if key is None else plan.names[key]


def _probes(plan: Plan) -> Iterator[tuple[str | None, str, str]]:
    for probe in plan.probes:
        if plan.only.takes(probe.spec):
            yield probe.probe_id, plan.names[probe.probe_id], "finished" if probe.finished else "left"
    yield from ((None, spec.title, "left") for spec in plan.unidentified.probes if plan.only.takes(spec))


def _studies(plan: Plan) -> list[StudyPlan]:
    """The searches of the part, decided ones first."""
    return [*(s for s in plan.studies if s.found is not None and plan.only.takes_study(s.cell)), *plan.studies_left]


def _found(study: StudyPlan) -> dict[str, Any] | None:
    """The hyperparameters that a study found."""
    return None if study.found is None or study.record is None else dict(study.record.samples[study.found].values)


def _search_state(study: StudyPlan) -> str:
    if values := _found(study):
        return f"finished: {values_text(values)}"
    done = f", {study.num_ended} done" if study.num_ended else ""
    return f"{budget(study.cell.tune)} samples{done}, then {len(study.cell.reporting)} trials"


def _counts(plan: Plan) -> tuple[int, int]:
    """(done, left) of trials and probes."""
    states = [*(state for _, _, state in _trials(plan)), *(state for _, _, state in _probes(plan))]
    return states.count("finished"), len(states) - states.count("finished")


def _source(plan: Plan, key: str | None) -> str | None:
    """From which other folder something of it will be taken over."""
    return plan.taken.get(key) if key else None


def _num_taken(plan: Plan) -> int:
    """How many trials and probes count as done since a run will take them over."""
    items = [*((key, state) for key, _, state in _trials(plan)), *((key, state) for key, _, state in _probes(plan))]
    return sum(state == "finished" and _source(plan, key) is not None for key, state in items)


def _work(plan: Plan) -> Table:
    grid = Table(box=None, pad_edge=False)
    for header in ("identity", "trial", "state"):
        grid.add_column(header)

    def add(key: str | None, title: str, state: str) -> None:
        grid.add_row(key or _UNKNOWN_ID, title, _with_source(state, _source(plan, key)))

    for pool in plan.pools:
        add(pool.pool_id, pool.title, _pool_state(pool))
    for key, title, state in _probes(plan):
        add(key, title, state)
    for study in _studies(plan):
        add(study.study_id, f"search {study.cell.title}", _search_state(study))
    for key, spec, state in _trials(plan):
        add(key, _name(plan, key, spec), state)
    return grid


def _with_source(state: str, source: str | None) -> str:
    """What is finished there is not finished here yet; of the rest only a part will be taken over."""
    if source is None:
        return state
    done, separator, found = state.partition(":")
    taken = f"to take over from {source}"
    return f"{taken}{separator}{found}" if done in ("finished", "built") else f"{taken}, then {state}"


def _pool_state(pool: PoolPlan) -> str:
    return "built" if pool.built else "to build"


def _remarks(plan: Plan) -> Iterator[str]:
    for cell in plan.left_out:
        yield f"left out: {cell.title}: {cell.reason}"
    for found in plan.missing.inputs:
        about = f" (about {size(found.num_bytes)})" if found.num_bytes else ""
        yield f"missing: {found.kind} {found.name}{about}: {found.command or found.reason}"
    for notice in plan.notices:
        yield f"note: {notice}"
    for line in unequal_terms(plan):
        yield f"not on equal terms: {line}"


def _summary(plan: Plan, costs: Costs, uri: str) -> Iterator[str]:
    num_done, num_left = _counts(plan)
    part = f" of the part with {plan.only}" if plan.only.wanted else ""
    taken = f" ({num_taken} of them to take over)" if (num_taken := _num_taken(plan)) else ""
    yield f"{num_cells(plan)} cells; trials and probes{part}: {num_done} done{taken}, {num_left} left; folder: {uri}"
    if pilots := [spec for _, spec, _ in _trials(plan) if spec.kind == "pilot"]:
        steps = sorted({spec.training.steps for spec in pilots if spec.training})
        yield (
            f"{len(pilots)} of these trials are pilots of {', '.join(map(str, steps))} steps under a constant learning "
            "rate without warm-up, of each cell's first hyperparameters and seed (each seed of random weights): they "
            "are in no result, and what they show is read by predictors alone"
        )
    if studies := plan.studies_left:
        num_left, num_trials = (sum(s.num_left for s in studies), sum(len(s.cell.reporting) for s in studies))
        num_samples = sum(budget(study.cell.tune) for study in studies)
        yield (
            f"{len(studies)} searches of {num_samples} samples together, {num_left} left, then {num_trials} trials "
            "with what they find"
        )
    if plan.missing.inputs:
        known = size(plan.missing.num_bytes)
        yield f"{len(plan.missing.inputs)} inputs are missing, about {known} of those whose size is known"
    at_most = "at most " if costs.at_most or plan.studies_left else ""
    yield (
        f"to do: {at_most}{costs.steps:,} optimiser steps, {_millions(costs.training_tokens)} tokens to train on, "
        f"{_millions(costs.evaluation_tokens)} to encode"
    )
    if costs.parts:
        yield f"about {_time(costs.hours, costs.unit)}, of which"
    for work in costs.parts:
        yield f"  {work.what}: {_time(work.hours, costs.unit)} ({'; '.join(work.bases)})"
    passing = f", and {size(costs.passing_bytes)} for each training that runs" if costs.passing_bytes else ""
    of_rows = f", {size(costs.row_bytes)} of it rows and what MLflow keeps" if costs.row_bytes else ""
    yield f"about {size(costs.storage_bytes)} in the sweep folder{of_rows}{passing}"
    for line in costs.unknown:
        yield f"not counted: {line}"


def _millions(tokens: int) -> str:
    return f"{tokens / 1e6:,.1f} million" if tokens >= 1e6 else f"{tokens:,}"


def _time(hours: float, unit: str) -> str:
    return f"{hours:,.1f} {unit}-hours" if hours >= 1 else f"{60 * hours:.1f} {unit}-minutes"
