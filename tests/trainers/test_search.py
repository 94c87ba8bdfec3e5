"""Search against brute force: every position and every bit of every score equal, whatever the blocks."""

import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval

from trainers.search import Rankings, Searcher, in_blocks, search, tie_ranks


def brute_force(query_QH, document_NH, k: int, ids: Sequence[str], excluded=None) -> Rankings:
    """All pairs by a loop, sorted as trec_eval sorts: score descending, then the id's UTF-8 bytes descending."""
    documents, scores = [], []
    for row, query_H in enumerate(query_QH):
        hidden = set(excluded[row]) if excluded else set()
        found = []
        for position, document_H in enumerate(document_NH):
            if position not in hidden:
                exact = np.multiply(query_H, document_H, dtype=np.float64).sum()
                found.append((np.float32(exact) + np.float32(0), ids[position].encode(), position))
        found.sort(reverse=True)
        padded = [*found[:k], *[(np.float32(-np.inf), b"", -1)] * (k - len(found))]
        documents.append([position for _, _, position in padded])
        scores.append([score for score, _, _ in padded])
    return Rankings(document_QK=np.array(documents, np.int64), score_QK=np.array(scores, np.float32))


def assert_equal(found: Rankings, expected: Rankings) -> None:
    np.testing.assert_array_equal(found.document_QK, expected.document_QK)
    np.testing.assert_array_equal(found.score_QK.view(np.int32), expected.score_QK.view(np.int32))


def shuffled_ids(rng: np.random.Generator, num: int) -> list[str]:
    """Ids whose order as strings is not their order as numbers, with characters outside ASCII and the BMP."""
    alphabet = ["", "é", "z", " ", "𝔸", "￿"]
    return [f"{number}{alphabet[number % len(alphabet)]}" for number in rng.permutation(num)]


def unequal_blocks(document_NH, rng: np.random.Generator):
    """Blocks of random sizes, some of them empty."""
    cuts = np.sort(rng.integers(0, len(document_NH) + 1, size=rng.integers(0, 6)))
    return np.split(document_NH, cuts)


@pytest.mark.parametrize("seed", range(40))
def test_equals_brute_force_where_nearly_everything_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_queries, num_documents, size = rng.integers(1, [12, 400, 9])
    query_QH = rng.integers(-1, 2, (num_queries, size)).astype(np.float32)
    document_NH = rng.integers(-1, 2, (num_documents, size)).astype(np.float32)
    ids = shuffled_ids(rng, num_documents)
    excluded = [rng.choice(num_documents, rng.integers(0, min(60, num_documents) + 1), False) for _ in query_QH]
    k = int(rng.integers(1, 60))
    found = search(query_QH, unequal_blocks(document_NH, rng), k, document_ids=ids, excluded=excluded)
    assert_equal(found, brute_force(query_QH, document_NH, k, ids, excluded))


@pytest.mark.parametrize("seed", range(10))
def test_equals_brute_force_on_vectors_that_rounding_cannot_tell_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query_QH = rng.standard_normal((5, 96)).astype(np.float32)
    centre_H = rng.standard_normal(96)
    document_NH = (centre_H + 10.0 ** rng.integers(-8, -3) * rng.standard_normal((500, 96))).astype(np.float32)
    ids = shuffled_ids(rng, 500)
    found = search(query_QH, unequal_blocks(document_NH, rng), 10, document_ids=ids)
    assert_equal(found, brute_force(query_QH, document_NH, 10, ids))


def test_what_faiss_itself_would_return_is_not_this_order() -> None:
    """The test above would pass without a second look if FAISS broke ties as trec_eval does."""
    query_QH, document_NH = np.ones((1, 4), np.float32), np.ones((200, 4), np.float32)
    ids = [f"{number:03d}" for number in range(200)]
    _, index_QC = faiss.knn(query_QH, document_NH, 42, metric=faiss.METRIC_INNER_PRODUCT)
    assert 199 not in index_QC
    assert search(query_QH, [document_NH], 10, document_ids=ids).document_QK[0].tolist() == list(range(199, 189, -1))


