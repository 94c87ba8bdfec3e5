"""`memory_budget` on its way: from the file or the command line, by planning, to the search of a trial."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from results import layout
from results.store import Store, open_store
from search_spaces.problems import InputError
from search_spaces.specs import to_json

_TOO_SMALL = 64 << 20


def test_a_budget_no_search_fits_in_is_refused_by_planning(make_sweep):
    sweep = make_sweep(evaluation={"groups": {"in_domain": ["zoo"]}, "memory_budget": "64MiB"})
    fault = r"64MiB, but embeddings of family 'minilm' have 384 dimensions, and a search needs at least \d+KiB"
    with pytest.raises(InputError, match=f"evaluation.memory_budget: {fault}"):
        resolve(sweep.file)
    planned = resolve(sweep.file, memory_budget="2GiB").expansion.evaluations
    assert {evaluation.spec.memory_budget_bytes for evaluation in planned} == {2 << 30}


def test_the_command_line_takes_sizes_alone(make_sweep):
    sweep = make_sweep()
    with pytest.raises(InputError, match="--memory-budget: '2GB' is not a size"):
        CliRunner().invoke(app, ["run", str(sweep.file), "--memory-budget", "2GB"], catch_exceptions=False)
    assert not sweep.folder.exists()


@pytest.mark.slow
def test_a_trial_alone_takes_it_too_and_it_reaches_the_search(make_sweep):
    sweep = make_sweep(training={"steps": 2})
    store = open_store(str(sweep.folder))
    key = write_untrained(sweep.file, store)
    told = alone(sweep.folder, key, "64MiB")
    assert told.returncode == 1
    assert (
        f"failed: ValueError: the memory budget is {_TOO_SMALL:,} bytes; 1 data sets searched in one pass"
        in told.stdout
    )
    assert alone(sweep.folder, key, "256MiB").returncode == 0
    assert "is not a size" in alone(sweep.folder, key, "256MB").stderr


def write_untrained(file: Path, store: Store) -> str:
    """Leave the untrained trial of a sweep in the store as planned; its id."""
    plan = make_plan(resolve(file), store)
    [trial] = [trial for trial in plan.trials if trial.spec.kind == "untrained"]
    store.write(layout.spec_key(layout.trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
    evaluations = layout.evaluations_to_bytes([grouped.spec for grouped in plan.evaluations])
    store.write(layout.evaluations_key(trial.trial_id), evaluations)
    return trial.trial_id


def alone(folder: Path, key: str, budget: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "trainers.trial", "--sweep", str(folder), key, "--memory-budget", budget]
    return subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
