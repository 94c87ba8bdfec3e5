"""A whole sweep with pilots as a user runs it: they run, are told of, leave no weights, and change no result."""

import json

import polars as pl
import pytest
from outcomes import checkpoints_of, table_of
from polars.testing import assert_frame_equal

from orchestrator.open_sources import open_sources
from orchestrator.show import open_sweep
from results.collect import collect
from results.rows import read_rows
from results.sources import collect_source

pytestmark = pytest.mark.slow
SIDES = {"axes": {"similarity": ["cosine", "qnorm", "dnorm"]}, "training": {"steps": 3, "log_kappa_every": 2}}
PILOT = {"steps": 2, "data": "zoo/train", "similarities": ["qnorm", "dnorm", "dot"], "num_documents": None}


def test_pilots_run_and_results_are_those_of_the_sweep_without_them(make_sweep):
    piloted, plain = make_sweep(name="piloted", **SIDES, pilot=PILOT), make_sweep(name="plain", **SIDES)
    planned = json.loads(piloted.command("plan", piloted.file.name, "--json").stdout)
    kinds = [trial["kind"] for trial in planned["trials"]]
    assert {kind: kinds.count(kind) for kind in kinds} == {"pilot": 3, "train": 3, "untrained": 1}
    assert planned["cells"] == 3
    assert planned["costs"]["steps"] == 3 * 2 + 3 * 3
    for sweep in (piloted, plain):
        done = sweep.run()
        assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    told = piloted.command("status", str(piloted.folder)).stdout
    assert told.count("pilot minilm-1l/finetune/") == 3
    assert "8 finished" in told

    for name in ("gains", "winners", "claims"):
        assert table_of(piloted, name) == table_of(plain, name)
    own = checkpoints_of(plain)
    assert {key: found for key, found in checkpoints_of(piloted).items() if key in own} == own

    store, record = open_sweep(str(piloted.folder))
    assert {item.title.split("/")[-2] for item in record.pilots} == {"qnorm", "dnorm", "dot"}
    for item in record.pilots:
        assert store.list(f"trials/{item.trial_id}/checkpoint") == []
    found = collect(store, record)
    assert found.missing == ()
    assert {"pilot", "pilot_norms"} <= set(found.probes["block"])
    predictors = {row["predictor"] for row in table_of(piloted, "fisher_calls")}
    assert {"pilot", "query_norm_variation", "cohen_d", "effective_rank", "fisher_condition"} == predictors
    [trial, *_] = [t for t in record.trials if "/qnorm/" in t.title]
    history = read_rows(store, f"trials/{trial.trial_id}/history.parquet", "history")["log10_kappa"].to_pylist()
    assert [kappa is not None for kappa in history] == [False, True, False]

    again = piloted.run()
    assert "Nothing is left to run" in again.stdout
    examined = piloted.command("doctor", str(piloted.folder))
    assert examined.returncode == 0, examined.stdout

    mirrored = collect_source(open_sources([f"mlflow:tiny@sqlite:///{piloted.folder}/tracking/mlflow.db"]))
    collected = piloted.command("collect", str(piloted.folder), "-o", str(piloted.folder.parent / "collected"))
    assert collected.returncode == 0, collected.stderr
    together = collect_source(open_sources([str(piloted.folder.parent / "collected")]))
    for other in (mirrored, together):
        assert_frame_equal(other.probes, found.probes)
        assert other.missing == ()

    # What another sweep piloted is taken over, weights or not.
    heir = make_sweep(name="heir", **SIDES, pilot=PILOT, reuse=[str(piloted.folder)])
    taken = heir.run()
    assert taken.returncode == 0, taken.stdout + taken.stderr
    assert pilot_rows(heir).equals(pilot_rows(piloted))
    assert json.loads(heir.command("plan", heir.file.name, "--json").stdout)["left"] == 0


def pilot_rows(sweep):
    found = collect(*open_sweep(str(sweep.folder))).probes.filter(pl.col("block").str.starts_with("pilot"))
    assert found.height
    return found
