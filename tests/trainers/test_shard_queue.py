"""Shards of a pass that others do: who gets which, and what becomes of those that come back."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from results.layout import checkpoint_prefix
from results.store import Store, open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.encoders.encoder import Encoder
from trainers.evaluation import corpus_pass
from trainers.evaluation.corpus_pass import ShardSearch
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.evaluated_group import EvaluatedGroup
from trainers.evaluation.shard_helper import Helped, OtherOrderError, hardware, open_shard_search
from trainers.evaluation.shard_queue import NOBODY, ShardFound, ShardQueue
from trainers.init_regimes import start_encoder
from trainers.search import Block, Searcher, tie_ranks

SHARD, NUM_SHARDS = 7, 6


def found(number: int) -> ShardFound:
    return ShardFound(number=number, states=[])


def test_the_pass_takes_from_the_front_and_helpers_from_the_back() -> None:
    queue = ShardQueue([4, 0, 2, 3], shard_texts=1)
    own = queue.own()
    assert next(own) == 0
    assert queue.take() == 4
    assert next(own) == 2
    assert queue.num_left == 1
    queue.hand_in(found(4))
    assert [one.number for one in queue.handed_in()] == [4]
    assert queue.handed_in() == []
    assert list(own) == [3]
    assert queue.take() is None


def test_at_the_end_the_pass_waits_for_what_helpers_have() -> None:
    queue = ShardQueue([0, 1, 2], shard_texts=1)
    assert (queue.take(), queue.take()) == (2, 1)
    own = queue.own()
    assert next(own) == 0
    waiting, rest = threading.Event(), []

    def go_on() -> None:
        waiting.set()
        rest.extend(own)

    thread = threading.Thread(target=go_on)
    thread.start()
    waiting.wait()
    queue.give_back(2)  # its helper was lost: the pass does it itself
    queue.hand_in(found(1))
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert rest == [2]
    assert [one.number for one in queue.handed_in()] == [1]


@pytest.mark.parametrize("gamma_d", [0.0, 0.5, 1.0])
def test_searches_of_parts_merge_into_that_of_the_whole(gamma_d: float) -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.integers(-2, 3, (n, 4)).astype(np.float32) for n in (9, 60))  # many ties
    rank_N = tie_ranks([f"d{n}" for n in rng.permutation(60)])

    def searcher() -> Searcher:
        return Searcher(query_QH, 7, tie_rank_N=rank_N, gammas_d=(gamma_d,), excluded=[[n] for n in range(9)])

    whole, first, other = searcher(), searcher(), searcher()
    whole.add(document_NH)
    for start in (40, 0):  # the second search of a helper need not find what its first one rules out
        other.add(Block(first=start, vector_DH=document_NH[start : start + 20]))
        keys = other.best_keys_of(slice(start, start + 20))
        assert keys[gamma_d].shape[1] <= 7
        first.merge([slice(start, start + 20)], keys)
    with pytest.raises(ValueError, match="documents 0 to 19 are merged, some of them were added before"):
        first.merge([slice(0, 20)], keys)
    with pytest.raises(ValueError, match="40 documents were added, of 60"):
        first.rankings()
    first.add(Block(first=20, vector_DH=document_NH[20:40]))
    expected, merged = whole.rankings()[gamma_d], first.rankings()[gamma_d]
    np.testing.assert_array_equal(merged.document_QK, expected.document_QK)
    np.testing.assert_array_equal(merged.score_QK, expected.score_QK)


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    save_checkpoint(folder, start_encoder(replace(minilm, layers=1), None), gammas=None, similarity=None, scale=None)
    return folder


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory) -> list[EvaluationSpec]:
    """Two collections that share texts; the second one has none in the first shard."""
    made = []
    for name, numbers in (("first", range(30)), ("second", range(10, SHARD * NUM_SHARDS))):
        folder = tmp_path_factory.mktemp("collections") / name
        (folder / "qrels").mkdir(parents=True)
        words = ["mail", "keys", "disks", "logs", "traffic", "at", "logon"]
        texts = [" ".join(np.random.default_rng(n).choice(words, 3 + n % 5)) + f" {n}" for n in numbers]
        lines = [f'{{"_id": "d{n}", "title": "", "text": "{t}"}}\n' for n, t in zip(numbers, texts, strict=True)]
        (folder / "corpus.jsonl").write_text("".join(lines))
        (folder / "queries.jsonl").write_text(f'{{"_id": "q1", "text": "{texts[3]}"}}\n')
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq1\td{numbers[3]}\t1\n")
        entry = DataSet(name=name, source=f"path:{folder}")
        data = DataSpec(entry=entry, split="test", content_hash=data_sets.fingerprint(entry, "test").content_hash)
        made.append(EvaluationSpec(data=data, score_similarities="all", keep_embeddings=True))
    return made


class InThisProcess:
    """Does some shards with an encoder of its own before the pass does the others."""

    def __init__(self, checkpoint: Path, store: Store, num_shards: int) -> None:
        self._checkpoint = checkpoint
        self._store = store
        self._num_shards = num_shards

    @contextmanager
    def helping(self, wanted, order, query_SQH, queue: ShardQueue) -> Iterator[None]:
        group = EvaluatedGroup(checkpoint_hash(self._checkpoint), wanted, store=self._store, verify=lambda: None)
        assert group.order_digest == order
        search = group.shard_search(load_checkpoint(self._checkpoint).encoder, query_SQH, queue.shard_texts)
        lost = queue.take()
        for _ in range(self._num_shards):
            number = queue.take()
            assert number is not None
            queue.hand_in(search.found(number))
        assert lost is not None
        queue.give_back(lost)
        yield


@pytest.mark.parametrize("num_shards", [0, 1, NUM_SHARDS - 1])
def test_whoever_does_a_shard_the_files_are_the_same(
    evaluations, checkpoint, tmp_path, monkeypatch, num_shards: int
) -> None:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", SHARD)
    wanted = {evaluation: score_similarities(None, evaluation) for evaluation in evaluations}

    def evaluated(name: str, helped: bool) -> tuple[dict[str, bytes], int]:
        store = open_store(str(tmp_path / name))
        encoder: Encoder = load_checkpoint(checkpoint).encoder
        encoded: list[int] = []
        encoder.register_forward_pre_hook(lambda _, inputs: encoded.append(len(inputs[0])))
        helpers = InThisProcess(checkpoint, store, num_shards) if helped else NOBODY
        evaluate_all(checkpoint, wanted, store=store, encoder=encoder, helpers=helpers)
        found = {str(f.relative_to(tmp_path / name)): f.read_bytes() for f in (tmp_path / name).rglob("*.parquet")}
        return found, sum(encoded)

    alone, num_alone = evaluated("alone", False)
    together, num_together = evaluated("together", True)
    assert together == alone
    assert num_alone - num_together == num_shards * SHARD


def test_who_has_the_rows_in_another_order_is_no_help(evaluations, checkpoint, tmp_path) -> None:
    store = open_store(str(tmp_path))
    store.put_folder(
        checkpoint_prefix("a trial"), lambda folder: shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    )
    helped = Helped(trial_id="a trial", device="cpu", threads=1, hardware=hardware("cpu"))
    wanted = {evaluation: score_similarities(None, evaluation) for evaluation in evaluations}
    group = EvaluatedGroup(checkpoint_hash(checkpoint), wanted, store=store, verify=lambda: None)
    query_SQH = [np.ones((1, 384), dtype=np.float32)] * 2

    def opened(order: str) -> ShardSearch:
        return open_shard_search(helped, wanted, order, query_SQH, shard_texts=SHARD, store=store, verify=lambda: None)

    assert [state.norm_D.shape for state in opened(group.order_digest).found(0).states] == [(SHARD,), (0,)]
    with pytest.raises(OtherOrderError, match="the rows of first, second are in another order here"):
        opened("another")
