"""Helpers of an evaluation: real Ray workers, and the same files whoever encodes, whatever becomes of them."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from ray.core.generated.autoscaler_pb2 import ClusterResourceState  # noqa: TID251 - states made by hand

from orchestrator.spare_workers import SpareWorkers, Sweep, is_free, is_waited_for
from results.layout import SWEEP_LOCK, checkpoint_prefix
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EncoderSpec, EvaluationSpec, WeightsSpec
from tests.benchmarks.jobs import minilm_folder
from trainers import data_sets
from trainers.encoders.checkpoints import load_checkpoint, save_checkpoint
from trainers.evaluation import corpus_pass, snapshots
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.shard_helper import Helped, OtherHardwareError, hardware, open_shard_search
from trainers.evaluation.shard_queue import NOBODY, Helpers, ShardQueue
from trainers.init_regimes import start_encoder
from trainers.threads import set_threads

NUM_DOCUMENTS, NUM_LONG, SHARD = 480, 4_000, 80  # a shard takes long enough to be seen
NUM_SHARDS = 6
TRIAL = "trial"
DEADLINE_S = 400.0


def write_collection(folder: Path, numbers: range) -> EvaluationSpec:
    """Documents of some 120 words, one of them twice, and ten queries; two collections share texts."""
    (folder / "qrels").mkdir(parents=True)
    words = ["mail", "keys", "disks", "logs", "base64", "traffic", "at", "logon", "token", "shell"]
    texts = [" ".join(np.random.default_rng(n % (numbers[-1])).choice(words, 120)) for n in numbers]
    corpus = [json.dumps({"_id": f"d{n}", "title": "", "text": text}) for n, text in zip(numbers, texts, strict=True)]
    queries = [json.dumps({"_id": f"q{n}", "text": texts[n][:60]}) for n in range(10)]
    (folder / "corpus.jsonl").write_text("\n".join(corpus))
    (folder / "queries.jsonl").write_text("\n".join(queries))
    rows = "".join(f"q{n}\td{numbers[n]}\t1\n" for n in range(10))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    entry = DataSet(name=folder.name, source=f"path:{folder}")
    data = DataSpec(entry=entry, split="test", content_hash=data_sets.fingerprint(entry, "test").content_hash)
    return EvaluationSpec(data=data, score_similarities="all", keep_embeddings=True)


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory) -> list[EvaluationSpec]:
    home = tmp_path_factory.mktemp("collections")
    first = write_collection(home / "first", range(NUM_DOCUMENTS))
    return [first, write_collection(home / "second", range(100, NUM_DOCUMENTS))]


@pytest.fixture(scope="module")
def encoder_spec() -> EncoderSpec:
    return EncoderSpec(
        family="minilm",
        init_regime="finetune",
        weights=WeightsSpec(source=f"path:{minilm_folder()}"),
        layers=2,
        pooling="mean",
        append_eos=False,
        query_prompt="",
        document_prompt="",
        max_query_length=128,
        max_document_length=128,
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray with two CPUs, of which the trial (this process) holds none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # beside other tests, nice workers would hardly come to work
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=128 * 2**20,
        )
    yield
    ray.shutdown()


Seen = Callable[["Watched"], Any]


class Watched:
    """Helpers that are given a start: the trial goes on when `seen` says so. Keeps which shards they hand in."""

    def __init__(self, helpers: Helpers, seen: Seen) -> None:
        self.helped: list[int] = []
        self._helpers = helpers
        self._seen = seen

    @contextmanager
    def helping(self, wanted: Any, order: str, query_SQH: Sequence[Any], queue: ShardQueue) -> Iterator[None]:
        hand_in = queue.hand_in

        def counted(found: Any) -> None:
            self.helped.append(found.number)
            hand_in(found)

        queue.hand_in = counted  # type: ignore[method-assign]
        with self._helpers.helping(wanted, order, query_SQH, queue):
            wait_for(lambda: self._seen(self))
            yield


def wait_for(seen: Callable[[], Any]) -> Any:
    until = time.monotonic() + DEADLINE_S
    while not (found := seen()):
        assert time.monotonic() < until, f"not seen in time; at work: {searching()}"
        time.sleep(0.03)
    return found


def shard_size(number: int) -> int:
    return min(SHARD, NUM_DOCUMENTS - 1 - number * SHARD)  # one text stands twice


def searching() -> list[psutil.Process]:
    """The processes that are in the middle of a shard."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any("_HelperProcess.found" in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The files that an evaluation wrote, which shards helpers handed in, and how many texts were encoded here."""

    files: Mapping[str, bytes]
    helped: Sequence[int]
    num_encoded: int


