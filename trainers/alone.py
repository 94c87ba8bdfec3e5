"""Run one trial of a sweep folder alone, without Ray: `python -m trainers.trial --sweep FOLDER TRIAL_ID`.

A trial on several devices is launched as one process for each: `accelerate launch --multi_gpu --num_processes N -m
trainers.trial ...`, which starts N processes on a machine without GPUs too (with `--cpu` it starts one), or
`torchrun --nproc_per_node N -m trainers.trial ...`.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

from results import layout
from results.layout import Status
from results.room import Room
from results.store import LockedError, Store, open_existing_store
from results.waiting_store import WaitingStore
from search_spaces.problems import InputError, Problem, unknown_name
from search_spaces.sizes import parse_size
from search_spaces.specs import TrialSpec
from trainers.attempts import this_process
from trainers.evaluation.pool_building import Building, build_missing
from trainers.provenance import provenance
from trainers.training.history import StepReport
from trainers.training.processes import Processes
from trainers.training.resume import CheckpointPolicy
from trainers.trial import has_training_left, join_trial, planned_trial, run_planned_trial
from trainers.trial_hooks import Hooks

_STALE_AFTER_S = 30.0
_SHOW_EVERY_S = 1.0
EXIT_OK, EXIT_FAILED, EXIT_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial and say how it ended. Returns the exit code: 0 finished, 1 failed, 2 nothing was started."""
    parser = argparse.ArgumentParser(prog="python -m trainers.trial", description=__doc__)
    parser.add_argument("--sweep", required=True, metavar="FOLDER", help="the sweep folder")
    parser.add_argument("trial_id", metavar="TRIAL_ID", help="a folder of FOLDER/trials")
    parser.add_argument("--every-steps", type=int, help="write a training checkpoint every so many steps")
    parser.add_argument("--every-s", type=float, default=60.0, help="or every so many seconds (default: %(default)s)")
    parser.add_argument(
        "--memory-budget",
        metavar="SIZE",
        type=_size,
        help="memory of each search, such as 2GiB, instead of the sweep's",
    )
    given = parser.parse_args(arguments)
    policy = CheckpointPolicy(every_steps=given.every_steps, every_s=given.every_s)
    processes = Processes.launched()
    try:
        if not processes.is_first:
            join_alone(given.sweep, given.trial_id, processes.size)
            return EXIT_OK
        status = run_alone(given.sweep, given.trial_id, policy, processes.size, memory_budget_bytes=given.memory_budget)
    except InputError as error:
        print(error, file=sys.stderr)  # each process says so: the launcher ends the others with the first that fails
        return EXIT_INPUT
    print(f"{given.trial_id}: {status.state}" + (f": {status.reason}" if status.reason else ""))
    return EXIT_OK if status.state == "finished" else EXIT_FAILED


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run_alone(
    sweep: str,
    trial_id: str,
    checkpoint_policy: CheckpointPolicy,
    num_processes: int = 1,
    *,
    memory_budget_bytes: int | None = None,
) -> Status:
    """Run one planned trial under the sweep's lock, in the first of `num_processes` that were launched for it.

    `memory_budget_bytes` is taken for its searches instead of the sweep's.

    Raises:
        InputError: there is no such sweep folder or trial in it, the trial takes another number of processes, or the
            sweep is running.
    """
    opened = _opened(sweep, trial_id, num_processes)
    store = WaitingStore(opened, _room(opened), print)
    try:
        lock = store.lock(layout.SWEEP_LOCK, owner=this_process(), stale_after_s=_STALE_AFTER_S)
    except LockedError as error:
        raise _refused(sweep, f"this sweep is running already ({error})") from error
    try:
        return run_planned_trial(
            trial_id,
            store=store,
            hooks=Hooks(
                report=_Printed(),
                enter_phase=print,
                verify=lock.verify,
                wait_for_space=store.waiting.wait,
                build_pools=partial(build_missing, building=Building(store=store, verify=lock.verify, say=print)),
            ),
            checkpoint_policy=checkpoint_policy,
            provenance_json=provenance().to_json(),
            memory_budget_bytes=memory_budget_bytes,
        )
    finally:
        lock.release()


def join_alone(sweep: str, trial_id: str, num_processes: int) -> None:
    """Take part in the trial that the first process runs, and holds the sweep's lock for.

    Raises:
        InputError: as `run_alone`.
    """
    store = _opened(sweep, trial_id, num_processes)
    join_trial(planned_trial(trial_id, store), store=store)


def _opened(sweep: str, trial_id: str, num_processes: int) -> Store:
    store = open_existing_store(sweep)
    if store is None:
        raise _refused(sweep, "there is no sweep folder here")
    _check_planned(store, sweep, trial_id)
    spec = planned_trial(trial_id, store)
    if num_processes != spec.execution.num_devices and has_training_left(spec, store):
        raise _refused(sweep, _wrong_number(spec, num_processes))
    return store


def _room(store: Store) -> Room:
    """What the sweep file says of space; nothing where only the trial was copied here."""
    if not store.exists(layout.SWEEP_RECORD):
        return Room()
    return layout.from_bytes(layout.SweepRecord, store.read(layout.SWEEP_RECORD)).room


def _wrong_number(spec: TrialSpec, launched: int) -> str:
    wanted = spec.execution.num_devices
    how = "python -m trainers.trial ..."
    if wanted > 1:
        how = (
            f"accelerate launch --multi_gpu --num_processes {wanted} -m trainers.trial ... (on CPUs too: with --cpu it "
            "starts one process)"
        )
    processes = "one process" if wanted == 1 else f"{wanted} processes"
    return f"trial {spec.title} is trained in {processes}, but was launched in {launched}; launch it with: {how}"


class _Printed:
    """Prints steps, at most one a second, and the last."""

    def __init__(self) -> None:
        self._shown = 0.0

    def __call__(self, report: StepReport) -> None:
        is_last = report.numbers.step == report.num_steps
        if is_last or time.monotonic() - self._shown >= _SHOW_EVERY_S:
            self._shown = time.monotonic()
            print(f"step {report.numbers.step}/{report.num_steps}: loss {report.numbers.loss:.4f}", flush=True)


def _check_planned(store: Store, sweep: str, trial_id: str) -> None:
    if store.exists(layout.spec_key(layout.trial_prefix(trial_id))) and store.exists(layout.evaluations_key(trial_id)):
        return
    planned = sorted({key.split("/")[1] for key in store.list("trials") if key.endswith("/evaluations.json")})
    raise _refused(sweep, unknown_name("trial of this sweep", trial_id, planned))


def _refused(sweep: str, message: str) -> InputError:
    return InputError([Problem(where=sweep, key="", message=message)])
