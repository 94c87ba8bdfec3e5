"""Whole sweeps as a user runs them: real processes, real kills, equal final tables."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars
import pytest
from kills import kill_running_worker
from outcomes import checkpoints_of, table_of
from polars.testing import assert_frame_equal

from orchestrator.machine import available_cpus
from orchestrator.show import open_sweep
from results.collect import collect
from results.rows import read_rows
from results.store import open_store
from results.tables import TABLES, applicable
from results.tables.table import TableOptions

pytestmark = pytest.mark.slow


def _running(sweep) -> list[str]:
    """Titles of the trials that run now."""
    return [title for title, status in sweep.statuses().items() if status["state"] == "running"]


def _written(sweep) -> dict[str, float]:
    """Every file of trials, probes and evaluations with the time it was written."""
    folders = ("trials", "probes", "evaluations", "encodings")
    files = [path for folder in folders for path in (sweep.folder / folder).rglob("*") if path.is_file()]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_a_sweep_runs_to_its_tables_and_a_second_run_trains_nothing(make_sweep):
    sweep = make_sweep()
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert done.stderr == ""
    assert "Gains against cosine" in done.stdout
    assert "fisher" in done.stdout.lower()
    assert f"densesweep ui {sweep.folder}" in done.stdout
    assert "Failed to fetch metrics" not in sweep.logs()  # Tune's, of what its loggers would have written
    rows = table_of(sweep)
    assert {row["similarity"] for row in rows if row["kind"] == "train"} == {"cosine", "qnorm"}
    assert all(row["score"] for row in rows)
    assert {status["state"] for status in sweep.statuses().values()} == {"finished"}
    assert sweep.training_checkpoints() == []

    before = _written(sweep)
    again = sweep.run()
    assert again.returncode == 0, again.stderr
    assert "Nothing is left to run: 3 trials and 1 probes of 'tiny' are finished." in again.stdout
    assert "Gains against cosine" in again.stdout
    assert _written(sweep) == before


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX engine is installed")
def test_latex_from_the_command_line_compiles_and_csv_equals_the_rows(make_sweep):
    sweep = make_sweep(training={"steps": 2})
    assert sweep.run().returncode == 0
    for output_format in ("latex", "csv"):
        done = sweep.command("tables", str(sweep.folder), "--format", output_format, "-o", str(sweep.folder / "out"))
        assert done.returncode == 0, done.stderr
    store, record = open_sweep(str(sweep.folder))
    for name in applicable(record):
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}_document.tex"]
        compiled = subprocess.run(command, cwd=sweep.folder / "out", capture_output=True, text=True)
        assert compiled.returncode == 0, compiled.stdout[-2000:]
    rows = TABLES["gains"].build(collect(store, record), TableOptions()).rows
    read = polars.read_csv(sweep.folder / "out" / "gains.csv", schema_overrides=rows.schema)
    assert_frame_equal(read, rows.select(read.columns))
    refused = sweep.command("tables", str(sweep.folder), "--format", "csv")
    assert refused.returncode == 2
    assert "several tables are no one CSV file" in refused.stderr


def test_a_killed_driver_and_a_killed_worker_change_no_number(make_sweep):
    undisturbed, disturbed = (make_sweep(name, training={"steps": 30}) for name in ("undisturbed", "disturbed"))
    assert undisturbed.run().returncode == 0

    driver = disturbed.start("run", disturbed.file.name)
    disturbed.wait_for(lambda sweep: sweep.training_checkpoints())
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert len(checkpoints_of(disturbed)) < 3, "killed too late to show anything"

    driver = disturbed.start("run", disturbed.file.name)
    disturbed.wait_for(lambda sweep: kill_running_worker(sweep.folder))
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 0, out + err + disturbed.logs()
    assert max(status["attempt"] for status in disturbed.statuses().values()) > 1

    assert checkpoints_of(disturbed) == checkpoints_of(undisturbed)
    for name in ("gains", "fisher_check"):
        assert table_of(disturbed, name) == table_of(undisturbed, name)


def test_a_trial_alone_gives_what_it_gives_on_a_used_ray_worker(make_sweep):
    sweep = make_sweep(axes={"similarity": ["cosine", "learnable", "dnorm"]})
    assert sweep.run().returncode == 0
    alone = sweep.folder.with_name("alone")
    for trial in (sweep.folder / "trials").iterdir():
        (alone / "trials" / trial.name).mkdir(parents=True)
        for name in ("spec.json", "evaluations.json"):
            shutil.copy(trial / name, alone / "trials" / trial.name / name)
        command = [sys.executable, "-m", "trainers.trial", "--sweep", str(alone), trial.name]
        subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    ours, theirs = open_store(str(sweep.folder)), open_store(str(alone))
    assert ours.list("evaluations") == theirs.list("evaluations")  # keyed by checkpoint hash
    for key in theirs.list("evaluations"):
        assert read_rows(ours, key, "per_query") == read_rows(theirs, key, "per_query")


@pytest.mark.heavy
def test_a_worker_killed_once_too_often_is_recorded_and_the_others_finish(make_sweep):
    sweep = make_sweep(resources={"retries": 0}, training={"steps": 30})
    driver = sweep.start("run", sweep.file.name)
    sweep.wait_for(lambda sweep: sweep.training_checkpoints() and kill_running_worker(sweep.folder))
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 1, out + err
    statuses = sweep.statuses()
    failed = [status for status in statuses.values() if status["state"] == "failed"]
    assert len(failed) == 1
    assert failed[0]["reason"].startswith("worker died")
    assert sum(status["state"] == "finished" for status in statuses.values()) == 2
    assert "INCOMPLETE" in out
    refused = sweep.command("tables", str(sweep.folder), "gains")
    assert refused.returncode == 2
    assert "--allow-missing" in refused.stderr

    again = sweep.run()  # what failed is run again, from where it was
    assert again.returncode == 0, again.stdout + again.stderr
    assert "INCOMPLETE" not in again.stdout


def test_a_loss_that_is_not_finite_is_recorded_and_the_others_finish(make_sweep):
    overflow = f"fixed({10**39})"  # beyond float32
    sweep = make_sweep(include=[{"similarity": "dot", "scale": overflow}])
    done = sweep.run()
    assert done.returncode == 1, done.stdout + done.stderr
    states = {title: status["state"] for title, status in sweep.statuses().items()}
    assert states.pop("minilm-1l/finetune/dot/s0") == "failed"
    assert set(states.values()) == {"finished"}
    failed = sweep.statuses()["minilm-1l/finetune/dot/s0"]
    assert "step 1" in failed["reason"]
    assert "Traceback" in failed["error"]


def test_a_sweep_whose_first_trials_all_fail_stops(make_sweep):
    sweep = make_sweep(
        axes={"scale": f"fixed({10**39})", "similarity": "dot", "seed": list(range(6))},
        resources={"stop_after_failures": 2},
    )
    done = sweep.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(sweep.statuses()) < 7
    assert "Stopped: the first 2 trials all failed, the last with: loss became" in done.stdout


def test_a_second_run_of_a_running_sweep_is_refused(make_sweep):
    sweep = make_sweep(training={"steps": 400})
    driver = sweep.start("run", sweep.file.name)
    at_once = min(2, available_cpus())
    sweep.wait_for(lambda sweep: sweep.training_checkpoints() and len(_running(sweep)) == at_once)
    second = sweep.run()
    assert second.returncode == 2
    assert "this sweep is running already" in second.stderr
    assert second.stderr.count("\n") == 1
    status = sweep.command("status", str(sweep.folder))
    assert "is running" in status.stdout
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 130, out + err
    assert "To go on where it stopped" in out
    status = sweep.command("status", sweep.file.name)
    assert "is not running" in status.stdout
    assert "interrupted" in status.stdout


def test_two_sweeps_run_at_once_without_touching_each_other(make_sweep):
    """They have one cache folder, one name, so one MLflow experiment if it was shared, and trials of equal identity."""
    sweeps = [make_sweep(name, axes={"similarity": "cosine", "seed": seed}) for name, seed in (("a", 0), ("b", 1))]
    drivers = [sweep.start("run", sweep.file.name) for sweep in sweeps]
    for driver, sweep in zip(drivers, sweeps, strict=True):
        out, err = driver.communicate(timeout=600)
        assert driver.returncode == 0, out + err + sweep.logs()
    first, second = (checkpoints_of(sweep) for sweep in sweeps)
    shared = set(first) & set(second)  # the untrained one, which no seed changes
    assert len(first) == len(second) == 2
    assert {key: first[key] for key in shared} == {key: second[key] for key in shared}
    assert len(shared) == 1
    for sweep in sweeps:
        assert {status["state"] for status in sweep.statuses().values()} == {"finished"}
        assert {status["attempt"] for status in sweep.statuses().values()} == {1}
        assert "Nothing is left to run" in sweep.run().stdout


def test_extending_a_finished_sweep_runs_only_what_is_missing(make_sweep):
    sweep = make_sweep()
    assert sweep.run().returncode == 0
    before = _written(sweep)
    text = sweep.file.read_text()
    text = text.replace("- qnorm", "- qnorm\n  - dnorm").replace(
        "in_domain: zoo", "in_domain: zoo\n    other: zoo/train"
    )
    sweep.file.write_text(text)
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr
    after = _written(sweep)
    kept = {path for path in before if path.endswith(("trial.parquet", "per_query.parquet", "probes.parquet"))}
    assert {path: after[path] for path in kept} == {path: before[path] for path in kept}
    assert {row["group"] for row in table_of(sweep)} == {"in_domain", "other"}
    assert {row["similarity"] for row in table_of(sweep) if row["kind"] == "train"} == {"cosine", "qnorm", "dnorm"}


def test_two_scales_end_in_one_table_with_what_their_trainings_saw(make_sweep):
    """Texts are cut at 8 tokens, the training is validated, and each scale has its baseline and its probe."""
    family = {"name": "minilm", "layers": 1, "max_query_length": 8, "max_document_length": 8}
    axes = {"scale": ["fixed(20)", "matched"], "similarity": ["cosine", "qnorm", "dnorm"], "family": family}
    sweep = make_sweep(axes=axes, validation={"data": "zoo/test", "every_steps": 3})
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "minilm-1l/finetune/qnorm/matched(20)/s0: started, 7 negatives per query" in done.stdout
    assert "step 3/6, validation " in done.stdout
    assert "training documents of zoo are longer than 8 tokens and are cut (minilm)" in done.stdout

    trained = [row for row in table_of(sweep) if row["kind"] == "train"]
    assert [row["scale"] for row in trained] == ["fixed(20)"] * 3 + ["matched(20)"] * 3
    assert all(float(row["start_perplexity"]) >= 1 for row in trained)
    assert all(row["gain"] for row in trained)
    deviations = {(row["scale"], row["similarity"]): float(row["start_logit_std"]) for row in trained}
    assert deviations["fixed(20)", "qnorm"] > 2 * deviations["fixed(20)", "cosine"]
    assert deviations["matched(20)", "qnorm"] == pytest.approx(deviations["matched(20)", "cosine"], rel=0.3)

    checks = [row for row in table_of(sweep, "fisher_check") if row["predictor"] == "fisher_condition"]
    assert [row["scale"] for row in checks] == ["fixed(20)", "matched(20)"]
    assert all(row["qnorm_perplexity"] and row["dnorm_saturated_share"] for row in checks)
    assert checks[0]["qnorm_logit_std"] != checks[1]["qnorm_logit_std"]

    status = sweep.command("status", str(sweep.folder)).stdout
    line = next(line.split() for line in status.splitlines() if "qnorm/matched(20)/s0" in line)
    assert line[2:4] == ["finished", "7"]
    assert float(line[4]) > 0
    assert 0 <= float(line[5]) <= 100
    assert "are cut (minilm)" in status