def test_a_tie_at_the_cut_reaches_across_blocks() -> None:
    query_QH = np.array([[1.0, 0.0]], np.float32)
    document_NH = np.zeros((300, 2), np.float32)
    document_NH[:, 0] = 1.0
    document_NH[7, 0] = 2.0
    ids = [f"{number:03d}" for number in range(300)]
    ids[50] = "zz"
    for rows in (1, 99, 100, 300):
        found = search(query_QH, in_blocks(document_NH, rows), 3, document_ids=ids)
        assert [ids[position] for position in found.document_QK[0]] == ["007", "zz", "299"]


@pytest.mark.parametrize("rows", [1, 7, 256, 1000, 5000])
def test_blocks_change_no_bit(rows: int) -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.standard_normal((n, 48)).astype(np.float32) for n in (20, 1000))
    document_NH[500:700] = document_NH[100:300]  # duplicates
    document_NH[::9] = 0
    query_QH[3] = 0
    ids = shuffled_ids(rng, 1000)
    whole = search(query_QH, [document_NH], 100, document_ids=ids)
    assert_equal(search(query_QH, in_blocks(document_NH, rows), 100, document_ids=ids), whole)


def test_a_second_look_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.integers(0, 2, (n, 6)).astype(np.float32) for n in (9, 300))
    ids = shuffled_ids(rng, 300)
    monkeypatch.setattr(search_module, "_SCAN_PAIRS", 1)
    assert_equal(search(query_QH, [document_NH], 20, document_ids=ids), brute_force(query_QH, document_NH, 20, ids))


def test_a_query_that_excludes_all_but_two_documents_finds_them() -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.standard_normal((n, 8)).astype(np.float32) for n in (2, 400))
    ids = shuffled_ids(rng, 400)
    excluded = [[n for n in range(400) if n not in (17, 333)], []]
    found = search(query_QH, in_blocks(document_NH, 150), 5, document_ids=ids, excluded=excluded)
    assert_equal(found, brute_force(query_QH, document_NH, 5, ids, excluded))
    assert (found.document_QK[0] == -1).sum() == 3
    assert found.document_QK[1].min() >= 0


def test_the_best_document_excluded_lets_the_next_one_up() -> None:
    query_QH = np.eye(3, dtype=np.float32)
    document_NH = np.tile(np.array([[3.0], [2.0], [1.0]], np.float32), (1, 3))
    found = search(query_QH, [document_NH], 2, document_ids=["a", "b", "c"], excluded=[[0], [], [1, 1]])
    assert found.document_QK.tolist() == [[1, 2], [0, 1], [0, 2]]


def test_no_queries_and_no_documents() -> None:
    none = np.empty((0, 4), np.float32)
    some = np.ones((3, 4), np.float32)
    assert search(none, [some], 5, document_ids=["a", "b", "c"]).document_QK.shape == (0, 5)
    assert (search(some, [none], 5, document_ids=[]).document_QK == -1).all()


def test_more_results_asked_for_than_documents() -> None:
    query_QH = np.array([[1.0]], np.float32)
    found = search(query_QH, in_blocks(np.array([[1.0], [2.0], [0.0]], np.float32), 2), 5, document_ids=["a", "b", "c"])
    assert found.document_QK.tolist() == [[1, 0, 2, -1, -1]]
    assert found.score_QK.tolist() == [[2.0, 1.0, 0.0, -np.inf, -np.inf]]


