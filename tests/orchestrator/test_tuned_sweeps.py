"""Sweeps that search: the same samples, choice and tables whatever is killed; shown by `status`, MLflow and Optuna."""

import json
import secrets
import signal
import sqlite3
from dataclasses import replace

import optuna
import pytest
from kills import kill_running_worker
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from outcomes import assert_same_outcome, table_of

from orchestrator.machine import available_cpus
from orchestrator.tuning.drawing import draw
from orchestrator.tuning.halving import Course, verdicts
from results.layout import STUDIES_JOURNAL, checkpoint_prefix, history_rows, trial_rows
from results.rows import read_rows
from results.store import open_store
from results.studies import read_study
from search_spaces.identity import trial_id
from search_spaces.specs import TrialSpec, from_json
from search_spaces.tuning import Asha, ChoiceSpace, FloatSpace, TuneSpec

STEPS = 6
TUNE = {
    "spaces": {"learning_rate": {"loguniform": [1e-5, 1e-2]}, "weight_decay": {"choice": [0.0, 0.1]}},
    "num_samples": 6,
    "seed": 9,
    "scheduler": {"name": "asha", "grace_steps": 2, "reduction_factor": 2},
}
SPEC = TuneSpec(
    spaces=(
        ("learning_rate", FloatSpace(low=1e-5, high=1e-2, log=True)),
        ("weight_decay", ChoiceSpace(choices=(0.0, 0.1))),
    ),
    num_samples=6,
    seed=9,
    sampler="tpe",
    metric="best_validation",
    asha=Asha(grace_steps=2, reduction_factor=2),
)


def _tuned(make_sweep, name="tiny", *, similarity=("cosine", "qnorm"), seed=(0, 1), steps=STEPS, blocks=None, **tune):
    return make_sweep(
        name,
        axes={"init_regime": "random", "similarity": list(similarity), "seed": list(seed)},
        training={"steps": steps, "global_batch": 8, "learning_rate": None},
        validation={"data": "zoo/test", "every_steps": 2},
        tune={**TUNE, **tune},
        **{"resources": {"cpus": 1, "at_once": 2}, **(blocks or {})},
    )


def _studies(sweep):
    """Title -> record of each study."""
    return _studies_in(str(sweep.folder))


def _studies_in(where):
    store = open_store(where)
    found = [read_study(store, key.split("/")[1]) for key in store.list("studies") if key.endswith("/study.json")]
    return {study.title: study for study in found}


def _num_ended(sweep):
    return _num_ended_in(str(sweep.folder))


def _num_ended_in(where):
    return sum(sample.state != "drawn" for study in _studies_in(where).values() for sample in study.samples)


def _reported(sweep):
    """Title -> spec of the trials that the tables are made of."""
    record = json.loads((sweep.folder / "sweep.json").read_text())
    paths = {t["title"]: sweep.folder / "trials" / t["trial_id"] / "spec.json" for t in record["trials"]}
    specs = {title: from_json(TrialSpec, path.read_text()) for title, path in paths.items()}
    assert {trial_id(spec) for spec in specs.values()} == {t["trial_id"] for t in record["trials"]}
    return {title: spec for title, spec in specs.items() if spec.kind == "train"}


@pytest.mark.heavy
def test_a_killed_driver_and_a_killed_worker_change_neither_study_nor_choice_nor_table(make_sweep):
    undisturbed, disturbed = (_tuned(make_sweep, name) for name in ("undisturbed", "disturbed"))
    done = undisturbed.run()
    assert done.returncode == 0, done.stdout + done.stderr + undisturbed.logs()

    driver = disturbed.start("run", disturbed.file.name)
    disturbed.wait_for(lambda sweep: _num_ended(sweep) >= 3)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert _num_ended(disturbed) < 12, "killed too late to show anything"
    waiting = disturbed.command("status", str(disturbed.folder)).stdout
    assert "minilm-1l/random/qnorm/s0, minilm-1l/random/qnorm/s1: wait for what search" in waiting
    refused = disturbed.command("tables", str(disturbed.folder), "gains")
    assert refused.returncode == 2
    missing = disturbed.command("tables", str(disturbed.folder), "missing", "--format", "csv").stdout
    assert "waits for what search minilm-1l/random/qnorm finds: " in missing

    driver = disturbed.start("run", disturbed.file.name)
    disturbed.wait_for(lambda sweep: kill_running_worker(sweep.folder))
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 0, out + err + disturbed.logs()

    assert _studies(disturbed) == _studies(undisturbed)
    assert list(map(trial_id, _reported(disturbed).values())) == list(map(trial_id, _reported(undisturbed).values()))
    assert_same_outcome(disturbed, undisturbed)
    _check_studies(undisturbed, num_studies=2, seeds=(0, 1))
    _check_journal(disturbed)
    _check_mlflow(disturbed)
    again = disturbed.run()
    assert again.returncode == 0
    assert "Nothing is left to run" in again.stdout


