"""The bounds that candidates rest on: of the error of cosines, of floors, and that every pair above them is found."""

import numpy as np
import pytest
import torch
from search_oracle import AVAILABLE

from tests.trainers.whole_search import search
from trainers.search import Backend
from trainers.search import candidates as candidates_module
from trainers.search.candidates import Tile, by_norm, candidates, floors
from trainers.search.cosines import CosineTiles
from trainers.search.exact import checked_norms, exact_scores, search_norms
from trainers.search.tiling import PIECE, Tiling, tiling

backends = pytest.mark.parametrize("backend", AVAILABLE)


def tiles_of(query_QH: torch.Tensor, document_TH: torch.Tensor, backend: Backend) -> CosineTiles:
    most = Tiling(num_queries=len(query_QH), num_documents=-(-len(document_TH) // PIECE) * PIECE)
    found = CosineTiles(query_QH, checked_norms(query_QH, "query", 0), backend, most)
    found.load(document_TH, checked_norms(document_TH, "document", 0), most.num_documents)
    return found


@backends
@pytest.mark.parametrize("size", [1, 7, 384, 1024])
@pytest.mark.parametrize("kind", ["ordinary", "one large component", "tiny components", "near each other"])
def test_the_true_cosine_lies_within_the_bound(backend: Backend, size: int, kind: str) -> None:
    torch.manual_seed(size)
    query_QH, document_TH = torch.randn(40, size), torch.randn(300, size) * torch.logspace(-3, 3, 300)[:, None]
    if kind == "one large component":
        query_QH[:, 0], document_TH[:, 0] = 1e4, 1e4
    if kind == "tiny components":  # of the directions: below the normal range of float16
        query_QH[:, 1:] *= 1e-7
        document_TH[:, 1:] *= 1e-7
    if kind == "near each other":
        query_QH, document_TH = query_QH[:1] + 1e-3 * query_QH, query_QH[:1] + 1e-4 * torch.randn(300, size)
    found = tiles_of(query_QH, document_TH, backend).of(slice(0, 40))
    value_QT = found.value_GT[:, :300].cpu()
    true_QT = torch.nn.functional.normalize(query_QH.double()) @ torch.nn.functional.normalize(document_TH.double()).T
    assert (true_QT <= found.upper(value_QT)).all()
    assert (true_QT >= found.lower(value_QT)).all()
    widest = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[backend.dtype]
    assert found.relative + found.absolute < widest, "a bound so wide proposes everything"


def test_a_zero_vector_has_cosine_zero() -> None:
    found = tiles_of(torch.zeros(1, 5), torch.randn(3, 5), AVAILABLE[0].values[0]).of(slice(0, 1))
    assert found.value_GT.abs().max() == 0


@pytest.mark.parametrize("norm", [0.0, 1e-40, 1e-22, 1.0, 1e22])
def test_no_score_at_the_kth_place_lies_below_the_floor(norm: float) -> None:
    rng = np.random.default_rng(0)
    exact = rng.standard_normal(1000) * 10.0 ** rng.integers(-30, 10, 1000) * norm
    rounded = torch.from_numpy(exact.astype(np.float32)).double()
    floor = floors(rounded, torch.full((1000,), norm, dtype=torch.float64))
    assert (floor.double() <= torch.from_numpy(exact / (norm or 1))).all()
    assert floors(torch.tensor([-torch.inf]).double(), torch.ones(1).double()).item() == -torch.inf


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("num_documents", [1, 63, 64, 1000, 4096])
def test_every_pair_above_its_floor_is_a_candidate(share: float, num_documents: int) -> None:
    """With few and with many of them: both ways of looking, and none twice."""
    torch.manual_seed(0)
    query_QH, document_TH = torch.randn(30, 8), torch.randn(num_documents, 8)
    tiles = tiles_of(query_QH, document_TH, AVAILABLE[0].values[0])
    found = tiles.of(slice(0, 30))
    weight_T = torch.zeros(found.value_GT.shape[1])
    weight_T[:num_documents] = torch.rand(num_documents) + 0.1
    score_QT = found.value_GT * weight_T
    floor_Q = torch.quantile(score_QT[:, :num_documents], 1 - share, dim=1)
    # More wanted than there are: the tile's own kth score raises no floor.
    tile = Tile(weight_T=weight_T, num_documents=num_documents, num_wanted=num_documents + 1, precise=tiles.precise)
    pairs = [
        pair
        for rows, places in candidates(found, floor_Q, tile)
        for pair in zip(rows.tolist(), places.tolist(), strict=True)
    ]
    wanted = (score_QT[:, :num_documents] >= floor_Q[:, None]).nonzero().tolist()
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) >= set(map(tuple, wanted))
    assert len(pairs) <= len(wanted) + 30 + num_documents // 100


def test_what_half_precision_cannot_tell_apart_is_looked_at_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    scored, counted = exact_scores, []

    def counting(query_QH, raw_TH, gamma_d, query_P, index_P):
        counted.append(len(query_P))
        return scored(query_QH, raw_TH, gamma_d, query_P, index_P)

    monkeypatch.setattr("trainers.search.searcher.exact_scores", counting)
    rng = np.random.default_rng(0)
    centre_H = rng.standard_normal(64)
    document_NH = (centre_H + 2e-3 * rng.standard_normal((20_000, 64))).astype(np.float32)
    query_QH = (centre_H + 0.1 * rng.standard_normal((20, 64))).astype(np.float32)
    half = Backend(device="cpu", dtype=torch.bfloat16)
    search(query_QH, [document_NH], 10, document_ids=[str(n) for n in range(20_000)], backend=half)
    assert sum(counted) < 20 * 20_000 / 10


def test_a_document_has_one_score_wherever_it_stands_and_whatever_stands_beside_it() -> None:
    torch.manual_seed(0)
    query_QH, raw_TH = torch.randn(3, 50), torch.randn(333, 50)
    raw_TH[100:200] = raw_TH[7]
    for gamma_d in (0.0, 0.3, 0.54, 1.0):
        for places in ([7], [7, *range(100, 200)], list(range(333))):
            index_P = np.array(places)
            score_P = exact_scores(query_QH, raw_TH, gamma_d, np.zeros_like(index_P), index_P)
            alike = [score for place, score in zip(places, score_P, strict=True) if place == 7 or 100 <= place < 200]
            first = exact_scores(query_QH, raw_TH, gamma_d, np.array([0]), np.array([7]))[0]
            assert set(alike) == {first}


@pytest.mark.parametrize("gamma_d", [0.0, 0.5, 1.0])
def test_search_norms_are_the_norms_of_search_vectors(gamma_d: float) -> None:
    from trainers.similarity import search_vectors

    raw_TH = torch.randn(60, 5) * torch.logspace(-30, 15, 60)[:, None]
    raw_TH[3] = 0
    expected = search_vectors(raw_TH, gamma_d).double().norm(dim=1)
    found = search_norms(raw_TH, checked_norms(raw_TH, "document", 0), gamma_d)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-37)


