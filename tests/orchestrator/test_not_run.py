"""What a file may ask for and nothing acts on is refused by `run`, by its key, before anything is started."""

from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.run import Request, run_sweep
from orchestrator.running import Where
from search_spaces.problems import InputError

TUNED = Path(__file__).parents[2] / "search_spaces" / "tune.yaml"


def test_run_refuses_what_it_does_not_do(tmp_path):
    storage = tmp_path / "sweep"
    with pytest.raises(InputError) as caught:
        run_sweep(Request(path=TUNED, storage=str(storage), console=Console(quiet=True), where=Where()))
    [problem] = caught.value.problems
    assert (problem.where, problem.key) == (str(TUNED), "tune")
    assert "not supported by `run` yet" in problem.message
    assert not storage.exists()