def evaluate_here(
    home: Path, encoder_spec: EncoderSpec, asked: Sequence[EvaluationSpec], seen: Seen | None = None
) -> Evaluated:
    """Evaluate in this process as a trial does. Without `seen` nobody is asked for help."""
    corpus_pass.BLOCK_DOCUMENTS = SHARD  # type: ignore[attr-defined]
    set_threads(1)
    store = open_store(str(home))
    if not store.exists(f"{checkpoint_prefix(TRIAL)}/densesweep.json"):
        encoder = start_encoder(encoder_spec, None)
        store.put_folder(
            checkpoint_prefix(TRIAL),
            lambda folder: save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None),
        )
    lock = store.lock(SWEEP_LOCK, owner="test", stale_after_s=0.5)
    sweep = Sweep(store_uri=store.uri, lock_token=lock.token)
    spec: Any = SimpleNamespace(execution=SimpleNamespace(device="cpu", threads=1))
    watched = Watched(SpareWorkers(sweep, TRIAL, spec, {"CPU": 1.0, "memory": 5.0}), seen or (lambda _: True))
    wanted = {e: score_similarities(None, e) for e in asked}
    encoded: list[int] = []
    try:
        with store.get_folder(checkpoint_prefix(TRIAL)) as folder:
            encoder = load_checkpoint(folder).encoder
            encoder.register_forward_pre_hook(lambda _, inputs: encoded.append(len(inputs[0])))
            helpers = watched if seen else NOBODY
            evaluate_all(folder, wanted, store=store, encoder=encoder, verify=lock.verify, helpers=helpers)
    finally:
        lock.release()
    written = [*home.glob("evaluations/**/*"), *home.glob("encodings/**/*")]
    files = {str(f.relative_to(home)): f.read_bytes() for f in written if f.is_file()}
    return Evaluated(files=files, helped=watched.helped, num_encoded=sum(encoded))


@pytest.fixture
def evaluate(evaluations, encoder_spec, tmp_path, monkeypatch, cluster) -> Callable[..., Evaluated]:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", SHARD)

    def run(name: str, seen: Seen | None = None, asked: Sequence[EvaluationSpec] = evaluations) -> Evaluated:
        return evaluate_here(tmp_path / name, encoder_spec, asked, seen)

    return run


@pytest.fixture(scope="module")
def alone(evaluations, encoder_spec, tmp_path_factory) -> Evaluated:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_pass, "BLOCK_DOCUMENTS", SHARD)
        return evaluate_here(tmp_path_factory.mktemp("alone"), encoder_spec, evaluations)


@pytest.mark.heavy
def test_whoever_encodes_the_files_are_the_same(evaluate, alone) -> None:
    assert len(alone.files) > 2 * (5 + 2)  # parts of both, norms, rows

    @ray.remote(num_cpus=1)
    class Busy:
        def here(self) -> None: ...

    # Nobody to spare.
    busy = [Busy.remote() for _ in range(2)]
    ray.get([actor.here.remote() for actor in busy])
    found = evaluate("nobody", lambda _: True)
    assert (found.files == alone.files, found.helped) == (True, [])

    # One: the trial starts when it has handed in two shards.
    ray.kill(busy.pop())
    found = evaluate("one", lambda watched: len(watched.helped) >= 2)
    assert found.files == alone.files
    assert found.num_encoded == alone.num_encoded - sum(map(shard_size, found.helped))

    # Two, which are both in the middle of a shard when the trial starts.
    ray.kill(busy.pop())
    stopped: dict[int, psutil.Process] = {}

    def stop_two(_: Watched) -> bool:
        for process in searching():
            process.send_signal(signal.SIGSTOP)
            stopped[process.pid] = process
        if len(stopped) == 2:
            for process in stopped.values():
                process.send_signal(signal.SIGCONT)
        return len(stopped) == 2

    found = evaluate("two", stop_two)
    assert found.files == alone.files
    assert len(found.helped) >= 2


@pytest.mark.heavy
def test_the_shard_of_a_killed_helper_is_done_by_another(evaluate, alone) -> None:
    killed: list[int] = []

    def kill_one(watched: Watched) -> bool:
        if not killed and (found := searching()):
            found[0].send_signal(signal.SIGKILL)
            killed.append(len(watched.helped))
        return bool(killed) and len(watched.helped) > killed[0]

    found = evaluate("killed", kill_one)
    assert found.files == alone.files
    assert len(found.helped) > killed[0]