def test_tiles_fit_the_budget_and_hold_whole_pieces() -> None:
    for budget in (70 << 20, 128 << 20, 1 << 30):
        for num_queries in (0, 1, 100, 7000):
            for size in (1, 384, 4096):
                found = tiling(budget, num_queries, size, device="cpu")
                assert found.num_documents % PIECE == 0
                assert found.num_documents > 0
                assert found.num_queries * found.num_documents * 4 + found.num_documents * size * 10 < budget
    with pytest.raises(ValueError, match="at least"):
        tiling(65 << 20, 10, 100_000, device="cpu")


def test_both_ways_of_looking_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would prove less if one of them never ran."""
    taken = []
    for name in ("_in_pieces", "_among_all"):
        original = getattr(candidates_module, name)
        monkeypatch.setattr(candidates_module, name, lambda *a, _n=name, _o=original: (taken.append(_n), _o(*a))[1])
    document_NH = np.random.default_rng(0).standard_normal((60_000, 64)).astype(np.float32)
    search(document_NH[:8], [document_NH], 5, document_ids=[str(n) for n in range(60_000)])
    assert set(taken) == {"_in_pieces", "_among_all"}


def test_documents_of_a_piece_have_nearly_equal_norms() -> None:
    norm_T = torch.rand(4096).double() + 0.5
    order_T = by_norm(norm_T)
    assert order_T is not None
    assert sorted(order_T.tolist()) == list(range(4096))
    piece_PB = norm_T[order_T].view(PIECE, -1)
    assert (piece_PB.amax(dim=0) / piece_PB.amin(dim=0)).max() < 1.1
    assert by_norm(torch.ones(128)) is None
    assert by_norm(norm_T[:100]) is None
