"""The benchmarks of whole sweeps: their figures come from the lines that a run prints, and add up."""

import io
import json

import pytest
from rich.console import Console

from orchestrator.events import Ended, EnteredPhase, Started, Stepped
from orchestrator.plan import make_plan
from orchestrator.progress import progress_of
from orchestrator.resolve import resolve
from results.layout import Status
from tests.benchmarks import overhead, sweep_runs, utilisation
from tests.benchmarks.sweep_runs import FailedRunError, SweepRun, timed_run
from tests.benchmarks.tiny_sweep import write_tiny_sweep

NUM_SEEDS = 3


def test_the_lines_of_progress_are_those_that_are_waited_for(tmp_path):
    plan = make_plan(resolve(write_tiny_sweep(tmp_path, num_seeds=1)), None)
    printed = io.StringIO()
    progress = progress_of(plan, Console(file=printed, width=500))
    keys = {trial.trial_id: trial.spec.title for trial in plan.trials}
    keys |= {probe.probe_id: probe.spec.title for probe in plan.probes}
    step = {"step": 1, "loss": 0.5, "pairs_per_s": 10.0}
    for key in keys:
        for event in (
            Started(key=key),
            EnteredPhase(key=key, phase="training"),
            Stepped(key=key, history=(step,)),
            EnteredPhase(key=key, phase="evaluating"),
            Ended(key=key, status=Status(state="finished", started_at="")),
        ):
            progress(event)
    matches = [match for line in printed.getvalue().splitlines() if (match := sweep_runs._LINE.match(line))]
    told = {title: [m["what"] for m in matches if m["title"] == title] for title in keys.values()}
    assert set(map(tuple, told.values())) == {("started", "training", "evaluating", "finished")}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def run(home) -> SweepRun:
    """A real run, as `make bench` times it."""
    return timed_run(write_tiny_sweep(home, num_seeds=NUM_SEEDS))


@pytest.mark.slow
def test_every_trial_and_probe_of_a_run_has_its_times(run, home):
    record = json.loads((home / "sweep" / "sweep.json").read_text())
    planned = [item["title"] for item in (*record["trials"], *record["probes"])]
    assert sorted(span.title for span in run.spans) == sorted(planned)
    assert len(run.ends_s) == NUM_SEEDS + 1
    for span in run.spans:
        assert 0 < span.started_s <= span.working_s <= span.ended_s <= run.wall_s
        assert (span.working_s > span.started_s) == (not span.title.startswith("probe "))
    assert run.driver_cpu_s > 0


@pytest.mark.slow
def test_the_figures_of_a_run_add_up(run, monkeypatch):
    for module in (overhead, utilisation):
        monkeypatch.setattr(module, "timed_run", lambda file: run)
    ours = overhead._ours(NUM_SEEDS)
    assert ours.num_trials == NUM_SEEDS + 1
    assert ours.first_end_s + ours.per_trial_s * NUM_SEEDS + ours.after_last_s == pytest.approx(run.wall_s)
    assert ours.driver_cpu_s * ours.num_trials == pytest.approx(run.driver_cpu_s)
    [shares] = utilisation.run(None)
    assert shares.num_trials == NUM_SEEDS + 1
    work_s = shares.work_per_trial_s * shares.num_trials
    assert shares.of_the_process * shares.num_slots * run.wall_s == pytest.approx(work_s)
    assert 0 < shares.of_the_process < shares.while_placing <= 1


@pytest.mark.slow
def test_a_run_that_fails_has_no_figures(tmp_path):
    with pytest.raises(FailedRunError, match=r"none\.yaml"):
        timed_run(tmp_path / "none.yaml")
