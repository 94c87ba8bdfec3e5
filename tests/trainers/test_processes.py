"""Several gloo processes against one with the same global batch: losses, gradients and trainings are equal.

To 1e-5 of a gradient's norm: sums of the processes' gradients round differently. Dropout is on, hard negatives and
duplicate masking are included.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_trials import data_spec, hash_of, trial_spec, write_collection

from results.layout import checkpoint_prefix
from results.store import open_store
from search_spaces.identity import trial_id
from search_spaces.specs import Execution, ScaleSpec, SimilaritySpec, ValidationSpec, to_json
from trainers.encoders.checkpoints import load_checkpoint
from trainers.training.processes import Processes

ROOT = Path(__file__).resolve().parents[2]
LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Ten documents for 40 queries: batches of 12 hold each document's text more than once, so some are masked."""
    folder = tmp_path_factory.mktemp("processes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        written = write_collection(folder / "collection")
        judged = (written / "qrels" / "train.tsv").read_text().splitlines()
        # Three documents judged irrelevant to each query: its hard negatives.
        extra = []
        for line in judged[1:]:
            query, document, _ = line.split("\t")
            extra += [f"{query}\td{(int(document[1:]) + shift) % 10}\t0" for shift in (3, 5, 8)]
        (written / "qrels" / "train.tsv").write_text("\n".join([*judged, *extra]) + "\n")
        yield written


@pytest.fixture
def spec(collection, tiny_bert, make_spec):
    def make(num_devices=1, *, towers="shared", validated=False, scale=None, **settings):
        made = trial_spec(
            data_spec(collection, "train"),
            make_spec(tiny_bert, towers=towers, query_prompt="query: "),
            similarity=LEARNABLE,
            global_batch=12,
            hard_negatives=2,
            loss_directions="both",
            **settings,
        )
        validation = ValidationSpec(data=data_spec(collection, "test"), every_steps=2) if validated else None
        execution = Execution(num_devices=num_devices, chunk_size=None if num_devices == 1 else 3)
        return replace(made, execution=execution, validation=validation, scale=scale or made.scale)

    return make


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_processes(spec, folder: Path, what: str) -> Path:
    """Run as many processes as the spec has devices, and return the folder with what they saw."""
    folder.mkdir()
    spec_file = folder / "spec.json"
    spec_file.write_text(to_json(spec))
    size = spec.execution.num_devices
    common = {**os.environ, "PYTHONPATH": str(ROOT), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, str(Path(__file__).with_name("gloo_processes.py")), str(spec_file), str(folder), what]
    started = []
    for rank in range(size):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
        started.append(subprocess.Popen(command, cwd=ROOT, env={**common, **(place if size > 1 else {})}))
    try:
        assert [process.wait(timeout=300) for process in started] == [0] * size
    finally:
        for process in started:
            process.kill()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("size", "towers"), [(2, "shared"), (3, "separate")])
def test_losses_and_gradients_are_those_of_one_process(spec, size, towers, tmp_path):
    alone = run_processes(spec(towers=towers), tmp_path / "alone", "gradients")
    together = run_processes(
        replace(spec(towers=towers), execution=Execution(num_devices=size, chunk_size=None)),
        tmp_path / "together",
        "gradients",
    )
    expected = load_file(alone / "gradients-0.safetensors")
    losses = json.loads((alone / "losses-0.json").read_text())
    assert len(set(losses)) == 3
    for rank in range(size):
        assert json.loads((together / f"losses-{rank}.json").read_text()) == pytest.approx(losses, rel=1e-6)
        found = load_file(together / f"gradients-{rank}.safetensors")
        assert found.keys() == expected.keys()
        for step in range(3):
            largest = max(g.norm().item() for name, g in expected.items() if name.startswith(f"{step}/"))
            for name, gradient in expected.items():
                if name.startswith(f"{step}/"):
                    assert torch.dist(found[name], gradient) <= 1e-5 * largest, name
    assert any(gradient.norm() > 0 for name, gradient in expected.items() if "gammas" in name)


@pytest.mark.slow
def test_a_training_in_two_processes_is_that_of_one(spec, tmp_path):
    """With a matched scale and validation; only the first process reports and writes."""
    changes = {"steps": 6, "validated": True, "scale": ScaleSpec(mode="matched", value=20.0)}
    one = spec(**changes)
    two = spec(2, **changes)
    assert trial_id(one) == trial_id(two)
    alone = run_processes(one, tmp_path / "alone", "training")
    together = run_processes(two, tmp_path / "together", "training")
    expected = json.loads((alone / "training-0.json").read_text())
    for rank, num_reports in ((0, 6), (1, 0)):
        seen = json.loads((together / f"training-{rank}.json").read_text())
        assert seen["losses"] == pytest.approx(expected["losses"], rel=1e-5)
        assert seen["scores"] == pytest.approx(expected["scores"], abs=1e-6)
        assert (seen["reports"], seen["best_step"]) == (num_reports, expected["best_step"])
    weights = [weights_of(one, folder / "sweep") for folder in (alone, together)]
    for name, weight in weights[0].items():
        # Attention does not depend on the bias of its keys: Adam turns the rounding of their gradient into steps.
        assert name.endswith("key.bias") or torch.dist(weight, weights[1][name]) <= 1e-4 * weight.norm() + 1e-5, name
    assert hash_of(one, alone / "sweep")


def weights_of(spec, folder):
    with open_store(str(folder)).get_folder(checkpoint_prefix(trial_id(spec))) as checkpoint:
        return dict(load_checkpoint(checkpoint).encoder.named_parameters())


def test_another_number_of_processes_than_the_spec_asks_for_is_refused(spec, tmp_path):
    from tiny_trials import train_here

    with pytest.raises(ValueError, match="number of devices is 2, but this process was launched with 1"):
        train_here(spec(2), tmp_path)


def test_a_process_alone_exchanges_nothing():
    tensor = torch.ones(3)
    alone = Processes()
    alone.add_up(tensor)
    assert tensor.tolist() == [1, 1, 1]
    assert alone.is_first
    assert alone.number_of_first(0.1, torch.device("cpu")) == 0.1