def _check_studies(sweep, *, num_studies, seeds, spec=SPEC):
    """Equal budgets, drawn and pruned as the rules say from what was told, and the best of each runs over all seeds."""
    store, studies, reported = open_store(str(sweep.folder)), _studies(sweep), _reported(sweep)
    assert [len(study.samples) for study in studies.values()] == [spec.num_samples] * num_studies
    pruned = 0
    for title, study in studies.items():
        for number, sample in enumerate(study.samples):
            assert sample.values == draw(spec, study.samples[:number])
            history = read_rows(store, history_rows(sample.trial_id), "history").to_pylist()
            assert [row["step"] for row in history] == list(range(1, sample.steps + 1))
            told = [(row["step"], row["validation_score"]) for row in history if row["validation_score"] is not None]
            assert tuple(told) == sample.scores
            assert not store.list(checkpoint_prefix(sample.trial_id))
            assert store.exists(trial_rows(sample.trial_id)) == (sample.state == "finished")
        courses = [Course(scores=s.scores, step=s.steps, is_over=True) for s in study.samples]
        ends = [verdict.pruned_at for verdict in verdicts(spec.asha, spec.metric, STEPS, courses)]
        assert ends == [s.steps if s.state == "pruned" else None for s in study.samples]
        pruned += sum(end is not None for end in ends)
        best = max(
            (max(score for _, score in s.scores), -n) for n, s in enumerate(study.samples) if s.state == "finished"
        )
        chosen = study.samples[-best[1]].values
        for seed in seeds:
            settings = reported[f"{title}/s{seed}"].training
            assert {name: getattr(settings, name) for name in chosen} == chosen
    assert pruned
    assert len(reported) == num_studies * len(seeds)


def _check_journal(sweep):
    storage = JournalStorage(JournalFileBackend(str(sweep.folder / STUDIES_JOURNAL)))
    shown = {study.study_name.split()[0]: study for study in optuna.get_all_study_summaries(storage)}
    for title, study in _studies(sweep).items():
        trials = optuna.load_study(study_name=shown[title].study_name, storage=storage).trials
        assert [trial.params for trial in trials] == [sample.values for sample in study.samples]
        states = {"finished": "COMPLETE", "pruned": "PRUNED"}
        assert [trial.state.name for trial in trials] == [states[sample.state] for sample in study.samples]


