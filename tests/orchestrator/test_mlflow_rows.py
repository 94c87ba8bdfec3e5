"""Rows that a real MLflow server, or its SQLite database, holds of a sweep are those of the sweep's folder."""

from dataclasses import replace
from pathlib import Path

import pytest
from mirrored_sweeps import (
    COSINE,
    QNORM,
    RECORD,
    SUMMARY,
    end_everything,
    end_trial,
    evaluate,
    pooled_sweep,
    write_checkpoint,
    write_status,
)
from mirrors import Server, close, open_tracking, place_of
from polars.testing import assert_frame_equal

from orchestrator.mlflow_client import open_client
from orchestrator.open_sources import open_sources
from results import layout
from results.collecting import write_collected
from results.sources import collect_source
from results.tables import TABLES, applicable
from results.tables.table import TableOptions
from search_spaces.identity import trial_id
from search_spaces.problems import InputError
from search_spaces.specs import to_json
from tests.densesweep_here import densesweep_here
from tests.results.builders import probe, small_sweep


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    started = Server(folder)
    started.start()
    yield started
    started.kill()


def mirrored(store, record=RECORD, place=None):
    """The sweep's own folder and, as it was sent to `place`, the MLflow source of it."""
    store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
    tracking = open_tracking(store, place, record)
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)
    return store.uri, f"mlflow:{record.name}@{(place or place_of(store)).uri}"


def whole_sweep(store):
    """A sweep with rows of every kind, as `densesweep run` leaves it."""
    folder = small_sweep(store)
    specs = [probe(), probe(init_regime="random", seed=0), probe(family="smollm2", layers=2, init_regime="from_base")]
    for planned, spec in zip(folder.probes, specs, strict=True):
        prefix = layout.probe_prefix(planned.trial_id)
        store.write(layout.spec_key(prefix), to_json(spec).encode())
        write_status(store, prefix, "finished")
    return folder.record()


def assert_same_rows(folder, other):
    one, two = (collect_source(open_sources([uri])) for uri in (folder, other))
    for name in ("trials", "expected", "expected_sts", "expected_answers", "answers", "correlations", "probes"):
        assert_frame_equal(getattr(one, name), getattr(two, name))
    assert_frame_equal(one.per_query, two.per_query)
    assert_frame_equal(one.norms(), two.norms())
    assert_frame_equal(one.history(), two.history())
    assert (one.missing, one.warnings, one.record) == (two.missing, two.warnings, two.record)
    for name in applicable(one.record):
        tables = [TABLES[name].build(collected, TableOptions()) for collected in (one, two)]
        assert_frame_equal(tables[0].rows, tables[1].rows)
        assert (tables[0].notes, tables[0].holes) == (tables[1].notes, tables[1].holes), name


@pytest.mark.slow
def test_rows_of_every_kind_are_the_same_from_sqlite(store):
    assert_same_rows(*mirrored(store, whole_sweep(store)))


@pytest.mark.slow
def test_rows_are_the_same_from_a_server_and_checkpoints_are_not_fetched(store, server):
    record = replace(whole_sweep(store), upload_checkpoints=True)
    folder, other = mirrored(store, record, server.place)
    assert_same_rows(folder, other)


def test_checkpoints_are_not_fetched(store):
    end_everything(store)
    write_checkpoint(store, QNORM, {"model.safetensors": b"weights"})
    _, uri = mirrored(store, replace(RECORD, upload_checkpoints=True))
    source = open_sources([uri])
    fetched = {Path(key).name for key in source.store.list("")}
    assert "trial.parquet" in fetched
    assert not fetched & {"model.safetensors", "manifest.json"}


def test_what_failed_is_missing_there_too(store):
    end_trial(store, COSINE)
    prefix = layout.trial_prefix(trial_id(QNORM))
    store.write(layout.spec_key(prefix), to_json(QNORM).encode())
    write_status(store, prefix, "failed", reason="loss is NaN at step 7")
    _, uri = mirrored(store)
    missing = collect_source(open_sources([uri])).missing
    assert "failed: loss is NaN at step 7" in {item.reason for item in missing}
    assert {item.reason for item in missing if item.kind == "trial"} == {"not started", "failed: loss is NaN at step 7"}


def test_pools_come_along(store):
    record = pooled_sweep(store)
    on_pool = record.evaluations[-1]
    pool = layout.PoolRecord(
        pool_id=on_pool.pool_id,
        data_set="pydoc",
        split="test",
        num_corpus_documents=1000,
        num_documents=100,
        counts={"judged": 9},
        settings=layout.PoolSettings(),
        encoders=(),
        made_by="{}",
    )
    store.write(layout.pool_record(on_pool.pool_id), layout.to_bytes(pool))
    _, uri = mirrored(store, record)
    collected = collect_source(open_sources([uri]))
    table = TABLES["gains"].build(collected, TableOptions(where={"tier": "pool"}))
    assert any("pydoc/test 100 of 1,000" in note for note in table.notes)


@pytest.mark.slow
def test_a_folder_and_its_mirror_are_one_sweep(store, tmp_path):
    end_everything(store)
    folder, uri = mirrored(store)
    both = open_sources([folder, uri])
    collected = collect_source(both)
    alone = collect_source(open_sources([folder]))
    assert_frame_equal(collected.per_query, alone.per_query)
    assert {finding.kind for finding in collected.findings} == {"duplicate"}
    assert len(collected.findings) == len(RECORD.trials) + len(RECORD.probes)
    write_collected(both, collected, tmp_path / "all")
    again = collect_source(open_sources([str(tmp_path / "all")]))
    assert_frame_equal(again.per_query, alone.per_query)
    assert again.findings == collected.findings


def test_a_mirror_that_lags_behind_its_folder_is_refused_beside_it(store):
    end_everything(store)
    folder, uri = mirrored(store)
    evaluate(store, QNORM, "pydoc", [0.2, 0.41])
    with pytest.raises(InputError, match="different rows of it"):
        open_sources([folder, uri])


def test_a_server_without_runs_says_what_sends_them(store, tmp_path):
    place = place_of(store)
    client = open_client(place, "small")
    what = f"mlflow:small@{place.uri}"
    sent = "a running sweep sends them as they end, densesweep sync SWEEP what MLflow lacks of one"
    assert refused(what, tmp_path) == f"there is no experiment 'small': no sweep was sent to this server ({sent})"
    client.create_experiment("small", artifact_location=place.artifacts)
    assert refused(what, tmp_path) == f"holds no sweep ({sent})"
    mirrored(store)
    assert refused(what, tmp_path) == f"holds no run of any trial or probe, only that of the sweep ({sent})"


def refused(source, folder):
    """What `tables` and `collect` say of a source, in one line each."""
    found = set()
    for command in (["tables", source], ["collect", source, "-o", str(folder / "all")]):
        done = densesweep_here(*command, folder=folder)
        assert (done.returncode, done.stdout) == (2, "")
        [line] = done.stderr.splitlines()
        found.add(line.removeprefix(f"error: {source}: "))
    [said] = found
    return said


def test_an_experiment_or_database_that_is_not_there_is_told(store, monkeypatch):
    end_everything(store)
    _, uri = mirrored(store)
    with pytest.raises(InputError, match=r"'smal' is not an experiment \(did you mean 'small'"):
        open_sources([uri.replace("mlflow:small", "mlflow:smal")])
    with pytest.raises(InputError, match="there is no database"):
        open_sources(["mlflow:small@sqlite:////nowhere/mlflow.db"])
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match="names no tracking server"):
        open_sources(["mlflow:small"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.partition("@")[2])
    assert open_sources(["mlflow:small"]).record == RECORD
