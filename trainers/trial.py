"""One trial from its spec to its rows: a checkpoint, then every evaluation that is missing.

What happens is in the trial's status record; a failure is recorded there with its reason and traceback. Runs under Ray
or alone (`python -m trainers.trial --sweep FOLDER TRIAL_ID`), with the same result to the last bit.

A trial on several devices is one process for each: the first runs the trial, the others join its training and no more.
Whoever places it may have its parts run by different processes, so that all devices but one are free for the second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from results import layout
from results.layout import Status
from results.room import OutOfSpaceError, is_out_of_space
from results.rows import read_rows, write_rows
from results.store import LostLockError, Store
from search_spaces.identity import trial_id as identity_of
from search_spaces.scoring import trained_similarity
from search_spaces.specs import EvaluationSpec, TrialSpec, from_json, to_json
from trainers.attempts import Attempt
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.shard_queue import NOBODY, Helpers
from trainers.init_regimes import start_encoder
from trainers.memory import release_memory
from trainers.planned import check_as_planned
from trainers.threads import set_threads
from trainers.training.history import Report, history_row
from trainers.training.processes import LostPeerError
from trainers.training.resume import CheckpointPolicy, remove_training_checkpoints
from trainers.training.train import train
from trainers.trial_rows import trial_row

Part = Literal["whole", "training", "evaluation"]


def _ignore(_: object) -> None:
    """Nobody asked."""


def _fail(error: Exception) -> None:
    """Nobody waits."""
    raise error


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """How a trial speaks with whoever runs it.

    Attributes:
        report: told of each optimiser step; what it raises ends the trial.
        enter_phase: told in words what the trial does next, such as 'evaluating attack'.
        verify: called before each write; raises LostLockError where this process may write no more.
        helpers: who else may encode passages for the evaluations.
        wait_for_space: called with an error that came for want of space on a disk, after which the trial goes on from
            what is in the store; raises where it is to fail instead.
        build_pools: called before evaluating, with the evaluations that lack rows, where nobody else built their pools.
    """

    report: Report = _ignore
    enter_phase: Callable[[str], None] = _ignore
    verify: Callable[[], None] = lambda: None
    helpers: Helpers = NOBODY
    wait_for_space: Callable[[Exception], None] = _fail
    build_pools: Callable[[Sequence[EvaluationSpec]], None] = _ignore


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
    key = identity_of(spec)
    hooks.verify()
    store.write(layout.spec_key(layout.trial_prefix(key)), to_json(spec).encode())
    attempt = Attempt(store=store, prefix=layout.trial_prefix(key), verify=hooks.verify)
    running = attempt.go_on() if part == "evaluation" else attempt.start()
    try:
        while not _has_room(
            lambda: _make_all(spec, evaluations, store, hooks, checkpoint_policy, provenance_json, part), hooks
        ):
            continue
        if part == "training":
            return running
    except (LostLockError, LostPeerError):
        raise
    except Exception as error:  # noqa: BLE001 - the boundary where a trial's failure becomes its status
        return attempt.fail(error, running)
    return attempt.finish()


def _has_room(make: Callable[[], None], hooks: Hooks) -> bool:
    """Whether everything could be made; where the disk was too full for it, space is waited for first.

    The store waits by itself. This is for what is written elsewhere, such as the cache folder and temporary files.
    """
    try:
        make()
    except Exception as error:
        if isinstance(error, OutOfSpaceError) or not is_out_of_space(error):
            raise
        hooks.wait_for_space(error)
        return False
    return True


def _make_all(
    spec: TrialSpec,
    evaluations: Sequence[EvaluationSpec],
    store: Store,
    hooks: Hooks,
    checkpoint_policy: CheckpointPolicy,
    provenance_json: str,
    part: Part,
) -> None:
    """Train, unless that is done, then evaluate what is missing, unless only training is asked for."""
    _make_ready(spec)
    key = identity_of(spec)
    if not store.exists(layout.trial_rows(key)):
        _make_checkpoint(spec, store, hooks, checkpoint_policy, provenance_json)
    hooks.verify()
    remove_training_checkpoints(store, key)
    if part != "training":
        _evaluate_missing(spec, evaluations, store, hooks)


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
    return spec.kind == "train" and not store.exists(layout.trial_rows(identity_of(spec)))


def join_trial(spec: TrialSpec, *, store: Store) -> None:
    """What each process of a trial but the first does: its share of the training. It writes and reports nothing.

    Raises:
        Exception: whatever ends the training; the first process waits in vain then, and whoever started them all
            ends it.
    """
    _make_ready(spec)
    if has_training_left(spec, store):
        check_as_planned(spec)
        train(spec, store=store, report=_ignore, verify=_write_nothing, checkpoint_policy=CheckpointPolicy())


def _make_ready(spec: TrialSpec) -> None:
    set_threads(spec.execution.threads)
    release_memory()


def _write_nothing() -> None:
    raise AssertionError("only the first process of a trial writes")


def _make_checkpoint(
    spec: TrialSpec, store: Store, hooks: Hooks, checkpoint_policy: CheckpointPolicy, provenance_json: str
) -> None:
    """Publish the trial's checkpoint, then its history, then its own row, which says that all is there."""
    key = identity_of(spec)
    check_as_planned(spec)
    if spec.kind == "untrained":
        result = None
        _publish_untrained(spec, store, hooks)
    else:
        hooks.enter_phase("training")
        result = train(spec, store=store, report=hooks.report, verify=hooks.verify, checkpoint_policy=checkpoint_policy)
        hooks.verify()
        write_rows(store, layout.history_rows(key), "history", [history_row(key, n) for n in result.history])
    with store.get_folder(layout.checkpoint_prefix(key)) as folder:
        row = trial_row(spec, result, checkpoint_hash=checkpoint_hash(folder), provenance_json=provenance_json)
    hooks.verify()
    write_rows(store, layout.trial_rows(key), "trials", [row])


def _publish_untrained(spec: TrialSpec, store: Store, hooks: Hooks) -> None:
    """The starting encoder as a checkpoint without a similarity."""
    encoder = start_encoder(spec.encoder, spec.seed)
    hooks.verify()
    store.put_folder(
        layout.checkpoint_prefix(identity_of(spec)),
        lambda folder: save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None),
    )


def _evaluate_missing(spec: TrialSpec, evaluations: Sequence[EvaluationSpec], store: Store, hooks: Hooks) -> None:
    """Score the trial's checkpoint on every data set and with every similarity whose rows are not there."""
    key = identity_of(spec)
    [row] = read_rows(store, layout.trial_rows(key), "trials").to_pylist()
    similarity = trained_similarity(spec.similarity, row["gamma_q"], row["gamma_d"])
    missing = {e: missing_evaluations(row["checkpoint_hash"], similarity, e, store) for e in evaluations}
    if not any(missing.values()):
        return
    hooks.build_pools([evaluation for evaluation, similarities in missing.items() if similarities])
    with store.get_folder(layout.checkpoint_prefix(key)) as folder:
        encoder = load_checkpoint(folder).encoder.to("cuda" if spec.execution.device == "gpu" else "cpu")
        evaluate_all(
            folder,
            missing,
            store=store,
            encoder=encoder,
            verify=hooks.verify,
            say=hooks.enter_phase,
            helpers=hooks.helpers,
        )


if __name__ == "__main__":
    from trainers.alone import main

    raise SystemExit(main())
