"""`densesweep explain`, and external numbers of `tables`, over a mirrored folder and over a real finished sweep."""

import csv
import json
import shutil
import socket
from dataclasses import replace

import pytest
from mirrored_sweeps import COSINE, QNORM, RECORD, end_everything
from mirrors import close, open_tracking, place_of, runs_by_name

from orchestrator.explain_command import explain_cell
from orchestrator.open_sources import open_sources
from results import layout
from results.collecting import write_collected
from results.sources import collect_source
from results.store import open_store
from results.tables import TABLES, WITH_REFERENCES
from results.tables.table import TableOptions
from search_spaces.identity import trial_id
from search_spaces.problems import InputError

QNORM_GAIN = ("similarity=qnorm", "group=out", "column=gain")


def explained(store, record=RECORD, *cell):
    store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
    text = explain_cell(open_sources([store.uri]), "gains", cell or QNORM_GAIN, TableOptions(), as_json=True)
    return json.loads(text)


def test_runs_of_a_mirrored_sweep_are_those_of_the_server(store):
    end_everything(store)
    close(open_tracking(store))
    found = explained(store)
    runs = {run.data.tags["trial_id"]: run.info.run_id for run in runs_by_name(place_of(store)).values()
            if "trial_id" in run.data.tags}  # fmt: skip
    assert {t["trial_id"]: t["run_id"] for t in found["trials"]} == {
        trial_id(spec): runs[trial_id(spec)] for spec in (QNORM, COSINE)
    }
    assert {t["role"] for t in found["trials"]} == {"own", "baseline"}
    assert place_of(store).uri in found["tracked_at"]


def test_runs_of_an_mlflow_source_and_of_folders_collected_of_both_are_the_same(store, tmp_path):
    end_everything(store)
    store.write(layout.SWEEP_RECORD, layout.to_bytes(RECORD))
    close(open_tracking(store))
    mirror = f"mlflow:{RECORD.name}@{place_of(store).uri}"
    runs = {trial["trial_id"]: trial["run_id"] for trial in explained(store)["trials"]}
    for place, origin in enumerate((store.uri, mirror)):
        source = open_sources([origin])
        write_collected(source, collect_source(source), tmp_path / f"all{place}")
    again = open_sources([str(tmp_path / "all0")])
    write_collected(again, collect_source(again), tmp_path / "all2")
    for uri in (mirror, *(str(tmp_path / f"all{place}") for place in range(3))):
        found = json.loads(explain_cell(open_sources([uri]), "gains", QNORM_GAIN, TableOptions(), as_json=True))
        assert {trial["trial_id"]: trial["run_id"] for trial in found["trials"]} == runs, uri
    shutil.rmtree(store.uri)
    for place, told in ((0, "collected from a sweep folder that is not here any more"), (1, "runs of mlflow:small@")):
        source = open_sources([str(tmp_path / f"all{place}")])
        found = json.loads(explain_cell(source, "gains", QNORM_GAIN, TableOptions(), as_json=True))
        assert told in found["tracked_at"]
        assert {trial["run_id"] for trial in found["trials"]} == ({None} if place == 0 else set(runs.values()))


def test_explaining_neither_makes_nor_drops_a_database(store):
    end_everything(store)
    assert explained(store)["tracked_at"] == "this sweep was never mirrored"
    database = place_of(store).own_database
    assert not database.exists()
    close(open_tracking(store))
    moved = database.parents[1].with_name("moved elsewhere")
    shutil.copytree(database.parents[1], moved)
    found = explained(open_store(str(moved)))
    assert all(trial["run_id"] for trial in found["trials"])


def test_a_server_that_is_away_hides_nothing_else(store):
    end_everything(store)
    close(open_tracking(store))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and listens to nobody
        away = replace(RECORD, tracking_uri=f"http://127.0.0.1:{free.getsockname()[1]}")
        found = explained(store, away)
    assert "did not answer" in found["tracked_at"]
    assert [trial["run_id"] for trial in found["trials"]] == [None, None]


