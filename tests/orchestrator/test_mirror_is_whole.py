"""When a mirror holds all of a sweep, and what becomes of it when the folder moves."""

from dataclasses import replace
from pathlib import Path

import pytest
from mirrored_sweeps import SUMMARY, end_everything
from mirrors import close, end_sweep, free_port, open_tracking, place_of, runs_by_name, snapshot

from orchestrator.tracking import TrackingPlace, mirror_is_whole
from results.store import open_store


def test_a_mirror_is_whole_from_its_end_to_the_next_opening(store, monkeypatch):
    place = place_of(store)
    assert not mirror_is_whole(store, place)
    tracking = open_tracking(store)
    close(tracking)
    assert not mirror_is_whole(store, place)  # a stopped sweep

    end_sweep(store)
    assert mirror_is_whole(store, place)

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracking = open_tracking(store, TrackingPlace(uri=f"http://127.0.0.1:{free_port()}", artifacts=None))
    assert not mirror_is_whole(store, place)
    tracking.finish_sweep("finished", SUMMARY)
    tracking.close()
    assert not mirror_is_whole(store, place)


def test_only_the_place_that_was_written_last_is_whole_and_only_while_it_is_there(store, tmp_path):
    own = place_of(store)
    other = TrackingPlace(uri=f"sqlite:///{tmp_path}/other.db", artifacts=own.artifacts)
    end_sweep(store)
    assert not mirror_is_whole(store, other)
    end_sweep(store, other)
    assert mirror_is_whole(store, other)
    assert not mirror_is_whole(store, own)
    end_sweep(store)
    own.own_database.unlink()
    assert not mirror_is_whole(store, own)


def test_a_moved_sweep_folder_fills_its_database_anew_and_one_that_stays_does_not(store, tmp_path):
    end_everything(store)
    end_sweep(store)
    first = {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()}
    before = snapshot(place_of(store), tmp_path / "a")
    end_sweep(store)
    assert {name: run.info.run_id for name, run in runs_by_name(place_of(store)).items()} == first

    moved = open_store(str(Path(store.uri).rename(tmp_path / "moved")))
    place = place_of(moved)
    assert not mirror_is_whole(moved, place)
    end_sweep(moved)
    assert {run.info.artifact_uri.startswith(place.artifacts) for run in runs_by_name(place).values()} == {True}
    assert snapshot(place, tmp_path / "b") == before
    assert not Path(store.uri).exists()
    assert mirror_is_whole(moved, place)


@pytest.mark.slow
def test_a_database_that_others_share_is_never_deleted(store, tmp_path):
    shared = TrackingPlace(uri=f"sqlite:///{tmp_path}/shared.db", artifacts=(tmp_path / "a").as_uri())
    end_everything(store)
    end_sweep(store, shared)
    before = {name: run.info.run_id for name, run in runs_by_name(shared).items()}
    end_sweep(store, replace(shared, artifacts=(tmp_path / "b").as_uri()))
    assert {name: run.info.run_id for name, run in runs_by_name(shared).items()} == before
