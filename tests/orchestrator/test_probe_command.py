"""`densesweep probe` as a process: what it runs, what `run` then finds done, its table, and what it refuses."""

import csv
import io
import json
import os
import shutil
import signal

import mlflow
import pytest
from small_sweeps import DEADLINE_S

from orchestrator.only import PROBE, Only, needed_by, parse_only
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.show import open_sweep
from orchestrator.tracking import place_of, run_ids
from results.predictions import PREDICTORS, needs_pilots
from results.store import open_store

PROBES = frozenset({PROBE})


def probe_files(sweep):
    """Every file of probes with the time it was written."""
    return {str(path): path.stat().st_mtime_ns for path in (sweep.folder / "probes").rglob("*.parquet")}


def test_only_probes_are_of_the_part_and_only_what_they_read_is_needed(make_sweep):
    sweep = make_sweep(data_sets=[{"name": "zoo", "source": "path:data", "train_split": "train"}])
    resolved = resolve(sweep.file, kinds=PROBES)
    only = parse_only("family=minilm", resolved.expansion, PROBES)
    assert (only.is_all, only.takes_checkpoints) == (False, False)
    assert all(only.takes(probe) for probe in resolved.expansion.probes)
    assert not any(only.takes(trial) for trial in resolved.expansion.trials)
    needed = needed_by(only, resolved.expansion)
    assert (needed.data, needed.reader) == ({"zoo"}, False)
    plan = make_plan(resolved, None, only)
    assert (len(plan.probes_left), len(plan.trials_left), plan.pools) == (1, 0, ())
    assert Only().is_all
    assert Only().takes_checkpoints


def test_data_that_only_evaluations_read_may_be_missing(make_sweep):
    """A set on the hub that is not here: `run` would fetch it, and probes do without."""
    sweep = make_sweep(evaluation={"groups": {"in_domain": "zoo", "beir": "nfcorpus"}})
    plan = make_plan(resolve(sweep.file, kinds=PROBES), None, Only(kinds=PROBES))
    assert [evaluation.spec.data.content_hash is None for evaluation in plan.evaluations] == [False, True]
    assert len(plan.probes_left) == 1
    assert plan.missing.inputs == ()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"axes": {"family": "minilmm"}}, [], "'minilmm' is not a family (did you mean 'minilm'?)"),
        ({}, ["--only", "family=bert"], "'bert' is not a family of this sweep"),
        (
            {"data_sets": [{"name": "zoo", "source": "path:data"}]},
            [],
            "data set 'zoo' names no train split (write zoo/SPLIT",
        ),
        ({"probe": {"num_queries": 64, "candidates_per_query": 64}}, [], "they do not fill one pool"),
        ({"probe": {"resources": {"cpus": 4096}}}, [], "4096 CPUs for one probe, but this machine has"),
        ({"resources": {"gpus": 64}}, [], "64 GPUs for one probe, but this machine has"),
        ({}, ["--pilot"], "it asks for no pilots (write pilot: {steps: N}, or leave --pilot away)"),
    ],
)
def test_bad_input_is_one_line(make_sweep, change, arguments, message):
    sweep = make_sweep(**change)
    done = sweep.here("probe", sweep.file.name, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not sweep.folder.exists()


def test_a_split_that_is_not_there_is_one_line(make_sweep):
    sweep = make_sweep()
    shutil.rmtree(sweep.file.parent / "data" / "qrels")
    done = sweep.command("probe", sweep.file.name)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())
    assert "Traceback" not in done.stderr


def test_a_sweep_that_is_running_is_left_alone(make_sweep):
    sweep = make_sweep()
    lock = open_store(str(sweep.folder)).lock("sweep", owner=f"here:{os.getpid()}", stale_after_s=60)
    try:
        done = sweep.command("probe", sweep.file.name)
    finally:
        lock.release()
    assert (done.returncode, done.stdout) == (2, "")
    assert "this sweep is running already" in done.stderr.splitlines()[-1]
    assert not (sweep.folder / "probes").exists()


def test_a_symmetric_task_has_nothing_to_predict(make_sweep):
    pairs = {"name": "pairs", "source": "path:pairs", "reader": "sts", "score_range": [0, 5]}
    sweep = make_sweep(
        data_sets=[pairs | {"train_split": "train"}],
        axes={"task": "sts", "training_data": "pairs", "similarity": "cosine", "scale": "fixed(1)"},
        evaluation={"groups": {"in_domain": "pairs"}},
    )
    folder = sweep.file.parent / "pairs"
    folder.mkdir()
    for split in ("train", "test"):
        rows = "".join(f"a{n}\tb{n}\t{n % 6}\n" for n in range(12))
        (folder / f"{split}.tsv").write_text(f"sentence1\tsentence2\tscore\n{rows}")
    done = sweep.command("probe", sweep.file.name)
    assert (done.returncode, done.stdout) == (2, "")
    assert "it has no probe" in done.stderr


