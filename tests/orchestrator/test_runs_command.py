"""`run_files: true` and `densesweep runs`: what trec_eval says of the exported files is what the rows say."""

import csv
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytrec_eval
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from results import layout
from results.asked import asked_evaluations, asked_runs
from results.rows import read_rows
from results.store import Store, open_store
from search_spaces.problems import InputError
from search_spaces.specs import to_json
from trainers.training.resume import CheckpointPolicy
from trainers.trial import run_planned_trial
from trainers.trial_hooks import Hooks


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A sweep whose trials have run, without Ray."""

    file: Path
    store: Store
    exported: Path


def write_plan(file: Path, store: Store) -> list[str]:
    """What `densesweep run` writes before it places anything; the trials' ids."""
    plan = make_plan(resolve(file), store)
    store.write(layout.SWEEP_RECORD, layout.to_bytes(sweep_record(plan)))
    for trial in plan.trials:
        store.write(layout.spec_key(layout.trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
        evaluations = layout.evaluations_to_bytes([grouped.spec for grouped in plan.evaluations])
        store.write(layout.evaluations_key(trial.trial_id), evaluations)
    return [trial.trial_id for trial in plan.trials]


def run_trials(store: Store, keys: list[str]) -> None:
    for key in keys:
        policy = CheckpointPolicy()
        status = run_planned_trial(key, store=store, hooks=Hooks(), checkpoint_policy=policy, provenance_json="{}")
        assert status.state == "finished", status.error


def runs_command(*arguments: object) -> tuple[int, str]:
    try:
        result = CliRunner().invoke(app, ["runs", *map(str, arguments)], catch_exceptions=False)
    except InputError as error:
        return 2, str(error)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def finished(make_sweep_in, tmp_path_factory) -> Path:
    """Two trained trials and the untrained one; the data set grades twice, as TREC-DL does, and takes from 2 on."""
    sweep = make_sweep_in(
        tmp_path_factory.mktemp("runs") / "tiny",
        data_sets=[{"name": "zoo", "source": "path:data", "train_split": "train", "relevance_threshold": 2}],
        training={"steps": 2},
        axes={"similarity": ["dot", "qnorm"]},
        evaluation={"groups": {"in_domain": ["zoo"]}, "run_files": True},
    )
    for split in ("train", "test"):
        file = sweep.file.parent / "data" / "qrels" / f"{split}.tsv"
        lines = file.read_text().splitlines()
        graded = [line.rpartition("\t")[0] + "\t2" for line in lines[1:]]
        others = [f"{line.split()[0]}\td{(number * 5) % 12}-{number % 4}\t1" for number, line in enumerate(lines[1:])]
        known = {tuple(line.split()[:2]) for line in graded}
        file.write_text(
            "\n".join([lines[0], *graded, *(o for o in others if tuple(o.split()[:2]) not in known)]) + "\n"
        )
    store = open_store(str(sweep.folder))
    run_trials(store, write_plan(sweep.file, store))
    return sweep.file.parent


@pytest.fixture
def kept(finished, tmp_path) -> Kept:
    """A copy of that sweep, its data and its file, to change."""
    home = Path(shutil.copytree(finished, tmp_path / "tiny"))
    file, store = home / "sweep.yaml", open_store(str(home / "sweep"))
    file.write_text(file.read_text().replace(str(finished), str(home)))
    write_plan(file, store)  # specs name the copied data
    return Kept(file=file, store=store, exported=tmp_path / "runs")


def read_run(file: Path) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = defaultdict(dict)
    for line in file.read_text().splitlines():
        query, q0, document, _, score, tag = line.split()
        assert (q0, tag) == ("Q0", tag)
        run[query][document] = float(score)
    return run


def read_qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = defaultdict(dict)
    for query, _, document, grade in map(str.split, file.read_text().splitlines()):
        qrels[query][document] = int(grade)
    return qrels


def test_trec_eval_on_the_exported_files_gives_the_rows_and_a_lost_file_comes_back(kept):
    code, output = runs_command(kept.store.uri, "-o", kept.exported)
    assert (code, "run files in" in output) == (0, True)
    index = list(csv.DictReader((kept.exported / "runs.csv").open()))
    trials = [
        row
        for planned in layout.from_bytes(layout.SweepRecord, kept.store.read(layout.SWEEP_RECORD)).trials
        for row in read_rows(kept.store, layout.trial_rows(planned.trial_id), "trials").to_pylist()
    ]
    compared = 0
    for trial in trials:
        for asked in asked_evaluations(kept.store, trial):
            [line] = [
                line
                for line in index
                if (line["trial_id"], line["score_similarity"]) == (trial["trial_id"], asked.score_similarity)
            ]
            qrels, run = read_qrels(kept.exported / line["qrels"]), read_run(kept.exported / line["run"])
            assert line["relevance_level"] == "2"
            graded = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10"}).evaluate(run)
            binary = pytrec_eval.RelevanceEvaluator(qrels, {"recall_100"}, relevance_level=2).evaluate(run)
            for row in read_rows(kept.store, asked.key, "per_query").to_pylist():
                theirs = {"nDCG@10": (graded, "ndcg_cut_10"), "R@100": (binary, "recall_100")}
                if row["measure"] in theirs:
                    found, name = theirs[row["measure"]]
                    assert row["value"] == pytest.approx(found[row["query_id"]][name], abs=1e-9)
                    compared += 1
    # 12 queries, 2 measures; 2 trained trials under their own similarity, the untrained one under all that are fixed
    assert compared == 12 * 2 * len(index)
    assert len(index) > 4
    lose_one_and_run_again(kept)


def lose_one_and_run_again(kept):
    """A lost run file is told, and made again as it was; no row changes."""
    key = next(key for key in kept.store.list("evaluations") if key.endswith("run.trec.gz"))
    whole = kept.store.read(key)
    for damaged in (b"junk", whole[: len(whole) // 2]):
        kept.store.write(key, damaged)
        code, output = runs_command(kept.store.uri, "-o", kept.exported / "damaged")
        assert (code, "is damaged" in output, "run the sweep again" in output) == (2, True, True)
    kept.store.write(key, whole)
    code, output = runs_command(kept.store.uri, "-o", kept.file)
    assert (code, "cannot be written" in output) == (2, True)
    rows = key.replace("run.trec.gz", "per_query.parquet")
    before = kept.store.read(key), read_rows(kept.store, rows, "per_query")
    kept.store.delete(key)
    code, output = runs_command(kept.store.uri, "-o", kept.exported / "again")
    assert (code, "its run file is missing (run the sweep again, or export the others" in output) == (2, True)
    assert not (kept.exported / "again").exists()
    lock = kept.store.lock(layout.SWEEP_LOCK, owner="a driver", stale_after_s=60.0)
    code, output = runs_command(kept.store.uri, "-o", kept.exported / "again")
    lock.release()
    assert code == 2
    assert output.startswith(f"{kept.store.uri}: this sweep is running, and ")
    assert output.endswith(" are there: wait until it has ended, or export the others with --allow-missing")
    assert not (kept.exported / "again").exists()
    assert runs_command(kept.store.uri, "-o", kept.exported / "again", "--allow-missing")[0] == 0
    plan = make_plan(resolve(kept.file), kept.store)
    assert "to evaluate" in [trial.state for trial in plan.trials]
    run_trials(kept.store, [trial.trial_id for trial in plan.trials])
    assert (kept.store.read(key), read_rows(kept.store, rows, "per_query")) == before
    assert {trial.state for trial in make_plan(resolve(kept.file), kept.store).trials} == {"finished"}


def test_without_data_there_are_no_judgements_and_without_run_files_the_command_says_how(kept, monkeypatch, tmp_path):
    keep_none(kept, tmp_path)
    kept.file.write_text(kept.file.read_text().replace("run_files: false", "run_files: true"))
    write_plan(kept.file, kept.store)
    lose_the_data(kept, monkeypatch, tmp_path)


def keep_none(kept, tmp_path):
    """Identities stay."""
    with_runs = {planned for trial in trial_rows_of(kept.store) for planned in keys_of(kept.store, trial)}
    kept.file.write_text(kept.file.read_text().replace("run_files: true", "run_files: false"))
    write_plan(kept.file, kept.store)
    assert {planned for trial in trial_rows_of(kept.store) for planned in keys_of(kept.store, trial)} == with_runs
    assert [run for trial in trial_rows_of(kept.store) for run in asked_runs(kept.store, trial)] == []
    code, output = runs_command(kept.store.uri, "-o", tmp_path / "none")
    assert code == 2
    assert "write `evaluation: {run_files: true}`" in output


def trial_rows_of(store: Store):
    keys = [key for key in store.list("trials") if key.endswith("/trial.parquet")]
    return [row for key in keys for row in read_rows(store, key, "trials").to_pylist()]


def keys_of(store: Store, trial):
    return [asked.key for asked in asked_evaluations(store, trial)]


def lose_the_data(kept, monkeypatch, tmp_path):
    shutil.rmtree(kept.file.parent / "data")
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "empty"))
    code, output = runs_command(kept.store.uri, "-o", kept.exported)
    assert code == 0
    assert "data set 'zoo' is not on this machine as it was evaluated" in output
    assert {line["qrels"] for line in csv.DictReader((kept.exported / "runs.csv").open())} == {""}


def test_ids_that_a_run_file_cannot_hold_are_refused_before_anything_starts(make_sweep):
    sweep = make_sweep(evaluation={"groups": {"in_domain": ["zoo"]}, "run_files": True})
    for file in (sweep.file.parent / "data").rglob("*.*"):
        file.write_text(file.read_text().replace("d3-2", "d3 2"))
    with pytest.raises(InputError, match=r"evaluation.run_files: data set 'zoo' has a document id 'd3 2'"):
        resolve(sweep.file)
