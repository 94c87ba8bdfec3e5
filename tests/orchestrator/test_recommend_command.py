"""`densesweep recommend` as a process: what it says of one's own model and data, and what it refuses."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_sweeps import DEADLINE_S, write_collection
from test_families import folder_of

from results.layout import to_bytes
from results.store import open_store
from tests.densesweep_here import densesweep_here
from tests.results.builders import seeded_sweep, small_sweep

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path):
    """A folder with a collection `zoo` and a model `mine`, in which commands run."""
    write_collection(tmp_path / "zoo")
    folder_of(tmp_path / "mine", prompts={"query": "query: "})
    return tmp_path


def start(home, *arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "NO_COLOR": "1", **variables}
    command = [sys.executable, "-m", "orchestrator.cli", "recommend", *arguments]
    return subprocess.Popen(
        command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def recommend(home, *arguments, **variables):
    process = start(home, *arguments, **variables)
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "minilmm", "--data", "zoo"], "'minilmm' is not a family (did you mean 'minilm'?)"),
        (["--family", "models/none", "--data", "zoo"], "there is no folder models/none"),
        (["--family", "minilm", "--data", "zooo"], "'zooo' is not a data set"),
        (["--family", "minilm", "--data", "path:none"], "there is no folder none"),
        (["--family", "minilm", "--data", "mine"], "mine holds no corpus.jsonl"),
        (["--family", "minilm", "--data", "zoo/dev"], "'zoo' has no split 'dev' to take training pairs from"),
        (["--family", "minilm", "--data", "zoo", "--checkpoint", "none"], "there is no folder none"),
        (["--family", "minilm", "--data", "zoo", "--scale", "20"], "'20' is not a scale (write fixed(20)"),
        (["--family", "minilm", "--data", "zoo", "--sweeps", "none"], "none: there is no such folder"),
        (["--family", "plain", "--data", "zoo"], "does not say it"),
    ],
)
def test_bad_input_is_one_line(home, arguments, message):
    folder_of(home / "plain", modules=())
    done = densesweep_here("recommend", *arguments, folder=home, variables={"COLUMNS": "1000"})
    assert (done.returncode, done.stdout) == (2, "")
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())
    assert message in done.stderr.splitlines()[0]


@pytest.mark.parametrize("damage", ["no qrels", "other splits", "nothing relevant"])
def test_data_without_training_pairs_is_one_line(home, damage):
    qrels = home / "zoo" / "qrels"
    if damage == "no qrels":
        shutil.rmtree(qrels)
    elif damage == "other splits":
        (qrels / "train.tsv").unlink()
    else:
        (qrels / "train.tsv").write_text("query-id\tcorpus-id\tscore\nqd0-0\td0-0\t0\n")
    done = densesweep_here("recommend", "--family", "minilm", "--data", "zoo", folder=home)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    told = {
        "no qrels": "qrels",
        "other splits": "has no split 'train' to take training pairs from (there are: test; take one that you will not",
        "nothing relevant": "split 'train' of 'zoo' has no query with a relevant document",
    }
    assert told[damage] in line


def test_a_symmetric_task_takes_cosine_without_a_probe(home):
    cache = home / "cache"
    code, out, err = recommend(home, "--family", "mine", "--data", "zoo", "--task", "sts", DENSESWEEP_CACHE=str(cache))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "mine (finetune) on zoo, task sts"
    assert lines[2] == "Train with: cosine (certain: no predictor is needed)"
    assert any(line.startswith("- Normalize: path:") and "with it or without" in line for line in lines)
    assert any("'query: ' before queries" in line for line in lines)
    assert not (cache / "recommend").exists()


@pytest.mark.slow
def test_of_ones_own_model_and_data_too_few_to_tell_the_default_is_taken_and_said_to_be_one(home):
    arguments = ["--family", "mine", "--data", "zoo", "--format", "json"]
    code, out, err = recommend(home, *arguments)
    assert code == 0, err
    said = json.loads(out)
    assert (said["similarity"], said["strength"], said["task"]) == ("learnable", "undecided", "retrieval")
    assert said["candidates_per_query"] == 32
    assert said["num_pairs"] == 48
    assert {call["scale"] for call in said["calls"]} == {"fixed(20)", "matched(20)"}
    fisher = [call for call in said["calls"] if call["predictor"] == "fisher_condition"]
    assert {call["call"] for call in fisher} == {"undecided"}  # one pool has no interval
    assert all(call["difference"] and call["interval"] is None and call["record"] is None for call in fisher)
    assert said["checkpoint"]["normalizes"] is True
    assert len([line for line in err.splitlines() if "nothing is trained" in line]) == 2

    # Given again it probes nothing, and says the same; the scale that is asked for is enough.
    code, again, err = recommend(home, *arguments)
    assert (code, again, err) == (0, out, "")
    code, text, err = recommend(home, "--family", "mine", "--data", "path:zoo", "--scale", "fixed(20)")
    assert (code, err) == (0, "")
    assert "Train with: learnable (undecided: the safe default)" in text
    assert "Right so far: not known, since no sweep was given" in text


@pytest.mark.slow
def test_the_record_of_given_sweeps_stands_beside_the_calls(home):
    """Two sweeps, after one option: one whose calls have winners, and one without probes."""
    for name, made in (("small", small_sweep), ("seeded", seeded_sweep)):
        folder = made(open_store(str(home / name)))
        (home / name / "sweep.json").write_bytes(to_bytes(folder.record()))
    arguments = ["--family", "minilm", "--checkpoint", "mine", "--data", "zoo", "--scale", "fixed(20)"]
    code, out, err = recommend(home, *arguments, "--format", "json", "--sweeps", "small")
    assert code == 0, err
    [fisher] = [call for call in json.loads(out)["calls"] if call["predictor"] == "fisher_condition"]
    assert fisher["record"]["num_cells"] == 2
    code, out, err = recommend(home, *arguments, "--sweeps", "seeded")
    assert code == 0, err
    assert "nothing is known of how often calls were right" in err
    assert "not known" in out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_stopped_while_it_probes_says_how_to_go_on_and_leaves_no_lock(home, shared_data, number):
    """1,024 queries take much longer than what comes after the first sign of the probe."""
    cache = home / "cache"
    arguments = ["--family", "mine", "--data", str(shared_data("conala"))]
    process = start(home, *arguments, DENSESWEEP_CACHE=str(cache))
    until = time.monotonic() + DEADLINE_S
    while not (found := list(cache.glob("recommend/*/probes/*/status.json"))) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    go_on = f"densesweep recommend --family mine --data {shared_data('conala')}"
    assert err.splitlines()[-1] == f"Stopped. Finished probes are kept; to go on: {go_on}"
    folder = found[0].parents[2]
    assert not list(folder.glob("probes/*/probes.parquet"))
    open_store(str(folder)).lock("probe", owner="the next", stale_after_s=60).release()


@pytest.mark.slow
def test_minilm_on_a_real_collection_offline(shared_data, tmp_path):
    """What docs/fisher.md shows: a real model and real data, without any network."""
    arguments = ["--family", "minilm", "--data", str(shared_data("scifact")), "--queries", "256", "--format", "json"]
    code, out, err = recommend(tmp_path, *arguments, "--scale", "fixed(20)", HF_HUB_OFFLINE="1")
    assert code == 0, err
    said = json.loads(out)
    assert (said["data"], said["candidates_per_query"]) == ("scifact/train", 32)
    calls = {call["predictor"]: call for call in said["calls"]}
    for name, call in calls.items():
        if call["interval"]:
            assert call["interval"][0] <= call["difference"][0] <= call["difference"][1] <= call["interval"][1], name
    assert calls["effective_rank"]["interval"]
    fisher = calls["fisher_condition"]
    assert fisher["difference"][0] < fisher["difference"][1]  # over several dimensions of the subspace
    assert bool(fisher["interval"]) == (max(fisher["saturated"]) <= 0.85)
    assert said["checkpoint"]["modules"] == ["Transformer", "Pooling (mean)", "Normalize"]
