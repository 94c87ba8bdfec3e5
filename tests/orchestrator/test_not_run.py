"""What a file may ask for and nothing acts on is refused by `run`, each by its key, before anything is started."""

from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.run import Request, run_sweep
from search_spaces.problems import InputError

DEMO = (Path(__file__).parents[2] / "search_spaces" / "demo.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("budget: {trials: 3}", "budget"),
        ("reuse: [sweeps/other]", "reuse"),
        ("resources: {cpus: 1, memory: 4GB}", "resources.memory"),
    ],
)
def test_run_refuses_what_it_does_not_do(tmp_path, text, key):
    file, storage = tmp_path / "sweep.yaml", tmp_path / "sweep"
    file.write_text(DEMO.replace("resources: {cpus: 1, at_once: 2}", "") + text + "\n")
    with pytest.raises(InputError) as caught:
        run_sweep(Request(path=file, storage=str(storage), console=Console(quiet=True)))
    [problem] = caught.value.problems
    assert (problem.where, problem.key) == (str(file), key)
    assert "not supported by `run` yet" in problem.message
    assert not storage.exists()
