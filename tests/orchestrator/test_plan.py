"""Plans: what is missing without failing, what the rest takes, parts of a sweep, as lines and as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.show_plan import num_cells
from results.best import best_trials
from search_spaces.identity import trial_id
from search_spaces.specs import to_json
from tests.densesweep_here import densesweep_here

ROOT = Path(__file__).parents[2]


def planned(*arguments, home):
    """`densesweep plan ARGUMENTS` with an empty hub cache, out of the hub's reach."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "COLUMNS": "250"}
    environment.pop("HF_HUB_CACHE", None)
    command = [sys.executable, "-m", "orchestrator.cli", "plan", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """The study's plan on a machine that has nothing of it."""
    done = planned(ROOT / "search_spaces" / "paper.yaml", "--json", home=tmp_path_factory.mktemp("hub"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_plan_lists_what_is_missing_with_sizes_and_commands(paper):
    found = {item["name"].partition("@")[0]: item for item in paper["missing"]}
    weights = [item for item in paper["missing"] if item["kind"] == "weights"]
    assert len(weights) == 6  # three retrievers over one base, and Qwen3's two
    contriever = found["hf:facebook/contriever"]
    assert contriever["num_bytes"] == 4 * 109_482_240
    revision = contriever["name"].partition("@")[2]
    assert contriever["command"] == f"hf download facebook/contriever --revision {revision}"
    assert found["hf:google/flan-t5-large"]["kind"] == "reader"
    assert found["scifact"]["command"] == "densesweep data fetch scifact"
    assert found["scifact"]["num_bytes"] == 7_798_555
    assert found["msmarco_v1"]["num_bytes"] is None


def test_a_plan_without_weights_still_counts(paper):
    assert (paper["cells"], paper["done"], paper["left"]) == (72, 0, 216 + 20 + 20)
    assert {trial["trial_id"] for trial in paper["trials"]} == {None}
    assert paper["costs"]["steps"] == 216 * 31_900
    assert paper["costs"]["unit"] == "GPU"
    assert paper["costs"]["hours"] > 100
    assert paper["costs"]["at_most"]
    assert all(basis.startswith("by FLOPs") for part in paper["costs"]["parts"] for basis in part["bases"])
    assert any("novelhopqa" in line for line in paper["costs"]["unknown"])
    assert any("this machine could not run it: resources.devices" in line for line in paper["notices"])
    assert paper["unequal_terms"] == []


def test_plan_counts_the_cells_that_have_a_registered_model_each(make_sweep):
    """Two similarities at two scales, and two seeds and learning rates of each."""
    sweep = make_sweep(
        axes={
            "seed": [0, 1],
            "scale": ["fixed(20)", "matched(20)"],
            "hyperparameters": {"learning_rate": [1e-4, 1e-5]},
        },
        training={"learning_rate": None},
    )
    plan = make_plan(resolve(sweep.file), None)
    trained = [trial.spec for trial in plan.trials if trial.spec.kind == "train"]
    assert len(trained) == 16
    rows = [
        {"kind": "train", "spec_json": to_json(spec), "validation_score": 0.5, "seed": spec.seed}
        | {"trial_id": trial_id(spec), "checkpoint_hash": trial_id(spec)}
        for spec in trained
    ]
    assert num_cells(plan) == len(best_trials(rows)) == 4


def test_a_part_needs_less(tmp_path):
    arguments = (str(ROOT / "search_spaces" / "paper.yaml"), "--only", "family=contriever,similarity=qnorm")
    done = densesweep_here("plan", *arguments, folder=tmp_path, variables={"COLUMNS": "250"}, hub=tmp_path / "hub")
    assert done.returncode == 0, done.stderr
    assert "Qwen" not in done.stdout
    assert "missing: weights hf:facebook/contriever@" in done.stdout
    assert "(about 438 MB): hf download facebook/contriever" in done.stdout
    # Three regimes under three seeds; one, one and three starting checkpoints, and a probe of each.
    assert "trials and probes of the part with family=contriever,similarity=qnorm: 0 done, 19 left" in done.stdout
    assert "72 cells" in done.stdout
    assert f"{9 * 31_900:,} optimiser steps" in done.stdout


def test_unknown_names_and_values_of_a_part_are_refused_together(make_sweep):
    done = make_sweep().here("plan", "sweep.yaml", "--only", "familly=minilm,similarity=cosin,seed,learning_rate=1")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: --only: familly=minilm: 'familly' is not an axis or hyperparameter (did you mean 'family'?)",
        "error: --only: similarity=cosin: 'cosin' is not a similarity of this sweep (did you mean 'cosine'?)",
        "error: --only: seed: is not a choice (write NAME=VALUE,NAME=VALUE)",
        "error: --only: learning_rate=1: '1' is not a learning_rate of this sweep (known: 0.0001)",
    ]


def test_values_that_no_cell_has_together_are_refused(make_sweep):
    sweep = make_sweep(exclude=[{"similarity": "qnorm", "seed": 1}], axes={"seed": [0, 1]})
    done = sweep.here("plan", "sweep.yaml", "--only", "similarity=qnorm,seed=1")
    assert done.returncode == 2
    assert "--only: similarity=qnorm,seed=1: no cell of the sweep has all of these values together" in done.stderr
    assert "not on equal terms: minilm-1l/finetune on zoo: seeds: 0, 1 under cosine; 0 under qnorm" in (
        sweep.here("plan", "sweep.yaml").stdout
    )


def test_a_value_may_stand_for_either_and_numbers_are_read(make_sweep):
    sweep = make_sweep(axes={"seed": [0, 1], "similarity": ["cosine", "qnorm", "dot"]})
    found = sweep.here(
        "plan", "sweep.yaml", "--json", "--only", "similarity=qnorm,similarity=dot,seed=1,learning_rate=1e-4"
    )
    assert [trial["title"] for trial in json.loads(found.stdout)["trials"]] == [
        "minilm-1l/finetune/qnorm/s1",
        "minilm-1l/finetune/dot/s1",
        "minilm-1l/finetune/untrained",
    ]


def test_a_tuned_sweep_says_what_is_searched(make_sweep):
    sweep = make_sweep(
        training={"learning_rate": None},
        validation={"data": "zoo/test", "every_steps": 3},
        tune={"spaces": {"learning_rate": {"loguniform": [1e-5, 1e-3]}}, "num_samples": 5, "seed": 9},
    )
    found = json.loads(sweep.here("plan", "sweep.yaml", "--json").stdout)
    assert found["studies"] == [
        {
            "title": f"minilm-1l/finetune/{similarity}",
            "num_samples": 5,
            "num_left": 5,
            "num_trials": 1,
            "found": None,
            "take_over_from": None,
        }
        for similarity in ("cosine", "qnorm")
    ]
    assert found["costs"]["steps"] == 2 * (5 + 1) * 6
    assert found["unequal_terms"] == []
    sweep.file.write_text(sweep.file.read_text().replace("num_samples: 5", "num_samples: 5\n  per: similarity=cosine"))
    found = json.loads(sweep.here("plan", "sweep.yaml", "--json").stdout)
    assert [study["num_trials"] for study in found["studies"]] == [2]
    assert [line.partition(",")[0] for line in found["unequal_terms"]] == [
        "hyperparameters are searched under cosine alone"
    ]
    validated = sweep.here("validate", "sweep.yaml").stdout
    assert validated.endswith("sweep.yaml: 1 search, 1 trials and 1 probes, no problems.\n")
    refused = sweep.here("plan", "sweep.yaml", "--only", "learning_rate=1e-5")
    assert refused.returncode == 2
    assert "is searched, and what value it will have is not known before" in refused.stderr


@pytest.mark.heavy
def test_a_part_is_run_and_then_the_rest(make_sweep):
    """The part's trials are those of the whole; the rest runs what is missing; tables are of the whole sweep."""
    sweep = make_sweep()
    done = sweep.command("run", "sweep.yaml", "--only", "similarity=qnorm")
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    tables = sweep.command("tables", str(sweep.folder), "missing")
    assert "minilm-1l/finetune/cosine/s0" in tables.stdout
    assert "not started" in tables.stdout
    assert set(sweep.statuses()) == {"minilm-1l/finetune/qnorm/s0", "minilm-1l/finetune/untrained"}

    planned = json.loads(sweep.command("plan", "sweep.yaml", "--json").stdout)
    assert (planned["done"], planned["left"]) == (3, 1)
    assert [t["title"] for t in planned["trials"] if t["state"] == "left"] == ["minilm-1l/finetune/cosine/s0"]
    assert planned["costs"]["steps"] == 6
    told = {part["what"]: part["bases"] for part in planned["costs"]["parts"]}
    assert told["training"] == ["measured by 1 finished trial of the same shape"]
    assert told["evaluation"] == ["by FLOPs, from the measured speed of 1 finished trial of other shapes"]

    again = sweep.command("run", "sweep.yaml", "--only", "similarity=qnorm")
    assert "Nothing is left to run: 2 trials and 1 probes with similarity=qnorm of 'tiny' are finished." in again.stdout
    assert sweep.run().returncode == 0
    assert set(sweep.statuses()) == {f"minilm-1l/finetune/{n}" for n in ("qnorm/s0", "cosine/s0", "untrained")}