@pytest.mark.slow
def test_probes_run_without_training_and_a_run_finds_them_done(make_sweep):
    axes = {"init_regime": ["finetune", "random"]}
    blocks = ["embedding", "gamma", "head"]
    sweep = make_sweep(axes=axes, training={"steps": 2}, probe={"blocks": blocks, "head_queries": 8})
    done = sweep.command("probe", sweep.file.name, "--only", "init_regime=finetune", "--format", "json")
    assert done.returncode == 0, done.stderr + sweep.logs()
    table = json.loads(done.stdout)
    calls = {(row["values"]["predictor"], row["values"]["init_regime"]): row["values"]["call"] for row in table["rows"]}
    assert calls["fisher_condition", "finetune"] == "undecided"  # four pools
    assert calls["fisher_condition", "random"] is None
    assert len(table["holes"]) == 1
    assert not list(sweep.folder.glob("trials/*/trial.parquet"))
    first = probe_files(sweep)
    assert len(first) == 1

    # The rest of them, as files, with the plots of spectra.
    out = sweep.file.parent / "out"
    done = sweep.command("probe", sweep.file.name, "--format", "csv", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert first.items() <= probe_files(sweep).items()
    rows = list(csv.DictReader(io.StringIO((out / "predictions.csv").read_text())))
    assert {row["init_regime"] for row in rows} == {"finetune", "random"}
    without_pilots = [name for name in PREDICTORS if not needs_pilots(name)]
    assert len(rows) == 2 * len(without_pilots)
    assert all(row["call"] == "undecided" for row in rows if row["predictor"] == "fisher_condition")  # four pools
    names = {path.name for path in out.iterdir()}
    for plot in ("spectra", "kappa_sensitivity", "kappa_convergence", "fisher_densities"):
        assert {f"{plot}_minilm-1l_finetune.{kind}" for kind in ("svg", "pdf", "png")} <= names
    assert set(done.stdout.splitlines()) == {str(path) for path in out.iterdir()}

    # MLflow has a run of each, with its rows, and the plots stand at the sweep's.
    store, record = open_sweep(str(sweep.folder))
    place = place_of(store, None, where=str(sweep.file))
    runs = run_ids(store, record, place)
    assert {probe.trial_id for probe in record.probes} <= set(runs)
    client = mlflow.MlflowClient(tracking_uri=place.uri)
    for probe in record.probes:
        run = client.get_run(runs[probe.trial_id])
        assert run.info.status == "FINISHED"
        parent = client.get_run(run.data.tags["mlflow.parentRunId"])
    plots = {file.path for file in client.list_artifacts(parent.info.run_id, "plots")}
    assert "plots/spectra_minilm-1l_finetune.svg" in plots
    assert (sweep.folder / "plots" / "spectra_minilm-1l_finetune.svg").is_file()
    assert (sweep.folder / "tables" / "predictions.md").is_file()

    # Nothing is probed twice, and the table prints again.
    before = probe_files(sweep)
    again = sweep.command("probe", sweep.file.name)
    assert again.returncode == 0
    assert "Nothing is left to run: 2 probes of 'tiny' are finished." in again.stderr
    assert again.stdout.startswith("### Predictions")
    assert sweep.run().returncode == 0
    assert probe_files(sweep) == before
    assert {status["state"] for status in sweep.statuses().values()} == {"finished"}


@pytest.mark.slow
def test_pilots_are_trained_where_they_are_asked_for_and_nothing_else_is(make_sweep):
    sweep = make_sweep(pilot={"steps": 2, "data": "zoo/train", "num_queries": 12, "num_documents": 24})
    done = sweep.command("probe", sweep.file.name, "--format", "json")
    assert done.returncode == 0, done.stderr + sweep.logs()
    table = json.loads(done.stdout)
    assert any("pilots are missing" in hole for hole in table["holes"])
    assert not list(sweep.folder.glob("trials/*/status.json"))

    done = sweep.command("probe", sweep.file.name, "--pilot", "--format", "json")
    assert done.returncode == 0, done.stderr + sweep.logs()
    table = json.loads(done.stdout)
    assert table["holes"] == []
    [pilot] = [row["values"] for row in table["rows"] if row["values"]["predictor"] == "pilot"]
    assert pilot["call"] in ("qnorm", "dnorm", "undecided")
    assert pilot["difference_min"] is not None
    record = json.loads((sweep.folder / "sweep.json").read_text())
    trained = {path.parent.name for path in sweep.folder.glob("trials/*/trial.parquet")}
    assert trained == {trial["trial_id"] for trial in record["pilots"]}
    assert not sweep.statuses()


@pytest.mark.slow
def test_a_probe_that_is_killed_is_run_by_the_next_command(make_sweep):
    sweep = make_sweep()
    driver = sweep.start("probe", sweep.file.name)
    sweep.wait_for(lambda sweep: list(sweep.folder.glob("probes/*/status.json")))
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode in (130, 0), err  # it may have ended meanwhile
    if driver.returncode == 130:
        assert out == ""
        assert err.splitlines()[-1] == "Stopped. To go on where it stopped: densesweep probe sweep.yaml"
    done = sweep.command("probe", sweep.file.name)
    assert done.returncode == 0, done.stderr
    assert len(probe_files(sweep)) == 1
