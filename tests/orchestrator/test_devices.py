"""Trials on two devices: real Ray, two gloo processes each, against the same trials on one."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from safetensors.torch import load_file
from small_sweeps import Sweep, write_collection
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from orchestrator.checks import machine_problems
from orchestrator.cluster import Cluster
from orchestrator.interrupt import interruptible
from orchestrator.machine import available_cpus
from orchestrator.placing import Driver, Work, place
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.tuning.desk import Desk
from orchestrator.tuning.studies import Studies
from orchestrator.worker import join_placed_trial, record_end
from results.layout import SWEEP_LOCK, Status, from_bytes, spec_key, status_key, trial_prefix
from results.rows import read_rows
from results.store import LostLockError, open_store
from search_spaces.schema import CheckpointsBlock, ResourcesBlock
from search_spaces.specs import to_json
from trainers.training.history import MEASURED

ROOT = Path(__file__).parents[2]
DEADLINE_S = 600  # Train starts six processes for each trial
STEPS = 12
LEARNABLE = "tiny/finetune/learnable/s0"
# Sums over processes round differently: losses were seen to differ by 5e-7 of their value, weights by 3e-8, where one
# step at the learning rate moves a weight by 1e-4.
LOSS_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 1e-6

needs_two_cpus = pytest.mark.skipif(available_cpus() < 2, reason="two processes need two CPUs")


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A token for each word of the texts: a vocabulary that is trained is another each time."""
    words = sorted({word.strip(".").lower() for text in texts for word in text.split()})
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: place for place, token in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, special, strict=True)))


def _save_bert(folder: Path, texts: list[str]) -> None:
    """A BERT of two layers, with dropout."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=200, max_position_embeddings=64, **sizes)).save_pretrained(folder)
    _tokenizer(texts).save_pretrained(folder)


def _write_data(folder: Path) -> list[str]:
    """The zoo, with two hard negatives for each train query, and each animal's last two documents alike."""
    write_collection(folder)
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for document, after in zip(documents[2::4], documents[3::4], strict=True):
        after["text"] = document["text"]
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(document) for document in documents))
    ids = [document["_id"] for document in documents]
    judged = [f"q{i}\t{ids[(n + shift) % len(ids)]}\t0\n" for n, i in enumerate(ids) for shift in (5, 10)]
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.writelines(judged)
    return [document["text"] for document in documents]


