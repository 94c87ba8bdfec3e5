"""`densesweep data`: what is listed, described, checked and fetched, over local folders and a cache like the hub's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.data_commands import entries_of, size
from search_spaces.catalogue.data_sets import DATA_SETS, PARTS, default_groups
from search_spaces.catalogue.sources import parse_source
from search_spaces.problems import InputError
from tests.densesweep_here import densesweep_here

PROJECT = Path(__file__).resolve().parents[2]
CARD = """---
configs:
- {config_name: default, data_files: [{split: test, path: qrels/test.jsonl}]}
- {config_name: corpus, data_files: [{split: corpus, path: corpus.jsonl}]}
- {config_name: queries, data_files: [{split: queries, path: queries.jsonl}]}
---
"""
SWEEP = """
name: mine
data_sources: {scifact: "path:local"}
axes:
  task: contrastive
  training_data: attack
  family: minilm
  similarity: cosine
  init_regime: finetune
  seed: 0
  scale: fixed(20)
training: {steps: 2, global_batch: 2, learning_rate: 1e-4}
evaluation: {groups: {in_domain: attack, science: [scifact, nfcorpus]}}
"""


@pytest.fixture
def workplace(tmp_path):
    """A folder with empty caches of its own."""
    (tmp_path / "hub").mkdir()
    return tmp_path


def data(workplace, *arguments):
    """`densesweep data ARGUMENTS` in this process, without a network."""
    return densesweep_here(
        "data",
        *arguments,
        folder=workplace,
        variables={"DENSESWEEP_CACHE": str(workplace / "cache"), "COLUMNS": "200"},
        hub=workplace / "hub",
    )


def data_in_a_process(workplace, *arguments):
    """The same in a process of its own, which reads the environment as users set it."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "DENSESWEEP_CACHE": str(workplace / "cache"),
        "HF_HUB_CACHE": str(workplace / "hub"),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "orchestrator.cli", "data", *arguments]
    return subprocess.run(command, cwd=workplace, capture_output=True, text=True, env=environment, check=False)


def as_json(workplace, *arguments):
    done = data(workplace, *arguments, "--json")
    return json.loads(done.stdout), done.returncode


def snapshot(workplace, name, revision=None):
    """The folder that the hub's client would have made of a data set's repository."""
    source = parse_source(DATA_SETS[name].source if name in DATA_SETS else name)
    folder = workplace / "hub" / f"datasets--{source.location.replace('/', '--')}"
    commit = source.revision or revision
    if source.revision is None:
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    return folder / "snapshots" / commit


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_mteb(folder, num_documents=3, judgements=(("q1", "d0", 1),)):
    (folder / "qrels").mkdir(parents=True)
    (folder / "README.md").write_text(CARD)
    documents = [{"_id": f"d{n}", "title": "", "text": f"text {n}"} for n in range(num_documents)]
    (folder / "corpus.jsonl").write_text(lines(documents))
    (folder / "queries.jsonl").write_text(lines([{"_id": "q1", "text": "a"}, {"_id": "q2", "text": "b"}]))
    rows = [{"query-id": q, "corpus-id": d, "score": g} for q, d, g in judgements]
    (folder / "qrels" / "test.jsonl").write_text(lines(rows))


def test_list_shows_the_whole_catalogue_and_what_is_missing_of_it(workplace):
    rows, code = as_json(workplace, "list")
    assert code == 0
    assert [row["name"] for row in rows] == list(DATA_SETS)
    found = {row["name"]: row for row in rows}
    assert found["scifact"]["state"] == "missing"
    assert (found["scifact"]["documents"], found["scifact"]["queries"]) == (5_183, 300)
    assert found["pydoc"]["state"] == "fetched", "what Python has needs no hub"
    shown = data(workplace, "list").stdout
    assert "are missing, about" in shown
    assert "hotpotqa" in shown
    assert "beir, multi_hop, qa" in shown


def test_groups_parts_and_sweep_files_are_named_as_data_sets_are(workplace):
    (workplace / "local").mkdir()
    (workplace / "mine.yaml").write_text(SWEEP)
    names = {
        "bright": list(default_groups()["bright"]),
        "cqadupstack": list(PARTS["cqadupstack"]),
        "scifact": ["scifact"],
        "mine.yaml": ["attack", "scifact", "nfcorpus"],
    }
    for argument, expected in names.items():
        rows, _ = as_json(workplace, "list", argument)
        assert [row["name"] for row in rows] == expected
    rows, _ = as_json(workplace, "list", "mine.yaml")
    assert rows[1]["source"] == f"path:{workplace / 'local'}"


