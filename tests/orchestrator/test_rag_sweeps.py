"""A sweep whose questions are answered, as a user runs it: planned, run, shown, mirrored, and gone on with."""

import json
import shutil

import pytest
from outcomes import table_of
from tiny_readers import save_llama, save_t5

from orchestrator.mirror import Mirror
from results.layout import SWEEP_RECORD, SweepRecord, from_bytes
from results.store import open_store


@pytest.fixture
def sweep(make_sweep):
    rag = {"data_sets": "quiz", "reader": {"source": "path:reader"}, "num_passages": 2, "max_new_tokens": 4}
    made = make_sweep(
        data_sets=[
            {"name": "zoo", "source": "path:data", "train_split": "train"},
            {"name": "quiz", "source": "path:quiz"},
        ],
        axes={"similarity": "qnorm"},
        training={"steps": 2},
        evaluation={"groups": {"in_domain": "zoo"}, "rag": rag},
    )
    home = made.file.parent
    shutil.copytree(home / "data", home / "quiz")
    lines = [json.loads(line) for line in (home / "data" / "queries.jsonl").read_text().splitlines()]
    asked = [json.dumps(line | {"metadata": {"answers": ["in the wood"]}}) for line in lines]
    (home / "quiz" / "queries.jsonl").write_text("\n".join(asked))
    save_t5(home / "reader")
    return made


def test_a_reader_or_questions_that_cannot_be_used_are_refused_before_anything_is_started(sweep, make_sweep):
    home = sweep.file.parent
    shutil.rmtree(home / "reader")
    save_llama(home / "reader")
    shutil.copy(home / "data" / "queries.jsonl", home / "quiz" / "queries.jsonl")
    refused = sweep.here("validate", sweep.file.name)
    assert refused.returncode == 2
    reader, questions = sorted(refused.stderr.splitlines())[::-1]
    assert reader.startswith("error: sweep.yaml: evaluation.rag.reader: ")
    assert "max_input_tokens and max_new_tokens are 1028, but it has 128 positions" in reader
    assert "no query of split 'test' of data set 'quiz' has answers" in questions


@pytest.mark.heavy
def test_a_sweep_answers_shows_and_goes_on(sweep):
    done = sweep.run()
    assert done.returncode == 0, done.stderr + sweep.logs()
    assert "Questions answered from what was found" in done.stdout
    [row] = table_of(sweep, "rag")
    assert (row["data_set"], row["similarity"], row["reader"], row["num_passages"]) == ("quiz", "qnorm", "reader", "2")
    assert int(row["num_questions"]) == 12
    assert 0 <= float(row["exact_match"]) <= float(row["f1"]) <= 1
    gains = sweep.command("tables", str(sweep.folder), "gains", "--format", "csv").stdout
    assert "quiz" not in gains
    store = open_store(str(sweep.folder))
    mirror = Mirror(store, from_bytes(SweepRecord, store.read(SWEEP_RECORD)))
    found = mirror.content(mirror.keys[0])
    assert found.metrics["EM/quiz"] == float(row["exact_match"])
    assert found.metrics["F1/quiz"] == pytest.approx(float(row["f1"]))
    assert "nDCG_10/zoo" in found.metrics
    assert "nDCG_10/quiz" not in found.metrics
    assert [name for name in found.artifacts if name.startswith("answers/")]
    # Fewer passages: no training, other answers beside the old ones.
    before = set(sweep.folder.glob("answers/*/qa.parquet"))
    checkpoints = {path: path.stat().st_mtime_ns for path in sweep.folder.glob("trials/*/trial.parquet")}
    text = sweep.file.read_text()
    sweep.file.write_text(text.replace("num_passages: 2", "num_passages: 1"))
    assert "to evaluate" in sweep.command("plan", sweep.file.name).stdout
    assert sweep.run().returncode == 0
    assert len(set(sweep.folder.glob("answers/*/qa.parquet"))) == 2 * len(before)
    assert {path: path.stat().st_mtime_ns for path in checkpoints} == checkpoints
    again = sweep.run()
    assert "Nothing is left to run" in again.stdout