def evaluate_and_die(home: Path, encoder_spec: EncoderSpec, asked: Sequence[EvaluationSpec]) -> None:
    """Evaluate with a helper, and die by SIGKILL after the first snapshot that knows of its work."""
    snapshots.EVERY_S, snapshots._MOST_OF_THE_TIME = 0.0, float("inf")
    offer = snapshots.StoredSnapshots.offer
    done: list[Watched] = []

    def offer_and_die(self: Any, shards: Any, states: Any) -> None:
        offer(self, shards, states)
        if set(done[0].helped) & set(shards):
            os.kill(os.getpid(), signal.SIGKILL)

    def one_helped(watched: Watched) -> bool:
        done.append(watched)
        return len(watched.helped) >= 2

    snapshots.StoredSnapshots.offer = offer_and_die  # type: ignore[method-assign]
    evaluate_here(home, encoder_spec, asked, one_helped)


@pytest.mark.heavy
def test_a_killed_trial_goes_on_after_its_helpers_shards(evaluate, evaluations, encoder_spec, alone, tmp_path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find tests by name
    dying = ray.remote(num_cpus=0, max_retries=0)(evaluate_and_die)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(dying.remote(tmp_path / "dead", encoder_spec, evaluations))
    [snapshot] = (tmp_path / "dead").glob("unfinished/**/*.npz")
    shards = json.loads(str(np.load(snapshot)["record"]))["shards"]
    assert 0 in shards  # its own first
    assert NUM_SHARDS - 1 in shards  # and the helper's
    assert len(shards) < NUM_SHARDS
    wait_for(lambda: not searching())
    found = evaluate("dead")
    assert found.files == alone.files
    assert found.num_encoded == alone.num_encoded - sum(map(shard_size, shards))


class EnoughError(Exception):
    """The test has seen what it wanted."""


@pytest.mark.heavy
def test_whoever_waits_gets_a_helpers_place(evaluate, tmp_path) -> None:
    waits: list[Any] = []

    @ray.remote(num_cpus=2)
    def whole_machine() -> bool:
        return True

    def ask(watched: Watched) -> bool:
        if not waits and searching():
            waits.append(whole_machine.remote())
        if waits and ray.wait(waits, timeout=0)[0]:
            assert len(watched.helped) < NUM_LONG // SHARD  # it was not done
            raise EnoughError
        return False

    long = write_collection(tmp_path / "long", range(NUM_LONG))
    with pytest.raises(EnoughError):
        evaluate("waited for", ask, [long])
    assert ray.get(waits[0])


def asked_for(*requests: dict[str, float], together: bool = False) -> ClusterResourceState:
    """What Ray tells of a cluster of two nodes, with requests that wait."""
    cluster = ClusterResourceState()
    for free in ({"CPU": 1.0, "memory": 100.0}, {"CPU": 2.0, "GPU": 0.5, "memory": 100.0}):
        cluster.node_states.add().available_resources.update(free)
    for request in requests:
        if together:
            gang = cluster.pending_gang_resource_requests.add()
            gang.bundle_selectors.add().resource_requests.add().resources_bundle.update(request)
        else:
            cluster.pending_resource_requests.add(count=1).request.resources_bundle.update(request)
    return cluster


@pytest.mark.parametrize(
    ("requests", "together", "expected"),
    [
        ([], False, False),
        ([{"CPU": 1.0}], False, True),
        ([{"CPU": 1.0}], True, True),  # a trial of Tune waits in a placement group
        ([{"CPU": 0.0, "memory": 1.0}], True, False),  # one on several devices holds none in Tune
        ([{"GPU": 1.0}], False, False),  # helpers hold none
        ([{"CPU": 2.0, "memory": 11.0}], False, False),  # another helper
        ([{"CPU": 2.0, "memory": 10.0}], False, True),
    ],
)
def test_who_waits_for_what_helpers_hold(requests, together, expected) -> None:
    share = {"CPU": 2.0, "memory": 11.0}  # of a trial that was given 10 bytes
    assert is_waited_for(asked_for(*requests, together=together), share) is expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ({"CPU": 2.0, "memory": 11.0}, True),
        ({"CPU": 3.0, "memory": 1.0}, False),  # not on one node
        ({"CPU": 1.0, "GPU": 0.5, "memory": 1.0}, True),
        ({"CPU": 1.0, "memory": 101.0}, False),
    ],
)
def test_a_helper_needs_all_of_its_share_on_one_node(share, expected) -> None:
    assert is_free(asked_for(), share) is expected


def test_other_hardware_is_no_help(evaluations, tmp_path) -> None:
    store = open_store(str(tmp_path))
    helped = Helped(trial_id=TRIAL, device="cpu", threads=1, hardware="an abacus")
    with pytest.raises(OtherHardwareError, match=f"encodes on an abacus, this is {hardware('cpu')}"):
        open_shard_search(helped, {}, "", [], shard_texts=SHARD, store=store, verify=lambda: None)