def _sweep(home: Path, *, devices: int, steps: int = STEPS, **blocks: Any) -> Sweep:
    texts = _write_data(home / "data")
    _save_bert(home / "bert", texts)
    family = {"name": "tiny", "retriever": {"source": "path:bert"}, "pooling": "mean"}
    content = {
        "name": "tiny",
        "storage": str(home / "sweep"),
        "families": [family | {"max_query_length": 16, "max_document_length": 16}],
        "data_sets": [{"name": "zoo", "source": "path:data", "train_split": "train"}],
        "axes": {
            "task": "contrastive",
            "training_data": "zoo",
            "family": "tiny",
            "similarity": "learnable",
            "init_regime": "finetune",
            "seed": 0,
            "scale": "fixed(20)",
        },
        "training": {"steps": steps, "global_batch": 16, "learning_rate": 1e-4, "hard_negatives": 2},
        "evaluation": {"groups": {"in_domain": "zoo"}},
        "probe": {"num_queries": 32, "candidates_per_query": 8},
        "checkpoints": {"every_steps": 2},
        # All of the machine for one trial.
        "resources": {"devices": devices, "cpus": available_cpus() // 2, "threads": 1, "chunk_size": 4},
        **blocks,
    }
    (home / "sweep.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return Sweep(file=home / "sweep.yaml", folder=home / "sweep")


@contextmanager
def _driver(sweep: Sweep) -> Iterator[subprocess.Popen]:
    """The sweep's driver; it is interrupted where the block leaves it running."""
    driver = sweep.start("run", sweep.file.name)
    try:
        yield driver
    finally:
        driver.send_signal(signal.SIGINT)
        driver.wait()


def _ended(driver: subprocess.Popen) -> subprocess.CompletedProcess:
    out, err = driver.communicate(timeout=DEADLINE_S)
    return subprocess.CompletedProcess(driver.args, driver.returncode, out, err)


def _run(sweep: Sweep) -> subprocess.CompletedProcess:
    with _driver(sweep) as driver:
        return _ended(driver)


def _trials(sweep: Sweep) -> dict[str, Path]:
    """Title -> folder."""
    record = json.loads((sweep.folder / "sweep.json").read_text())
    return {trial["title"]: sweep.folder / "trials" / trial["trial_id"] for trial in record["trials"]}


def _rows(folder: Path, name: str, table: str) -> list[dict[str, Any]]:
    rows = read_rows(open_store(str(folder.parents[1])), f"trials/{folder.name}/{name}.parquet", table).to_pylist()
    return [{key: value for key, value in row.items() if key not in MEASURED} for row in rows]


def _checkpoint_hash(folder: Path) -> str:
    [row] = _rows(folder, "trial", "trials")
    return row["checkpoint_hash"]


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    [file] = (folder / "checkpoint").rglob("model.safetensors")
    return load_file(file)


@pytest.fixture(scope="module")
def on_one(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    sweep = _sweep(tmp_path_factory.mktemp("one"), devices=1)
    done = _run(sweep)
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    return sweep


@pytest.fixture(scope="module")
def on_two(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The same, and a trial that must fail: its scale is beyond float32."""
    sweep = _sweep(
        tmp_path_factory.mktemp("two"), devices=2, include=[{"similarity": "dot", "scale": f"fixed({10**39})"}]
    )
    done = _run(sweep)
    assert done.returncode == 1, done.stdout + done.stderr + sweep.logs()
    return sweep


@pytest.mark.heavy
@needs_two_cpus
def test_two_devices_train_what_one_trains(on_one, on_two):
    ours, theirs = (_trials(sweep)[LEARNABLE] for sweep in (on_two, on_one))
    assert ours.name == theirs.name  # what a trial runs on is no part of its identity
    history, expected = (_rows(trial, "history", "history") for trial in (ours, theirs))
    assert [row["step"] for row in history] == list(range(1, STEPS + 1))
    for name in ("loss", "gradient_norm", "gamma_q", "gamma_d", "negatives_per_query"):
        assert [row[name] for row in history] == pytest.approx([row[name] for row in expected], rel=LOSS_TOLERANCE)
    assert min(row["negatives_per_query"] for row in history) < 16 * 3 - 1, "no batch held a duplicate"
    weights = _weights(theirs)
    for name, weight in _weights(ours).items():
        torch.testing.assert_close(weight, weights[name], rtol=0, atol=WEIGHT_TOLERANCE)


@pytest.mark.heavy
@needs_two_cpus
def test_trials_that_fill_the_machine_run_one_after_the_other(on_two):
    statuses = on_two.statuses()
    assert len(statuses) == 3  # with the untrained one, which takes one process
    spans = [
        (datetime.fromisoformat(status["started_at"]), datetime.fromisoformat(status["finished_at"]))
        for title, status in statuses.items()
        if "untrained" not in title
    ]
    for (_, finished), (started, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
        assert finished <= started
    assert len(list((on_two.folder / "probes").rglob("probes.parquet"))) == 2  # of two scales


@pytest.mark.heavy
@needs_two_cpus
def test_a_trial_that_fails_on_all_its_devices_is_recorded_once(on_two):
    statuses = on_two.statuses()
    failed = statuses.pop("tiny/finetune/dot/s0")
    assert failed["state"] == "failed"
    assert "at step 1" in failed["reason"]
    assert "Traceback" in failed["error"]
    assert failed["attempt"] == 1  # a trial that fails by itself is not tried again
    assert {status["state"] for status in statuses.values()} == {"finished"}


TUNE_FUNCTION, TRAIN_CONTROLLER, FIRST_PROCESS, OTHER_PROCESS = (
    "ImplicitFunc",
    "TrainController",
    "RayTrainWorker, the first",
    "RayTrainWorker, the other",
)


def _kill(driver: subprocess.Popen, what: str, *, owner: int) -> None:
    """kill -9 one of the processes that a trial on two devices has; `owner` is the first of the two that train it."""
    name, _, which = what.partition(", the ")
    [pid] = [
        process.pid
        for process in psutil.Process(driver.pid).children(recursive=True)
        if f"ray::{name}" in " ".join(process.cmdline()) and (not which or (process.pid == owner) == (which == "first"))
    ]
    os.kill(pid, signal.SIGKILL)


def _owner(folder: Path) -> int:
    """The pid of a trial's first process."""
    return int(json.loads((folder / "status.json").read_text())["owner"].rpartition(":")[2])


def _last_step(folder: Path) -> int:
    """The step of a trial's newest training checkpoint, 0 before the first."""
    return max((int(path.name) for path in folder.glob("steps/*") if path.name.isdigit()), default=0)


def _alone(sweep: Sweep, folder: Path, *launcher: str) -> subprocess.CompletedProcess:
    """Run the sweep's trained trial by itself, in a folder of its own."""
    trial = _trials(sweep)[LEARNABLE]
    for name in ("spec.json", "evaluations.json"):
        (folder / "trials" / trial.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(trial / name, folder / "trials" / trial.name / name)
    command = [sys.executable, *launcher, "-m", "trainers.trial", "--sweep", str(folder), trial.name]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)


def _accelerate(*arguments: str) -> tuple[str, ...]:
    return ("-m", "accelerate.commands.launch", "--main_process_port", "0", *arguments)


@pytest.mark.heavy
@needs_two_cpus
def test_killed_and_interrupted_under_ray_a_trial_gives_what_it_gives_alone(tmp_path):
    sweep = _sweep(tmp_path, devices=2, steps=200)
    with _driver(sweep) as driver:

        def wait_for(seen: Callable[[Sweep], Any]) -> Any:
            return sweep.wait_for(seen, deadline_s=DEADLINE_S)

        def status() -> dict[str, Any]:
            return json.loads((trial / "status.json").read_text())

        trial = wait_for(lambda _: (sweep.folder / "sweep.json").exists() and _trials(sweep)[LEARNABLE])
        wait_for(lambda _: _last_step(trial))
        _kill(driver, OTHER_PROCESS, owner=_owner(trial))
        killed_after = _last_step(trial)
        wait_for(lambda _: status()["attempt"] == 2 and _last_step(trial) > killed_after + 4)
        driver.send_signal(signal.SIGINT)
        stopped = _ended(driver)
    assert stopped.returncode == 130, stopped.stdout + stopped.stderr
    assert "ActorDiedError" in stopped.stdout  # why it was tried again
    assert status()["state"] == "running", "stopped too late to show anything"

    again = _run(sweep)
    assert again.returncode == 0, again.stdout + again.stderr + sweep.logs()
    assert status()["attempt"] == 3
    launched = _alone(sweep, tmp_path / "alone", *_accelerate("--multi_gpu", "--num_processes", "2"))
    assert launched.returncode == 0, launched.stdout + launched.stderr
    assert launched.stdout.count(f"{trial.name}: finished") == 1
    alone = tmp_path / "alone" / "trials" / trial.name
    assert _rows(alone, "history", "history") == _rows(trial, "history", "history")
    assert _checkpoint_hash(alone) == _checkpoint_hash(trial)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained trial of a sweep on two devices that nothing happened to."""
    sweep = _sweep(tmp_path_factory.mktemp("undisturbed"), devices=2, steps=100)
    done = _run(sweep)
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    return _trials(sweep)[LEARNABLE]


@pytest.mark.heavy
@needs_two_cpus
@pytest.mark.parametrize("what", [TUNE_FUNCTION, TRAIN_CONTROLLER, FIRST_PROCESS])
def test_whatever_is_killed_the_trial_gets_its_devices_again_and_gives_the_same(tmp_path, undisturbed, what):
    sweep = _sweep(tmp_path, devices=2, steps=100)
    with _driver(sweep) as driver:
        trial = sweep.wait_for(
            lambda _: (sweep.folder / "sweep.json").exists() and _trials(sweep)[LEARNABLE], deadline_s=DEADLINE_S
        )
        sweep.wait_for(lambda _: _last_step(trial), deadline_s=DEADLINE_S)
        _kill(driver, what, owner=_owner(trial))
        done = _ended(driver)
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "will be tried again" in done.stdout
    assert sweep.statuses()[LEARNABLE]["attempt"] == 2
    assert {status["state"] for status in sweep.statuses().values()} == {"finished"}
    assert _rows(trial, "history", "history") == _rows(undisturbed, "history", "history")
    assert _checkpoint_hash(trial) == _checkpoint_hash(undisturbed)


@pytest.mark.heavy
@needs_two_cpus
def test_when_no_try_is_left_the_devices_go_to_the_next_trial(tmp_path):
    resources = {"devices": 2, "cpus": available_cpus() // 2, "threads": 1, "chunk_size": 4, "retries": 0}
    sweep = _sweep(tmp_path, devices=2, steps=100, resources=resources)
    with _driver(sweep) as driver:
        trial = sweep.wait_for(
            lambda _: (sweep.folder / "sweep.json").exists() and _trials(sweep)[LEARNABLE], deadline_s=DEADLINE_S
        )
        sweep.wait_for(lambda _: _last_step(trial), deadline_s=DEADLINE_S)
        _kill(driver, TUNE_FUNCTION, owner=_owner(trial))
        done = _ended(driver)
    assert done.returncode == 1, done.stdout + done.stderr + sweep.logs()
    states = {title: status["state"] for title, status in sweep.statuses().items()}
    assert states.pop(LEARNABLE) == "failed"
    assert set(states.values()) == {"finished"}


def _no_studies(home: Path, events: list[Any]) -> Studies:
    store = open_store(str(home / "sweep"))
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=DEADLINE_S)
    lock.release()  # nothing is written
    plan = make_plan(resolve(_sweep(home, devices=1).file), None)
    return Studies([], Desk(plan, store, lock, listener=events.append, say=print), num_trainings=None)


@pytest.mark.heavy
def test_devices_that_ray_does_not_find_fail_the_trial_at_once(tmp_path):
    resources = ResourcesBlock(devices=2, cpus=1)
    work = Work(
        store_uri="",
        lock_token=1,
        trials=(),
        groups=("a",),
        probes=(),
        cluster=Cluster(num_cpus=1),
        resources=resources,
        checkpoints=CheckpointsBlock(),
    )
    events: list[Any] = []
    with interruptible(lambda: None, lambda: None) as interrupt:
        driver = Driver(
            listener=events.append,
            interrupt=interrupt,
            record_failure=lambda key, reason: Status(state="failed", reason=reason, started_at=""),
            say=print,
            spent=lambda: None,
            on_head_lost=print,
            studies=_no_studies(tmp_path, events),
        )
        ended_early = place(work, driver)
    lacking = "a trial needs 1 CPU for each of 2 processes, but the nodes have no room for that: 1 node with 1 CPU"
    assert ended_early == lacking
    [ended] = events
    assert ended.key == "a"
    assert ended.status.reason == f"found no place: {lacking}"


@pytest.mark.heavy
@needs_two_cpus
@pytest.mark.parametrize("launcher", [(), _accelerate("--cpu", "--num_processes", "2")])
def test_a_trial_alone_in_too_few_processes_is_refused(tmp_path, on_two, launcher):
    refused = _alone(on_two, tmp_path, *launcher)
    assert refused.returncode != 0
    assert "is trained in 2 processes, but was launched in 1" in refused.stderr
    assert "--num_processes 2 -m trainers.trial" in refused.stderr
    assert not list(tmp_path.rglob("status.json"))


@pytest.fixture
def config(tmp_path):
    """What a worker is given for a trial on two devices that was planned."""
    plan = make_plan(resolve(_sweep(tmp_path, devices=2).file), None)
    [trial] = [trial for trial in plan.trials if trial.is_trained_together]
    store = open_store(str(tmp_path / "sweep"))
    store.write(spec_key(trial_prefix(trial.trial_id)), to_json(trial.spec).encode())
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=30)
    yield {"trial_id": trial.trial_id, "store_uri": store.uri, "lock_token": lock.token}
    lock.release()


@needs_two_cpus
def test_a_failure_that_another_process_saw_is_the_trials_end(config):
    sent: list[dict[str, Any]] = []
    with pytest.raises(ValueError, match="devices is 2, but this process was launched with 1"):
        join_placed_trial(config, sent.append)
    [[ended]] = [message["events"] for message in sent]
    assert ended.key == config["trial_id"]
    assert ended.status.state == "failed"
    assert ended.status.reason.startswith("ValueError: the trial's number of devices is 2")
    assert "Traceback" in ended.status.error

    store, key = open_store(config["store_uri"]), status_key(trial_prefix(config["trial_id"]))
    assert not store.exists(key)  # only the first process writes, and who stands for them all when they have ended
    record_end(config, ended.status)
    assert from_bytes(Status, store.read(key)) == ended.status


@needs_two_cpus
def test_an_end_is_not_recorded_under_a_lost_lock(config):
    status = Status(state="failed", reason="any", started_at="2026-01-01T00:00:00+00:00")
    with pytest.raises(LostLockError):
        record_end(config | {"lock_token": config["lock_token"] - 1}, status)
    assert not open_store(config["store_uri"]).exists(status_key(trial_prefix(config["trial_id"])))


def test_a_machine_too_small_for_all_devices_is_refused():
    num_cpus = available_cpus()
    [problem] = machine_problems(ResourcesBlock(devices=num_cpus + 1, cpus=1), "sweep.yaml")
    expected = f"sweep.yaml: resources.devices: 1 CPUs for each of the {num_cpus + 1} devices of one trial are "
    assert str(problem) == f"{expected}{num_cpus + 1}, but this machine has {num_cpus}"
    problems = [str(problem) for problem in machine_problems(ResourcesBlock(devices=1000, cpus=1, gpus=1), "f")]
    assert problems[1].startswith("f: resources.gpus: 1 GPUs for each of the 1000 devices of one trial are 1000, but")


def test_devices_do_not_share_a_gpu():
    problems = list(machine_problems(ResourcesBlock(devices=2, cpus=1, gpus=0.5), "f"))
    [problem] = [problem for problem in problems if problem.key == "resources.gpus"]
    assert "0.5 of a GPU for each of the 2 devices of one trial, but those that train together share none" in str(
        problem
    )


@pytest.mark.parametrize(
    ("num_cpus", "resources", "expected"),
    [
        (4, {"devices": 2, "cpus": 2, "at_once": 1}, 4),
        (5, {"devices": 2, "cpus": 1, "at_once": 3}, 2),
        (4, {"cpus": 2, "at_once": 2}, 2),
        (8, {"devices": 4, "cpus": 1}, 1),
    ],
)
def test_what_runs_in_one_process_keeps_to_at_once_too(num_cpus, resources, expected):
    work = Work(
        store_uri="",
        lock_token=1,
        trials=(),
        groups=(),
        probes=(),
        cluster=Cluster(num_cpus=num_cpus),
        resources=ResourcesBlock(**resources),
        checkpoints=CheckpointsBlock(),
    )
    assert (work.single.cpus, work.probe.cpus) == (expected, expected)
