"""One trial from its spec to its rows: a checkpoint, then every evaluation that is missing.

What happens is in the trial's status record; a failure is recorded there with its reason and traceback. Runs under Ray
or alone (`python -m trainers.trial --sweep FOLDER TRIAL_ID`), with the same result to the last bit.

A trial on several devices is one process for each: the first runs the trial, the others join its training and no more.
Whoever places it may have its parts run by different processes, so that all devices but one are free for the second.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from results import layout
from results.layout import Status
from results.room import OutOfSpaceError, is_out_of_space
from results.store import LostLockError, Store
from search_spaces.identity import trial_id as identity_of
from search_spaces.specs import EvaluationSpec, TrialSpec, from_json, to_json
from trainers.attempts import Attempt
from trainers.memory import release_memory
from trainers.planned import check_as_planned
from trainers.threads import set_threads
from trainers.training.processes import LostPeerError
from trainers.training.resume import CheckpointPolicy
from trainers.training.train import train
from trainers.trial_hooks import Hooks
from trainers.trial_work import TrialWork

Part = Literal["whole", "training", "evaluation"]


def run_trial(
    spec: TrialSpec,
    evaluations: Sequence[EvaluationSpec],
    *,
    store: Store,
    hooks: Hooks,
    checkpoint_policy: CheckpointPolicy,
    provenance_json: str,
    part: Part = "whole",
) -> Status:
    """Train (unless that is done), then evaluate what is missing; returns the status that the store now holds.

    A trial that fails is not raised but recorded. What is no fault of the trial raises: KeyboardInterrupt, SystemExit,
    LostLockError, after which nothing may be written, and LostPeerError, where another process of the trial died; the
    next attempt goes on from what is in the store.

    Args:
        spec: the trial, with all content hashes.
        evaluations: what its checkpoint is to be evaluated on.
        store: the sweep folder.
        hooks: who wants to know.
        checkpoint_policy: when training writes a checkpoint to resume from.
        provenance_json: an object that says what this process runs with; kept in the trial's row.
        part: 'training' ends with the checkpoint, and the trial is still running; 'evaluation' goes on from there, in
            the same attempt.
    """
    work = TrialWork(
        spec=spec,
        evaluations=evaluations,
        store=store,
        hooks=hooks,
        checkpoint_policy=checkpoint_policy,
        provenance_json=provenance_json,
    )
    hooks.verify()
    store.write(layout.spec_key(work.prefix), to_json(spec).encode())
    attempt = Attempt(store=store, prefix=work.prefix, verify=hooks.verify)
    running = attempt.go_on() if part == "evaluation" else attempt.start()
    try:
        while not _has_room(work, part):
            continue
    except (LostLockError, LostPeerError):
        raise
    except Exception as error:  # noqa: BLE001 - the boundary where a trial's failure becomes its status
        return attempt.fail(error, running)
    return running if part == "training" else attempt.finish()


def _has_room(work: TrialWork, part: Part) -> bool:
    """Whether everything could be made; where the disk was too full for it, space is waited for first.

    The store waits by itself. This is for what is written elsewhere, such as the cache folder and temporary files.
    """
    try:
        _make(work, part)
    except Exception as error:
        if isinstance(error, OutOfSpaceError) or not is_out_of_space(error):
            raise
        work.hooks.wait_for_space(error)
        return False
    return True


def _make(work: TrialWork, part: Part) -> None:
    """Train, unless that is done, then evaluate what is missing, unless only training is asked for."""
    _make_ready(work.spec)
    work.make_checkpoint()
    if part != "training":
        work.evaluate_missing()


def run_planned_trial(
    trial_id: str,
    *,
    store: Store,
    hooks: Hooks,
    checkpoint_policy: CheckpointPolicy,
    provenance_json: str,
    memory_budget_bytes: int | None = None,
    part: Part = "whole",
) -> Status:
    """Run the trial whose spec and evaluations the planner left in the store.

    `memory_budget_bytes` is taken for its searches instead of the planned one.

    Raises:
        KeyError: the sweep folder has no such trial.
    """
    evaluations = layout.evaluations_from_bytes(store.read(layout.evaluations_key(trial_id)))
    if memory_budget_bytes is not None:
        evaluations = tuple(replace(planned, memory_budget_bytes=memory_budget_bytes) for planned in evaluations)
    return run_trial(
        planned_trial(trial_id, store),
        evaluations,
        store=store,
        hooks=hooks,
        checkpoint_policy=checkpoint_policy,
        provenance_json=provenance_json,
        part=part,
    )


def planned_trial(trial_id: str, store: Store) -> TrialSpec:
    """The spec that the planner left in the store. Raises KeyError where the sweep folder has no such trial."""
    return from_json(TrialSpec, store.read(layout.spec_key(layout.trial_prefix(trial_id))))


def has_training_left(spec: TrialSpec, store: Store) -> bool:
    """Whether the trial is to be trained, in as many processes as it has devices. All else takes one process."""
    return spec.is_trained and not store.exists(layout.trial_rows(identity_of(spec)))


def join_trial(spec: TrialSpec, *, store: Store) -> None:
    """What each process of a trial but the first does: its share of the training. It writes and reports nothing.

    Raises:
        Exception: whatever ends the training; the first process waits in vain then, and whoever started them all
            ends it.
    """
    _make_ready(spec)
    if has_training_left(spec, store):
        check_as_planned(spec)
        train(spec, store=store, report=lambda _: None, verify=_write_nothing, checkpoint_policy=CheckpointPolicy())


def _make_ready(spec: TrialSpec) -> None:
    set_threads(spec.execution.threads)
    release_memory()


def _write_nothing() -> None:
    raise AssertionError("only the first process of a trial writes")


if __name__ == "__main__":
    from trainers.alone import main

    raise SystemExit(main())
