"""Every backend against brute force: each position and each bit of each score equal, whatever the blocks."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from search_oracle import AVAILABLE, assert_equal, brute_force, shuffled_ids, unequal_blocks

from tests.trainers.whole_search import in_blocks, search
from trainers.search import Backend, Block, Searcher, fastest_backend, tie_ranks
from trainers.similarity import search_vectors

backends = pytest.mark.parametrize("backend", AVAILABLE)


def small_integers(rng, num_queries, num_documents, size):
    """Nearly everything ties, and every score is exact."""
    return rng.integers(-1, 2, (num_queries, size)), rng.integers(-1, 2, (num_documents, size))


def indistinguishable(rng, num_queries, num_documents, size):
    """Documents so near to each other that rounding hides their order."""
    spread = 10.0 ** rng.integers(-8, -3)
    return rng.standard_normal((num_queries, size)), rng.standard_normal(size) + spread * rng.standard_normal(
        (num_documents, size)
    )


def with_duplicates_and_zeros(rng, num_queries, num_documents, size):
    query_QH, document_NH = rng.standard_normal((num_queries, size)), rng.standard_normal((num_documents, size))
    document_NH = document_NH[rng.integers(0, 1 + num_documents // 3, num_documents)]
    document_NH[rng.random(num_documents) < 0.2] = 0
    query_QH[rng.random(num_queries) < 0.2] = 0
    return query_QH, document_NH


def of_unequal_norms(rng, num_queries, num_documents, size):
    norms = 10.0 ** rng.uniform(-6, 6, (num_documents, 1))
    return rng.standard_normal((num_queries, size)) * 1e-3, rng.standard_normal((num_documents, size)) * norms


def huge_and_tiny(rng, num_queries, num_documents, size):
    """Squares of the components leave the range of float32, and scores reach its smallest numbers."""
    norms = 10.0 ** rng.integers(-22, 30, (num_documents, 1))
    return rng.standard_normal((num_queries, size)) * 1e-22, rng.standard_normal((num_documents, size)) * norms


def all_alike(rng, num_queries, num_documents, size):
    return np.ones((num_queries, size)), np.ones((num_documents, size))


def all_negative(rng, num_queries, num_documents, size):
    return -rng.random((num_queries, size)) - 0.1, rng.random((num_documents, size))


KINDS = [
    small_integers,
    indistinguishable,
    with_duplicates_and_zeros,
    of_unequal_norms,
    huge_and_tiny,
    all_alike,
    all_negative,
]


@backends
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", range(6))
def test_equals_brute_force(backend: Backend, kind: Callable, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    num_queries, num_documents, size = int(rng.integers(1, 12)), int(rng.integers(1, 500)), int(rng.integers(1, 70))
    query_QH, document_NH = (x.astype(np.float32) for x in kind(rng, num_queries, num_documents, size))
    ids = shuffled_ids(rng, num_documents)
    excluded = [rng.choice(num_documents, rng.integers(0, min(60, num_documents) + 1), False) for _ in query_QH]
    k = int(rng.choice([1, 3, 10, 60, 600]))
    blocks = unequal_blocks(document_NH, rng)
    found = search(query_QH, blocks, k, document_ids=ids, excluded=excluded, backend=backend)
    assert_equal(found, brute_force(query_QH, document_NH, k, ids, excluded))


@backends
@pytest.mark.parametrize("gamma_d", [0.0, 0.3, 0.5, 1.0])
def test_every_similarity_of_one_search_equals_brute_force(backend: Backend, gamma_d: float) -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.standard_normal((n, 24)).astype(np.float32) for n in (7, 900))
    document_NH *= rng.uniform(0.2, 5, (900, 1)).astype(np.float32)
    document_NH[100:200] = 2 * document_NH[:100]  # the same direction, at another norm
    document_NH[::50] = 0
    ids = shuffled_ids(rng, 900)
    searcher = Searcher(query_QH, 40, tie_rank_N=tie_ranks(ids), gammas_d=(0.0, 0.3, 0.5, 1.0), backend=backend)
    for block in unequal_blocks(document_NH, rng):
        searcher.add(block)
    # pow rounds the last of a tensor's numbers in another way than the rest: each is the first of many here.
    alone = [search_vectors(torch.from_numpy(document_H).repeat(64, 1), gamma_d)[0] for document_H in document_NH]
    vectors_NH = torch.stack(alone).numpy()
    assert_equal(searcher.rankings()[gamma_d], brute_force(query_QH, vectors_NH, 40, ids))


@backends
@pytest.mark.parametrize("spread", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_half_precision_loses_nothing_among_near_ties(backend: Backend, spread: float) -> None:
    """Thousands of documents whose cosines lie within the error of half precision, down to that of float32."""
    rng = np.random.default_rng(int(-np.log10(spread)))
    centre_H = rng.standard_normal(32)
    document_NH = (centre_H + spread * rng.standard_normal((3000, 32))).astype(np.float32)
    query_QH = np.stack([centre_H, rng.standard_normal(32), -centre_H]).astype(np.float32)
    ids = shuffled_ids(rng, 3000)
    found = search(query_QH, in_blocks(document_NH, 1300), 10, document_ids=ids, backend=backend)
    assert_equal(found, brute_force(query_QH, document_NH, 10, ids))


@backends
def test_one_outlier_hides_no_document_of_ordinary_norm(backend: Backend) -> None:
    rng = np.random.default_rng(4)
    document_NH = rng.standard_normal((2000, 32)).astype(np.float32)
    document_NH[1234] *= 1e6
    query_QH = rng.standard_normal((4, 32)).astype(np.float32)
    ids = shuffled_ids(rng, 2000)
    found = search(query_QH, [document_NH], 30, document_ids=ids, backend=backend)
    assert_equal(found, brute_force(query_QH, document_NH, 30, ids))


@backends
def test_many_tiles_and_groups_of_queries(backend: Backend) -> None:
    """More queries and documents than are searched at a time; the smallest budget changes no bit."""
    rng = np.random.default_rng(5)
    query_QH, document_NH = (rng.standard_normal((n, 16)).astype(np.float32) for n in (1100, 20_000))
    document_NH[5000:9000] = document_NH[:4000]
    ids = shuffled_ids(rng, 20_000)
    whole = search(query_QH, [document_NH], 20, document_ids=ids, backend=backend)
    small = search(query_QH, [document_NH], 20, document_ids=ids, backend=backend, memory_budget_bytes=66 << 20)
    assert_equal(small, whole)
    some = rng.choice(1100, 3, False)
    expected = brute_force(query_QH[some], document_NH, 20, ids)
    np.testing.assert_array_equal(whole.document_QK[some], expected.document_QK)


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
    document_NH[500:700] = document_NH[100:300]
    document_NH[::9] = 0
    query_QH[3] = 0
    ids = shuffled_ids(rng, 1000)
    whole = search(query_QH, [document_NH], 100, document_ids=ids, gamma_d=0.5)
    assert_equal(search(query_QH, in_blocks(document_NH, rows), 100, document_ids=ids, gamma_d=0.5), whole)


def test_blocks_may_come_in_any_order() -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.integers(0, 2, (n, 6)).astype(np.float32) for n in (9, 300))
    ids = shuffled_ids(rng, 300)
    blocks = list(in_blocks(document_NH, 70))
    found = search(query_QH, [blocks[place] for place in (3, 0, 4, 2, 1)], 20, document_ids=ids)
    assert_equal(found, brute_force(query_QH, document_NH, 20, ids))
    with pytest.raises(ValueError, match="documents 70 to 139 were added, some of them before"):
        search(query_QH, [blocks[1], blocks[0], blocks[1]], 20, document_ids=ids)


def test_half_precision_and_kept_blocks_are_searched_as_what_they_hold(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    query_QH, raw_NH = (rng.standard_normal((n, 24)).astype(np.float32) for n in (5, 400))
    norm_N = np.linalg.norm(raw_NH, axis=1)
    np.save(tmp_path / "directions.npy", (raw_NH / norm_N[:, None]).astype(np.float16))
    np.save(tmp_path / "norms.npy", norm_N)
    direction_NH, norm_N = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("directions", "norms"))
    ids = shuffled_ids(rng, 400)
    kept_blocks = [
        Block(first=block.first, vector_DH=block.vector_DH, norm_D=norm_N[block.first : block.first + len(block)])
        for block in in_blocks(direction_NH, 90)
    ]
    kept = search(query_QH, kept_blocks, 30, document_ids=ids)
    assert_equal(kept, brute_force(query_QH, direction_NH.astype(np.float32) * norm_N[:, None], 30, ids))
    half = search(query_QH, in_blocks(direction_NH, 90), 30, document_ids=ids)
    assert_equal(half, brute_force(query_QH, direction_NH.astype(np.float32), 30, ids))
    with pytest.raises(ValueError, match="embeddings are float64"):
        search(query_QH, [raw_NH.astype(np.float64)], 3, document_ids=ids)


@backends
def test_a_query_that_excludes_all_but_two_documents_finds_them(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    query_QH, document_NH = (rng.standard_normal((n, 8)).astype(np.float32) for n in (2, 400))
    ids = shuffled_ids(rng, 400)
    excluded = [[n for n in range(400) if n not in (17, 333)], []]
    found = search(query_QH, in_blocks(document_NH, 150), 5, document_ids=ids, excluded=excluded, backend=backend)
    assert_equal(found, brute_force(query_QH, document_NH, 5, ids, excluded))
    assert (found.document_QK[0] == -1).sum() == 3
    assert found.document_QK[1].min() >= 0


@backends
def test_excluded_documents_at_the_top_take_no_place(backend: Backend) -> None:
    """In a tile large enough that its own kth score raises the floor."""
    rng = np.random.default_rng(1)
    query_QH, document_NH = (rng.standard_normal((n, 8)).astype(np.float32) for n in (3, 5000))
    ids = shuffled_ids(rng, 5000)
    excluded = [np.argsort(-document_NH @ query_H)[:40].tolist() for query_H in query_QH]
    found = search(query_QH, [document_NH], 10, document_ids=ids, excluded=excluded, backend=backend)
    assert_equal(found, brute_force(query_QH, document_NH, 10, ids, excluded))


def test_the_best_document_excluded_lets_the_next_one_up() -> None:
    query_QH = np.eye(3, dtype=np.float32)
    document_NH = np.tile(np.array([[3.0], [2.0], [1.0]], np.float32), (1, 3))
    found = search(query_QH, [document_NH], 2, document_ids=["a", "b", "c"], excluded=[[0], [], [1, 1]])
    assert found.document_QK.tolist() == [[1, 2], [0, 1], [0, 2]]


@backends
def test_no_queries_no_documents_and_one_document(backend: Backend) -> None:
    none = np.empty((0, 4), np.float32)
    some = np.ones((3, 4), np.float32)
    assert search(none, [some], 5, document_ids=["a", "b", "c"], backend=backend).document_QK.shape == (0, 5)
    assert (search(some, [none], 5, document_ids=[], backend=backend).document_QK == -1).all()
    one = search(some, [some[:1]], 5, document_ids=["a"], backend=backend)
    assert one.document_QK.tolist() == [[0, -1, -1, -1, -1]] * 3
    assert one.score_QK.tolist() == [[4.0, *[-np.inf] * 4]] * 3


@backends
def test_more_results_asked_for_than_documents(backend: Backend) -> None:
    query_QH = np.array([[1.0]], np.float32)
    document_NH = np.array([[1.0], [2.0], [0.0]], np.float32)
    found = search(query_QH, in_blocks(document_NH, 2), 5, document_ids=["a", "b", "c"], backend=backend)
    assert found.document_QK.tolist() == [[1, 0, 2, -1, -1]]
    assert found.score_QK.tolist() == [[2.0, 1.0, 0.0, -np.inf, -np.inf]]


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
    with pytest.raises(ValueError, match="too large for float32"):
        search(big * 1e-30, [np.full((1, 2), 3e38, np.float32)], 1, document_ids=["a"])


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
    with pytest.raises(ValueError, match=r"memory_budget_bytes is 1000000; .* 3 dimensions needs at least 67"):
        search(query_QH, [document_NH], 1, document_ids=ids, memory_budget_bytes=1_000_000)


def test_read_only_and_strided_arrays_are_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    document_NH = rng.integers(0, 3, (120, 6)).astype(np.float32)
    np.save(tmp_path / "documents.npy", document_NH)
    mapped = np.load(tmp_path / "documents.npy", mmap_mode="r")
    ids = shuffled_ids(rng, 120)
    expected = search(document_NH[:5], [document_NH], 30, document_ids=ids)
    assert_equal(search(mapped[:5], in_blocks(mapped, 70), 30, document_ids=pa.chunked_array([ids])), expected)
    assert_equal(search(np.asfortranarray(mapped[:5]), [np.asfortranarray(mapped)], 30, document_ids=ids), expected)


def test_a_searcher_gives_nothing_before_the_corpus_is_whole() -> None:
    searcher = Searcher(np.ones((1, 2), np.float32), 1, tie_rank_N=tie_ranks(["a", "b"]))
    searcher.add(Block(first=1, vector_DH=np.ones((1, 2), np.float32)))
    with pytest.raises(ValueError, match="1 documents were added, of 2"):
        searcher.rankings()
    searcher.add(Block(first=0, vector_DH=np.full((1, 2), 0.5, np.float32)))
    assert searcher.rankings()[0.0].document_QK.tolist() == [[1]]


def test_the_fastest_backend_is_one_of_the_list() -> None:
    assert fastest_backend("cpu") in [param.values[0] for param in AVAILABLE]
    assert fastest_backend("cuda").dtype == torch.float16


_WITH_THREADS = """
import sys
import numpy as np
from trainers.threads import set_threads
set_threads(int(sys.argv[1]))
from tests.trainers.whole_search import in_blocks, search
rng = np.random.default_rng(5)
query_QH, document_NH = (rng.standard_normal((n, 64)).astype(np.float32) for n in (70, 3000))
document_NH[1000:1500] = document_NH[0]
ids = [str(number) for number in range(3000)]
found = search(query_QH, in_blocks(document_NH, 1100), 100, document_ids=ids, gamma_d=0.5)
sys.stdout.buffer.write(found.document_QK.tobytes() + found.score_QK.tobytes())
"""


@pytest.mark.slow
@pytest.mark.skipif(multiprocessing.cpu_count() < 2, reason="one core: there is nothing to compare")
def test_threads_change_no_bit() -> None:
    one, two = (
        subprocess.run([sys.executable, "-c", _WITH_THREADS, threads], check=True, capture_output=True).stdout
        for threads in ("1", "2")
    )
    assert len(one) == 70 * 100 * (8 + 4)
    assert one == two