@pytest.mark.parametrize("command", ["list", "describe", "check", "fetch"])
def test_each_command_says_as_a_process_what_it_says_here(workplace, command):
    folder = snapshot(workplace, "novelhopqa", revision="b" * 40)
    row = {"book": "Emma", "context": "Emma lived at Hartfield.", "question": "Where?", "answer": "Hartfield"}
    (folder / "data").mkdir()
    pq.write_table(pa.Table.from_pylist([row]), folder / "data" / "hop_1-00000-of-00001.parquet")
    data(workplace, "fetch", "novelhopqa")  # what is built is another state than what is fetched
    alone = data_in_a_process(workplace, command, "novelhopqa", "scifact", "--json")
    here = data(workplace, command, "novelhopqa", "scifact", "--json")
    assert (alone.returncode, alone.stdout, alone.stderr) == (here.returncode, here.stdout, here.stderr)
    assert alone.stdout + alone.stderr


def test_what_is_in_the_cache_is_fetched_then_built_and_needs_no_network(workplace):
    write_mteb(snapshot(workplace, "scifact"))
    [row], _ = as_json(workplace, "list", "scifact")
    assert row["state"] == "fetched"
    assert row["here"] > 0
    done = data(workplace, "fetch", "scifact")  # three documents are not SciFact
    assert done.returncode == 2
    assert "documents: 3 are built where the catalogue has 5,183" in done.stderr


def test_a_file_that_the_cache_lacks_is_named(workplace):
    folder = snapshot(workplace, "scifact")
    write_mteb(folder)
    (folder / "corpus.jsonl").unlink()
    done = data(workplace, "describe", "scifact")
    assert "scifact: missing" in done.stdout
    assert f"lacking: {DATA_SETS['scifact'].source}: corpus.jsonl" in done.stdout
    rows, code = as_json(workplace, "check", "scifact")
    assert (rows[0]["verdict"], code) == ("missing", 1)


def test_parts_in_other_repositories_are_looked_for_too(workplace):
    entry = DATA_SETS["trec_dl_2019"]
    write_mteb(snapshot(workplace, "trec_dl_2019"))
    [row], _ = as_json(workplace, "describe", "trec_dl_2019")
    assert row["state"] == "missing"
    assert f"lacking: {entry.corpus_source}: corpus." in data(workplace, "describe", "trec_dl_2019").stdout
    write_mteb(snapshot(workplace, entry.corpus_source))
    [row], _ = as_json(workplace, "describe", "trec_dl_2019")
    assert row["state"] == "fetched"


def test_an_unpinned_set_stays_at_the_commit_that_was_fetched(workplace):
    folder = snapshot(workplace, "novelhopqa", revision="b" * 40)
    row = {"book": "Emma", "context": "Emma lived at Hartfield.", "question": "Where?", "answer": "Hartfield"}
    (folder / "data").mkdir()
    pq.write_table(pa.Table.from_pylist([row]), folder / "data" / "hop_1-00000-of-00001.parquet")
    done = data(workplace, "fetch", "novelhopqa")
    assert (done.returncode, done.stdout.strip()) == (0, "novelhopqa: is there now, 1 documents")
    assert data(workplace, "fetch", "novelhopqa").stdout.strip() == "novelhopqa: was there, 1 documents"
    [listed], _ = as_json(workplace, "list", "novelhopqa")
    assert listed["state"] == "built"


def test_without_cache_and_network_fetch_says_what_to_run_for_each(workplace):
    write_mteb(workplace / "local")
    (workplace / "local" / "qrels" / "test.tsv").write_text("q1\td0\t1\n")
    done = data(workplace, "fetch", "scifact", "bright_pony", f"path:{workplace / 'local'}")
    assert done.returncode == 2
    assert "local: is there now, 3 documents" in done.stdout
    errors = done.stderr.strip().splitlines()
    assert len(errors) == 2
    for line, name in zip(errors, ("scifact", "bright_pony"), strict=True):
        location, _, revision = DATA_SETS[name].source.removeprefix("hf:").partition("@")
        assert f"hf download --repo-type dataset {location} --revision {revision}" in line