def test_what_is_no_table_or_cell_is_a_problem_of_the_input(store):
    end_everything(store)
    store.write(layout.SWEEP_RECORD, layout.to_bytes(RECORD))
    source = open_sources([store.uri])
    with pytest.raises(InputError, match="did you mean 'gains'"):
        explain_cell(source, "gain", ["1"], TableOptions(), as_json=False)
    with pytest.raises(InputError, match="which number of the row"):
        explain_cell(source, "gains", ["1"], TableOptions(), as_json=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, make_sweep_in):
    """A real sweep, run to its end: two data sets in a group, four similarities, probes, mirrored in MLflow."""
    home = tmp_path_factory.mktemp("explained")
    sweep = make_sweep_in(home, axes={"similarity": ["cosine", "qnorm", "dnorm", "learnable"]})
    done = sweep.run()
    assert done.returncode == 0, done.stderr
    return sweep


@pytest.mark.slow
def test_every_number_of_every_table_of_a_real_sweep_is_explained(finished):
    """By the command, from what the JSON of the tables says of rows and columns."""
    source = open_sources([str(finished.folder)])
    done = finished.command("tables", "sweep", "--format", "json", "-o", "json", "--allow-missing")
    assert done.returncode == 0, done.stderr
    tables = [json.loads(path.read_text()) for path in sorted((finished.file.parent / "json").glob("*.json"))]
    assert {"gains", "fisher_check", "cohen_d", "learned_gamma", "claims", "significance"} <= {
        t["name"] for t in tables
    }
    for table in tables:
        for column in table["columns"]:
            if column["kind"] == "text" or not table["rows"]:
                continue
            key = column["key"]
            row = next((r for r in table["rows"] if r["values"][key] is not None), table["rows"][0])
            cell = (str(row["row"]), f"column={key}")
            found = json.loads(explain_cell(source, table["name"], cell, TableOptions(), as_json=True))
            if found["external"]:
                assert table["name"] == "fisher_published"
                continue
            behind = found["trials"] + found["probes"]
            assert behind or row["values"][key] is None, (table["name"], cell)
            assert all(item["run_id"] and item["commit"] and item["weights"] for item in behind)
            assert all(data["source"] != "not recorded" and data["content_hash"] for data in found["data"])
            evaluated = [data for data in found["data"] if data["used_for"] == "evaluated on"]
            assert all(data["num_queries"] == 12 for data in evaluated)


@pytest.mark.slow
def test_the_commands_say_it_in_text_and_stand_external_numbers_beside(finished):
    told = finished.command("explain", "sweep", "gains", "similarity=qnorm", "gain")
    assert told.returncode == 0, told.stderr
    for part in (
        "gain = ",
        "formula: gain = score - baseline's score",
        "MLflow run ",
        "seeds: 0",
        "12 queries",
        "commit",
    ):
        assert part in told.stdout
    vague = finished.command("explain", "sweep", "gains", "gain")
    assert vague.returncode == 2
    assert "say more, or give the row's number" in vague.stderr
    numbers = finished.file.parent / "numbers.csv"
    with numbers.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["data_set", "group", "Cosine", "QNorm"])
        writer.writerow(["zoo", "in_domain", "40", "50"])
    given = f"{numbers},model=Other,measure=nDCG@10,source=A paper, 2026"
    shown = finished.command(
        "tables", "sweep", "gains", "--allow-missing", "--reference", given, "--baseline", "cosine"
    )
    assert shown.returncode == 0, shown.stderr
    assert "A paper, 2026" in shown.stdout
    assert "+25.0" in shown.stdout
    none = finished.command("tables", "sweep", "winners", "--reference", given)
    assert none.returncode == 2
    assert all(name in none.stderr for name in WITH_REFERENCES)


def test_tables_that_show_references_are_in_the_registry():
    assert set(WITH_REFERENCES) <= set(TABLES)
