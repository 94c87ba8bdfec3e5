"""Checkpoints in MLflow: their manifests always, their files and their registration on request."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from mirrored_sweeps import COSINE, QNORM, RECORD, SUMMARY, UNTRAINED, begin_trial, end_trial, write_checkpoint
from mirrors import Server, artifacts_of, client_of, close, open_tracking, place_of, runs_by_name

from orchestrator.mirror import MANIFEST, Mirror
from orchestrator.tracking import mirror_is_whole
from results import layout
from results.layout import PlannedTrial
from search_spaces.identity import trial_id

FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "1_Pooling/config.json": b"[]"}
SEED_1 = replace(QNORM, seed=1)


def record_of(*specs, **more):
    trials = tuple(PlannedTrial(trial_id=trial_id(spec), title=spec.title) for spec in specs)
    return replace(RECORD, trials=trials, probes=(), **more)


def train(store, spec, **columns):
    write_checkpoint(store, spec, FILES)
    end_trial(store, spec, **columns)


def mirror_sweep(store, record, place=None):
    tracking = open_tracking(store, place, record=record)
    tracking.finish_sweep("finished", SUMMARY)
    close(tracking)


def test_a_manifest_says_where_a_checkpoint_is_and_what_its_files_are(store, tmp_path):
    train(store, QNORM)
    mirror_sweep(store, record_of(QNORM))
    run = runs_by_name(place_of(store))[QNORM.title]
    held = artifacts_of(place_of(store), run, tmp_path / "held")
    manifest = json.loads(held["checkpoint/manifest.json"])
    assert manifest["uri"] == f"{store.uri}/trials/{trial_id(QNORM)}/checkpoint"
    assert manifest["checkpoint_hash"] == f"checkpoint-of-{trial_id(QNORM)}"
    told = {file["path"]: (file["size_bytes"], file["sha256"]) for file in manifest["files"]}
    assert told == {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()}
    assert manifest["size_bytes"] == sum(map(len, FILES.values()))
    assert [name for name in held if name.startswith("checkpoint/")] == ["checkpoint/manifest.json"]
    assert "checkpoint/manifest.json" in run.data.tags["mlflow.note.content"]


def test_a_new_checkpoint_has_a_new_manifest_and_files_are_read_once(store):
    train(store, QNORM)
    content = Mirror(store, record_of(QNORM)).content(trial_id(QNORM))
    path = Path(store.uri) / layout.checkpoint_prefix(trial_id(QNORM)) / "config.json"
    path.write_bytes(b"changed behind its back")
    assert Mirror(store, record_of(QNORM)).content(trial_id(QNORM)).artifacts == content.artifacts
    end_trial(store, QNORM, checkpoint_hash="another")
    manifest = json.loads(Mirror(store, record_of(QNORM)).content(trial_id(QNORM)).artifacts[MANIFEST])
    assert {file["path"]: file["size_bytes"] for file in manifest["files"]}["config.json"] == 23


def test_files_of_checkpoints_are_uploaded_on_request_and_once(store, tmp_path):
    train(store, QNORM)
    end_trial(store, UNTRAINED)
    record = record_of(QNORM, UNTRAINED, upload_checkpoints=True)
    mirror_sweep(store, record)
    place = place_of(store)
    held = artifacts_of(place, runs_by_name(place)[QNORM.title], tmp_path / "held")
    assert {name: held[f"checkpoint/{name}"] for name in FILES} == FILES
    assert not [
        n for n in artifacts_of(place, runs_by_name(place)[UNTRAINED.title], tmp_path / "u") if "checkpoint" in n
    ]
    [uploaded] = (place.own_database.parent / "artifacts").rglob("model.safetensors")
    first = uploaded.stat().st_mtime_ns
    mirror_sweep(store, record)
    assert uploaded.stat().st_mtime_ns == first


def test_an_upload_that_fails_holds_up_no_number_and_is_made_good_by_the_next_sync(store, tmp_path):
    train(store, QNORM)
    record, place = record_of(QNORM, upload_checkpoints=True), place_of(store)
    folder = Path(store.uri) / layout.checkpoint_prefix(trial_id(QNORM))
    Mirror(store, record).content(trial_id(QNORM))  # the manifest is there
    hidden = folder.rename(tmp_path / "hidden")
    tracking = open_tracking(store, record=record)
    tracking.finish_sweep("finished", SUMMARY)
    tracking.close()
    assert "1 checkpoints not uploaded" in tracking.behind
    assert not mirror_is_whole(store, place)
    run = runs_by_name(place)[QNORM.title]
    assert (run.info.status, run.data.metrics["nDCG_10/attack"]) == ("FINISHED", pytest.approx(0.6))
    hidden.rename(folder)
    mirror_sweep(store, record)
    assert mirror_is_whole(store, place)
    held = artifacts_of(place, runs_by_name(place)[QNORM.title], tmp_path / "held")
    assert {name: held[f"checkpoint/{name}"] for name in FILES} == FILES


def versions_of(place):
    client = client_of(place)
    return {
        model.name: client.get_model_version_by_alias(model.name, "best").tags["trial_id"]
        for model in client.search_registered_models()
    }


def test_the_best_checkpoint_of_each_cell_is_registered_by_validation_score(store, tmp_path):
    train(store, COSINE, validation_score=0.1)
    train(store, QNORM, validation_score=0.2)
    train(store, SEED_1, validation_score=0.3)
    end_trial(store, UNTRAINED)
    record = record_of(COSINE, QNORM, SEED_1, UNTRAINED, register_best=True, upload_checkpoints=True)
    mirror_sweep(store, record)
    place, cell = place_of(store), "small.attack.minilm-3l.finetune"
    best = {f"{cell}.cosine.fixed-20": trial_id(COSINE), f"{cell}.qnorm.fixed-20": trial_id(SEED_1)}
    assert versions_of(place) == best
    mirror_sweep(store, record)
    assert [version.version for version in client_of(place).search_model_versions()] == [1, 1]

    from mlflow.artifacts import download_artifacts

    client, model = client_of(place), f"{cell}.qnorm.fixed-20"
    held = client.get_model_version_download_uri(model, client.get_model_version_by_alias(model, "best").version)
    folder = Path(download_artifacts(held, dst_path=str(tmp_path / "model")))
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES

    train(store, replace(QNORM, seed=2), validation_score=0.4)
    mirror_sweep(store, record_of(COSINE, QNORM, SEED_1, replace(QNORM, seed=2), register_best=True))
    assert versions_of(place) == {**best, f"{cell}.qnorm.fixed-20": trial_id(replace(QNORM, seed=2))}


def test_a_cell_whose_trials_are_not_all_there_registers_none(store):
    train(store, QNORM, validation_score=0.2)
    begin_trial(store, SEED_1)
    mirror_sweep(store, record_of(QNORM, SEED_1, register_best=True))
    assert versions_of(place_of(store)) == {}


@pytest.mark.slow
def test_a_server_takes_uploads_and_registrations_too(store, tmp_path):
    train(store, QNORM)
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder)
    server.start()
    try:
        mirror_sweep(store, record_of(QNORM, register_best=True, upload_checkpoints=True), server.place)
        held = artifacts_of(server.place, runs_by_name(server.place)[QNORM.title], tmp_path / "held")
        assert {name: held[f"checkpoint/{name}"] for name in FILES} == FILES
        assert list(versions_of(server.place).values()) == [trial_id(QNORM)]
    finally:
        server.kill()
