"""Passes over corpora that end before, at and after the end of a shard: rankings are those of brute force.

The oracle looks at the embeddings that the pass was told of, each of which is held against one of its own.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from search_oracle import assert_equal, brute_force

from trainers.encoders.encode import encode
from trainers.encoders.encoder import Encoder
from trainers.evaluation import corpus_order, corpus_pass
from trainers.evaluation.corpus_pass import PassHooks, search_corpora
from trainers.evaluation.judged_queries import JudgedQueries
from trainers.evaluation.shared_texts import text_order
from trainers.evaluation.snapshots import Snapshot
from trainers.evaluation.stream import Evaluated, Searched
from trainers.evaluation.text_hashes import corpus_hashes
from trainers.init_regimes import start_encoder
from trainers.similarity import search_vectors

SHARD = 8
GAMMAS_D = [0.0, 0.5, 1.0]
WORDS = ["mail", "keys", "disks", "logs", "base64", "traffic", "logon", "worm", "loader", "registry"]
QUERIES = ["mail keys", "which worm", "a loader", "registry disks"]


@pytest.fixture(scope="module")
def encoder(minilm) -> Encoder:
    return start_encoder(replace(minilm, layers=1), None)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", SHARD)


@dataclass
class Asked:
    """A data set of a pass, and the embeddings that went by, by position in the corpus."""

    texts: Sequence[str]
    k: int
    excluded: Sequence[Sequence[int]] = ((),) * len(QUERIES)
    prefix: str = "d"
    vectors: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """In an order that is not that of the corpus."""
        return [f"{self.prefix}{(number * 7) % 1009}" for number in range(len(self.texts))]

    @property
    def corpus(self) -> pa.Table:
        """In chunks that end elsewhere than shards."""
        columns = {"id": self.ids, "title": [""] * len(self.texts), "text": list(self.texts)}
        table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        return pa.Table.from_batches(table.to_batches(max_chunksize=5), table.schema)

    def searched(self) -> Searched:
        self.vectors.clear()
        names = [f"q{number}" for number in range(len(QUERIES))]
        queries = JudgedQueries(ids=names, texts=QUERIES, excluded=self.excluded, qrels={})
        return Searched(corpus=self.corpus, queries=queries, gammas_d=GAMMAS_D, k=self.k, keep=self._keep)

    def _keep(self, number: int, position_D, vector_DH, norm_D) -> None:
        for position, vector_H in zip(position_D.tolist(), vector_DH, strict=True):
            assert position not in self.vectors
            self.vectors[position] = vector_H


def passed(encoder: Encoder, asked: Sequence[Asked], hooks: PassHooks | None = None) -> list[Evaluated]:
    searched = [one.searched() for one in asked]
    order = text_order([corpus_hashes(one.corpus) for one in searched])
    return search_corpora(encoder, searched, order, precision="fp32", hooks=hooks)


def check(encoder: Encoder, asked: Asked, found: Evaluated) -> None:
    """Against brute force over what went by, which is what the encoder makes of each text by itself."""
    assert sorted(asked.vectors) == list(range(len(asked.texts)))
    size = encoder.hidden_size
    document_NH = np.array([asked.vectors[n] for n in range(len(asked.texts))], np.float32).reshape(-1, size)
    np.testing.assert_allclose(document_NH, encode(encoder, list(asked.texts), "document"), atol=2e-5)
    for gamma_d in GAMMAS_D:
        # pow rounds the last of a tensor's numbers in another way than the rest: each is the first of many here.
        alone = [
            search_vectors(torch.from_numpy(vector_H).repeat(64, 1), gamma_d)[0].numpy() for vector_H in document_NH
        ]
        vector_NH = np.array(alone, np.float32).reshape(-1, size)
        expected = brute_force(found.query_QH, vector_NH, asked.k, asked.ids, asked.excluded)
        assert_equal(found.rankings[gamma_d], expected)
    np.testing.assert_allclose(found.document_norm_N, np.linalg.norm(document_NH.astype(np.float64), axis=1), rtol=1e-6)


def texts(num: int, first: int = 0) -> list[str]:
    """Different texts, of unlike length."""
    rng = np.random.default_rng(num)
    return [" ".join(rng.choice(WORDS, 1 + n % 5)) + f" {first + n}" for n in range(num)]


@pytest.mark.parametrize("k", [1, 3, SHARD - 1, SHARD, SHARD + 1, 4 * SHARD])
@pytest.mark.parametrize("num", [1, *(m * SHARD + step for m in (1, 2, 3) for step in (-1, 0, 1))])
def test_a_corpus_of_whole_shards_and_one_text_more_or_less(encoder, num: int, k: int) -> None:
    asked = Asked(texts=texts(num), k=k, excluded=[[0], [num - 1], list(range(num))[-SHARD:], []])
    [found] = passed(encoder, [asked])
    check(encoder, asked, found)


@pytest.mark.parametrize("num", [2 * SHARD - 1, 2 * SHARD, 2 * SHARD + 1])
def test_copies_of_a_text_in_several_shards_tie_and_stand_in_the_order_of_their_ids(encoder, num: int) -> None:
    several = texts(num)
    several[SHARD], several[-1] = several[0], several[0]  # the first of the second shard, and the last of all
    several[SHARD - 1] = several[SHARD + 1]  # here the copy is met first
    asked = Asked(texts=several, k=num + 3)
    [found] = passed(encoder, [asked])
    check(encoder, asked, found)
    for gamma_d in GAMMAS_D:
        for document_K, score_K in zip(
            found.rankings[gamma_d].document_QK, found.rankings[gamma_d].score_QK, strict=True
        ):
            places = sorted(document_K.tolist().index(copy_of) for copy_of in (0, SHARD, num - 1))
            assert places[2] - places[0] == 2
            assert len(set(score_K[places].tolist())) == 1
            ids = [asked.ids[document_K[place]] for place in places]
            assert ids == sorted(ids, reverse=True)


@pytest.mark.parametrize("num", [2 * SHARD - 1, 2 * SHARD, 2 * SHARD + 1])
def test_data_sets_that_share_texts_across_shards(encoder, num: int) -> None:
    first = texts(num)
    one = Asked(texts=first, k=3)
    other = Asked(texts=[*first[-SHARD:], first[0], *texts(SHARD + 1, first=100), first[0]], k=3 * SHARD, prefix="e")
    for asked, found in zip((one, other), passed(encoder, [one, other]), strict=True):
        check(encoder, asked, found)


def test_queries_that_may_find_nothing_and_a_corpus_without_documents(encoder) -> None:
    num = 2 * SHARD
    nothing_left = Asked(texts=texts(num), k=3, excluded=[list(range(num))] * len(QUERIES))
    empty, usual = Asked(texts=[], k=3), Asked(texts=texts(num), k=3, prefix="e")
    for group in ([nothing_left], [empty], [nothing_left, empty, usual], [empty, nothing_left]):
        for asked, found in zip(group, passed(encoder, group), strict=True):
            check(encoder, asked, found)
            if asked is not usual:
                for rankings in found.rankings.values():
                    assert (rankings.document_QK == -1).all()
                    assert (rankings.score_QK == -np.inf).all()


class Kept:
    """Every state that a pass offers; `left` is what an earlier one did."""

    def __init__(self, left: Snapshot | None = None) -> None:
        self.left = left
        self.offered: list[Snapshot] = []
        self.asked = 0

    def last(self, gammas_d) -> Snapshot | None:
        self.asked += 1
        return self.left

    def offer(self, shards, states) -> None:
        self.offered.append(copy.deepcopy(Snapshot(shards=sorted(shards), states=states())))


@pytest.mark.parametrize("num", [3 * SHARD - 1, 3 * SHARD, 3 * SHARD + 1])
def test_a_pass_goes_on_after_any_shard_to_the_same_bits(encoder, num: int) -> None:
    several = texts(num)
    several[-1] = several[0]
    group = [Asked(texts=several, k=5), Asked(texts=several[SHARD:], k=2 * SHARD, prefix="e")]
    anew: list[bool] = []
    whole_states = Kept()
    whole = passed(encoder, group, PassHooks(snapshots=whole_states, start_anew=lambda: anew.append(True)))
    assert anew == [True]
    assert [len(state.shards) for state in whole_states.offered] == list(range(1, -(-(num - 1) // SHARD) + 1))
    for state in whole_states.offered:
        hooks = PassHooks(snapshots=Kept(state), start_anew=lambda: anew.append(True))
        for found, expected in zip(passed(encoder, group, hooks), whole, strict=True):
            for gamma_d in GAMMAS_D:
                assert_equal(found.rankings[gamma_d], expected.rankings[gamma_d])
            np.testing.assert_array_equal(found.document_norm_N, expected.document_norm_N)
        assert hooks.snapshots.asked == 1
    assert anew == [True]


def test_ids_are_sorted_once_for_each_different_corpus(encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    sort, sorted_ids = corpus_order.tie_ranks, []
    monkeypatch.setattr(corpus_order, "tie_ranks", lambda ids: (sorted_ids.append(ids[0].as_py()), sort(ids))[1])
    same = texts(SHARD + 1)
    group = [
        Asked(texts=same, k=3),
        Asked(texts=same, k=9, excluded=[[0], [1], [2], [3]]),
        Asked(texts=same, k=3, prefix="e"),  # the same texts under other ids: ties have another order
        Asked(texts=[*same, *same], k=2 * SHARD),
    ]
    for asked, found in zip(group, passed(encoder, group), strict=True):
        check(encoder, asked, found)
    assert sorted_ids == ["d0", "e0", "d0"]