def test_huge_and_tiny_vectors() -> None:
    rng = np.random.default_rng(1)
    query_QH = (rng.standard_normal((4, 8)) * 1e-22).astype(np.float32)
    document_NH = (rng.standard_normal((90, 8)) * 10.0 ** rng.integers(-22, 30, (90, 1))).astype(np.float32)
    ids = shuffled_ids(rng, 90)
    assert_equal(search(query_QH, [document_NH], 40, document_ids=ids), brute_force(query_QH, document_NH, 40, ids))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused_with_their_place(bad: float) -> None:
    query_QH, document_NH = np.ones((3, 2), np.float32), np.ones((9, 2), np.float32)
    document_NH[6, 1] = bad
    with pytest.raises(ValueError, match=r"1 of 4 document vectors.*document number 6 \(from 0\)"):
        search(query_QH, in_blocks(document_NH, 4), 2, document_ids=[str(n) for n in range(9)])
    query_QH[2] = bad
    with pytest.raises(ValueError, match=r"1 of 3 query vectors.*query number 2"):
        search(query_QH, [], 2, document_ids=[])


def test_scores_beyond_float32_are_refused() -> None:
    big = np.full((1, 2), 1e20, np.float32)
    with pytest.raises(ValueError, match="too large for float32"):
        search(big, [big], 1, document_ids=["a"])


def test_wrong_arguments_are_refused() -> None:
    query_QH, document_NH = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    ids = ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="k is 0"):
        search(query_QH, [document_NH], 0, document_ids=ids)
    with pytest.raises(ValueError, match="3 documents were added, of 4"):
        search(query_QH, [document_NH[:3]], 1, document_ids=ids)
    with pytest.raises(ValueError, match="4 documents were added, and only 3"):
        search(query_QH, [document_NH], 1, document_ids=ids[:3])
    with pytest.raises(ValueError, match="documents have 2 dimensions, and queries 3"):
        search(query_QH, [document_NH[:, :2]], 1, document_ids=ids)
    with pytest.raises(ValueError, match="documents for 1 queries, where 2"):
        search(query_QH, [document_NH], 1, document_ids=ids, excluded=[[]])


def test_read_only_and_strided_arrays_are_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    document_NH = rng.integers(0, 3, (120, 6)).astype(np.float32)
    np.save(tmp_path / "documents.npy", document_NH)
    mapped = np.load(tmp_path / "documents.npy", mmap_mode="r")
    ids = shuffled_ids(rng, 120)
    expected = search(document_NH[:5], [document_NH], 30, document_ids=ids)
    assert_equal(search(mapped[:5], in_blocks(mapped, 70), 30, document_ids=pa.chunked_array([ids])), expected)
    assert_equal(search(np.asfortranarray(mapped[:5]), [np.asfortranarray(mapped)], 30, document_ids=ids), expected)


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


_WITH_THREADS = """
import sys
import numpy as np
from trainers.threads import set_threads
set_threads(int(sys.argv[1]))
from trainers.search import in_blocks, search
rng = np.random.default_rng(5)
query_QH, document_NH = (rng.standard_normal((n, 64)).astype(np.float32) for n in (70, 3000))
document_NH[1000:1500] = document_NH[0]
ids = [str(number) for number in range(3000)]
found = search(query_QH, in_blocks(document_NH, 1100), 100, document_ids=ids)
sys.stdout.buffer.write(found.document_QK.tobytes() + found.score_QK.tobytes())
"""


@pytest.mark.skipif(multiprocessing.cpu_count() < 2, reason="one core: there is nothing to compare")
def test_threads_change_no_bit() -> None:
    one, two = (
        subprocess.run([sys.executable, "-c", _WITH_THREADS, threads], check=True, capture_output=True).stdout
        for threads in ("1", "2")
    )
    assert len(one) == 70 * 100 * (8 + 4)
    assert one == two


def test_a_searcher_gives_nothing_before_the_corpus_is_whole() -> None:
    searcher = Searcher(np.ones((1, 2), np.float32), 1, tie_rank_N=tie_ranks(["a", "b"]))
    searcher.add(np.ones((1, 2), np.float32))
    with pytest.raises(ValueError, match="1 documents were added, of 2"):
        searcher.rankings()
    searcher.add(np.full((1, 2), 0.5, np.float32))
    assert searcher.rankings().document_QK.tolist() == [[0]]