def _check_mlflow(sweep):
    """Each sample is a run that says what it is; none is left running."""
    [database] = sweep.folder.rglob("*.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("select run_uuid, key, value from tags").fetchall()
        states = connection.execute("select status from runs").fetchall()
    tags = {}
    for run, key, value in rows:
        tags.setdefault(run, {})[key] = value
    samples = {t["trial_id"]: t for t in tags.values() if t.get("kind") == "sample"}
    known = {
        s.trial_id: (title, number, s)
        for title, study in _studies(sweep).items()
        for number, s in enumerate(study.samples)
    }
    assert samples.keys() == known.keys()
    for key, (title, number, sample) in known.items():
        assert samples[key]["study"] == title
        assert samples[key]["sample"] == str(number)
        assert samples[key]["status"] == sample.state
        assert samples[key]["mlflow.runName"] == f"{title}/sample {number}"
    assert sum(t.get("kind") == "train" for t in tags.values()) == 4
    assert {state for (state,) in states} == {"FINISHED"}


@pytest.mark.heavy
def test_one_similaritys_search_serves_all_and_is_told_and_more_samples_go_on(make_sweep):
    sweep = _tuned(
        make_sweep, seed=(0,), steps=2, per="similarity=cosine", scheduler="none", num_samples=2, sampler="random"
    )
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    [study] = _studies(sweep).values()
    rates = {spec.training.learning_rate for spec in _reported(sweep).values()}
    assert len(rates) == 1
    assert {row["similarity"] for row in table_of(sweep)} == {"cosine", "qnorm"}
    told = "Not on equal terms: hyperparameters are searched under cosine alone"
    assert told in sweep.command("tables", str(sweep.folder), "gains").stdout
    status = sweep.command("status", str(sweep.folder)).stdout
    assert "minilm-1l/random/cosine/sample 1" in status
    planned = json.loads(sweep.command("plan", sweep.file.name, "--json").stdout)
    assert planned["left"] == 0
    assert planned["studies"][0]["found"]["learning_rate"] in rates
    doctor = sweep.command("doctor", str(sweep.folder))
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert "does not ask for" not in doctor.stdout

    other = _tuned(
        make_sweep,
        "other",
        seed=(0,),
        steps=2,
        per="similarity=cosine",
        scheduler="none",
        num_samples=2,
        sampler="random",
    )
    other.file.write_text(other.file.read_text() + f"reuse: ['{sweep.folder}']\n")
    done = other.run()
    assert done.returncode == 0, done.stdout + done.stderr + other.logs()
    assert "3 trials, 1 probe, 7 evaluations, 1 search" in " ".join(done.stdout.split())
    assert "started" not in done.stdout
    assert _studies(other) == _studies(sweep)
    assert table_of(other) == table_of(sweep)

    sweep.file.write_text(sweep.file.read_text().replace("num_samples: 2", "num_samples: 4"))
    planned = json.loads(sweep.command("plan", sweep.file.name, "--json").stdout)
    assert planned["studies"][0]["num_left"] == 2
    assert sweep.run().returncode == 0
    [larger] = _studies(sweep).values()
    assert larger.samples[:2] == study.samples
    assert len(larger.samples) == 4


@pytest.mark.heavy
def test_the_budget_of_trials_counts_samples(make_sweep):
    sweep = _tuned(make_sweep, similarity=["cosine"], seed=(0,), steps=2, num_samples=3, scheduler="none")
    sweep.file.write_text(sweep.file.read_text() + "budget: {trials: 2}\n")
    done = sweep.run()
    assert done.returncode == 1
    assert "the budget of trained trials is spent (budget.trials)" in done.stdout
    [study] = _studies(sweep).values()
    assert [sample.state for sample in study.samples] == ["finished", "finished"]


@pytest.mark.heavy
@pytest.mark.skipif(available_cpus() < 2, reason="two processes need two CPUs")
def test_samples_on_two_devices_are_drawn_and_pruned_as_the_rules_say(make_sweep):
    resources = {"devices": 2, "cpus": available_cpus() // 2, "threads": 1}  # a pruned sample must give all of it back
    # The fourth sample gets a rate of 0.18, under which it scores 0.4 where the others score 1: it is pruned.
    spaces = {**TUNE["spaces"], "learning_rate": {"loguniform": [1e-5, 0.9]}}
    wide = (("learning_rate", FloatSpace(low=1e-5, high=0.9, log=True)), SPEC.spaces[1])
    sweep = _tuned(
        make_sweep, similarity=["cosine"], seed=(0,), spaces=spaces, num_samples=4, blocks={"resources": resources}
    )
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    _check_studies(sweep, num_studies=1, seeds=(0,), spec=replace(SPEC, spaces=wide, num_samples=4))
    _check_journal(sweep)
    doctor = sweep.command("doctor", str(sweep.folder))
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr


@pytest.mark.heavy
def test_a_search_in_a_bucket_whose_driver_is_killed_finds_what_one_on_a_disk_finds(make_sweep, s3_bucket):
    uri = f"{s3_bucket}/{secrets.token_hex(6)}/sweep"
    # No checkpoints to resume from: each would be 140 MB, and the server is slow.
    blocks = {"checkpoints": {"every_steps": None, "every_s": 1e6}}
    settings = {"similarity": ["cosine"], "seed": (0,), "num_samples": 4}
    local = _tuned(make_sweep, "local", **settings, blocks=blocks)
    done = local.run()
    assert done.returncode == 0, done.stdout + done.stderr + local.logs()
    remote = _tuned(make_sweep, "remote", **settings, blocks={**blocks, "storage": uri})
    driver = remote.start("run", remote.file.name)
    remote.wait_for(lambda _: _num_ended_in(uri) >= 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert _num_ended_in(uri) < 4, "killed too late to show anything"

    done = remote.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert _studies_in(uri) == _studies(local)
    tables = [remote.command("tables", where, "gains", "--format", "csv") for where in (uri, str(local.folder))]
    assert [table.returncode for table in tables] == [0, 0], tables[0].stderr + tables[1].stderr
    assert tables[0].stdout == tables[1].stdout
    store = open_store(uri)
    for sample in next(iter(_studies_in(uri).values())).samples:
        assert not store.list(checkpoint_prefix(sample.trial_id))
    assert "Nothing is left to run" in remote.run().stdout