def test_check_tells_faults_and_oddities_of_a_local_folder(workplace):
    write_mteb(workplace / "right")
    write_mteb(workplace / "odd", judgements=[("q1", "d0", 0), ("q2", "gone", 1)])
    for name in ("right", "odd"):
        (workplace / name / "README.md").unlink()
    rows, code = as_json(workplace, "check", f"path:{workplace / 'right'}")
    assert code == 1  # its judgements are JSON Lines, which BEIR's layout has not
    assert "there is no file qrels/SPLIT.tsv" in rows[0]["faults"][0]
    for name in ("right", "odd"):
        (workplace / name / "qrels" / "test.tsv").write_text("q1\td0\t1\nq2\td1\t0\n")
    rows, code = as_json(workplace, "check", f"path:{workplace / 'right'}", f"path:{workplace / 'odd'}")
    assert code == 0
    assert [row["verdict"] for row in rows] == ["odd", "odd"]
    assert rows[0]["oddities"] == ["1 queries of 'test' without a relevant document"]
    assert rows[0]["splits"] == ["test: 2 queries, 2 judgements"]
    (workplace / "odd" / "qrels" / "test.tsv").write_text("q1\tgone\t1\nq1\td0\t1\nq1\td0\t1\n")
    done = data(workplace, "check", f"path:{workplace / 'odd'}")
    assert done.returncode == 1
    assert "document 'gone': it is judged here, but it is not in corpus.jsonl" in done.stdout
    assert "document 'd0' is judged 2 times" in done.stdout


def test_check_of_a_shared_collection_is_as_its_catalogue_entry(workplace, shared_data):
    """SciFact from a local folder, held against the counts of the catalogue."""
    (workplace / "local").symlink_to(shared_data("scifact"))
    (workplace / "mine.yaml").write_text(SWEEP.replace("[scifact, nfcorpus]", "scifact"))
    rows, code = as_json(workplace, "check", "mine.yaml")
    found = {row["name"]: row for row in rows}
    assert (found["scifact"]["verdict"], found["scifact"]["documents"]) == ("right", 5_183)
    assert "test: 300 queries, 339 judgements" in found["scifact"]["splits"]
    assert code == 0


def test_describe_says_all_of_an_entry(workplace):
    shown = data(workplace, "describe", "arguana", "cqadupstack-android").stdout
    for part in ("exclusion: query_id", "licence: CC BY-SA 4.0", "groups: beir", "measures: nDCG@10, R@100, RR@10"):
        assert part in shown
    assert "published nDCG@10 on test: 0.397, BM25" in shown
    assert "split test: 1,406 queries, 1,406 relevant" in shown
    assert "part_of: cqadupstack" in shown
    [row], _ = as_json(workplace, "describe", "arguana")
    assert {key: row[key] for key in ("name", "exclusion", "state")} == {
        "name": "arguana", "exclusion": "query_id", "state": "missing"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "scifct"], "'scifct' is not a data set, a default group or a sweep file (did you mean 'scifact'?)"),
        (["describe"], "name data sets, a default group, or a sweep file"),
        (["fetch"], "name data sets, a default group, or a sweep file"),
        (["check", "nowhere.yaml"], "cannot be read"),
        (["check", "path:nowhere"], "nowhere: there is no folder"),
        (["list", "path:nowhere"], "nowhere: there is no folder"),
        (["list", "path:"], "path:: names no folder (write path:FOLDER)"),
        (["check", "path:/"], "path:/: names no folder"),
        (["check", "path:~nobody-of-this-name/x"], "cannot be a path (Could not determine home directory.)"),
        (["fetch", f"path:{'x' * 300}"], "cannot be a path (File name too long)"),
        (["check", "."], "'.' is a folder: write path:."),
    ],
)
def test_arguments_that_are_nothing(workplace, arguments, message):
    done = data(workplace, *arguments)
    assert done.returncode in ((0, 1, 2) if arguments == ["list", "path:nowhere"] else (1, 2))
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_folders_with_spaces_a_slash_at_their_end_or_under_home_are_folders(workplace, monkeypatch):
    home = workplace / "home of one"
    write_mteb(home / "My Notes")
    (home / "My Notes" / "qrels" / "test.tsv").write_text("q1\td0\t1\nq2\td1\t1\n")
    monkeypatch.setenv("HOME", str(home))
    for written in (
        "path:~/My Notes",
        "path:~/My Notes/",
        f"path:{home}/My Notes",
        f"path:{home}/../{home.name}/My Notes",
    ):
        [row], code = as_json(workplace, "check", written)
        assert (code, row["name"], row["verdict"], row["documents"]) == (0, "my notes", "right", 3)


def test_all_unknown_names_are_told_at_once():
    with pytest.raises(InputError) as error:
        entries_of(["scifct", "beir", "quorra"])
    assert len(error.value.problems) == 2


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (15_000, "15 kB"), (2_969_000_000, "3.0 GB")],
)
def test_sizes_for_people(num_bytes, shown):
    assert size(num_bytes) == shown


def test_a_test_split_that_asks_nothing_is_wrong(workplace):
    write_mteb(workplace / "mine")
    (workplace / "mine" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n")
    [row], code = as_json(workplace, "check", f"path:{workplace / 'mine'}")
    assert (code, row["verdict"]) == (1, "wrong")
    assert row["faults"] == ["split 'test' has neither a judgement nor a question with an answer"]
