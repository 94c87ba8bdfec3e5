"""The order of a ranking against trec_eval itself, and rank keys against sorting."""

import faiss
import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval
from search_oracle import shuffled_ids

from tests.trainers.whole_search import search
from trainers.search import tie_ranks
from trainers.search.order import NO_KEY, positions_of, rank_keys, scores_of, tie_ranks_of


def test_tie_ranks_order_ids_as_strings_by_their_bytes() -> None:
    ids = ["10", "9", "a", "B", "é", "𝔸", "￿", ""]
    by_rank = sorted(ids, key=str.encode, reverse=True)
    assert [by_rank[rank] for rank in tie_ranks(ids)] == ids
    assert tie_ranks(pa.chunked_array([ids[:3], ids[3:]])).tolist() == tie_ranks(ids).tolist()


def test_the_order_of_ties_is_the_one_trec_eval_has() -> None:
    rng = np.random.default_rng(3)
    ids = shuffled_ids(rng, 60)
    query_QH = rng.integers(0, 2, (1, 3)).astype(np.float32) + 1
    document_NH = rng.integers(0, 2, (60, 3)).astype(np.float32)
    found = search(query_QH, [document_NH], 60, document_ids=ids)
    run = {ids[position]: float(document_NH[position] @ query_QH[0]) for position in range(60)}
    for place, position in enumerate(found.document_QK[0], start=1):
        evaluator = pytrec_eval.RelevanceEvaluator({"q": {ids[position]: 1}}, {"recip_rank"})
        assert evaluator.evaluate({"q": run})["q"]["recip_rank"] == pytest.approx(1 / place)


def test_renamed_ids_move_ties_as_trec_eval_moves_them() -> None:
    """Golden: three documents tie. Their order is that of their names, so renaming them is another run."""
    query_QH, document_NH = np.ones((1, 1), np.float32), np.array([[2.0], [1.0], [1.0], [1.0]], np.float32)
    golden = {
        ("top", "a", "b", "c"): ["top", "c", "b", "a"],
        ("top", "c", "b", "a"): ["top", "c", "b", "a"],
        ("0", "10", "9", "1"): ["0", "9", "10", "1"],
        ("0", "é", "z", "Z"): ["0", "é", "z", "Z"],
    }
    for ids, expected in golden.items():
        found = search(query_QH, [document_NH], 4, document_ids=ids)
        assert [ids[position] for position in found.document_QK[0]] == expected


def test_what_faiss_would_return_is_not_this_order() -> None:
    query_QH, document_NH = np.ones((1, 4), np.float32), np.ones((200, 4), np.float32)
    ids = [f"{number:03d}" for number in range(200)]
    _, index_QC = faiss.knn(query_QH, document_NH, 42, metric=faiss.METRIC_INNER_PRODUCT)
    assert 199 not in index_QC
    assert search(query_QH, [document_NH], 10, document_ids=ids).document_QK[0].tolist() == list(range(199, 189, -1))


def test_faiss_finds_the_same_documents_where_nothing_ties() -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.standard_normal((n, 64)).astype(np.float32) for n in (50, 20_000))
    index = faiss.IndexFlatIP(64)
    index.add(document_NH)
    _, expected = index.search(query_QH, 20)
    found = search(query_QH, [document_NH], 20, document_ids=[f"{number:05d}" for number in range(20_000)])
    np.testing.assert_array_equal(found.document_QK, expected)


def test_rank_keys_sort_as_scores_then_ranks_and_give_both_back() -> None:
    rng = np.random.default_rng(1)
    edges = [0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.0, -1.0, np.nextafter(np.float32(1), np.float32(2))]
    scores = np.concatenate([np.array(edges, np.float32), rng.integers(-3, 3, 300).astype(np.float32)])
    scores = np.concatenate([scores, rng.standard_normal(300).astype(np.float32)])
    ranks = rng.choice(1 << 32, len(scores), replace=False).astype(np.int64)
    keys = rank_keys(scores, ranks)
    expected = sorted(range(len(scores)), key=lambda n: (-scores[n], ranks[n]))
    assert np.argsort(keys).tolist() == expected
    np.testing.assert_array_equal(scores_of(keys), scores)
    np.testing.assert_array_equal(tie_ranks_of(keys), ranks)
    assert (keys < NO_KEY).all()
    assert scores_of(np.array([NO_KEY])).tolist() == [-np.inf]
    assert tie_ranks_of(np.array([NO_KEY])).tolist() == [-1]


def test_positions_are_the_inverse_of_tie_ranks() -> None:
    tie_rank_N = np.random.default_rng(0).permutation(150_000)
    wanted = np.array([[0, 149_999, -1], [77_777, 5, 5]])
    expected = [[-1 if rank < 0 else np.flatnonzero(tie_rank_N == rank)[0] for rank in row] for row in wanted]
    assert positions_of(wanted, tie_rank_N).tolist() == expected
    assert positions_of(np.empty((0, 3), np.int64), tie_rank_N).shape == (0, 3)
