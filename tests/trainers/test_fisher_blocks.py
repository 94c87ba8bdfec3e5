from dataclasses import replace

import pytest
import torch
from brute_fisher import fisher_of, logits

from search_spaces.catalogue.similarities import SIMILARITIES
from trainers.fisher.estimates import EMPIRICAL, compare, compare_at_ridges, measure, num_parameters
from trainers.fisher.gamma import LogMeans, gamma_fisher, log_means
from trainers.fisher.head import (
    GRAM_GRADIENTS,
    head_fisher,
    head_gram,
    head_pool,
    head_product,
    head_spectrum,
    head_trace,
)
from trainers.fisher.information import (
    Point,
    Pool,
    document_fisher,
    log_probabilities,
    observed_labels,
    query_fisher,
)
from trainers.fisher.spectrum import log10_kappa

POINTS = {s.name: Point(gamma_q=s.gamma_q, gamma_d=s.gamma_d, scale=3.0) for s in SIMILARITIES.values()}
Q, H = 5, 6


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made_pool(seed, size=Q, hidden=H):
    """Documents 1 and 3 are one document, which is masked for queries 1 and 3; another slot is masked, too."""
    documents = normal(size, hidden, seed=2 * seed + 2)
    documents[3] = documents[1]
    masked = torch.zeros(size, size, dtype=torch.bool)
    masked[1, 3] = masked[3, 1] = masked[0, 4] = True
    numbers = torch.arange(size)
    numbers[3] = 1
    return Pool(
        query_QH=normal(size, hidden, seed=2 * seed + 1), document_DH=documents, document_D=numbers, masked_QD=masked
    )


@pytest.fixture
def pool():
    return made_pool(0)


@pytest.fixture(params=list(POINTS))
def point(request):
    return POINTS[request.param]


@pytest.fixture(params=[False, True], ids=["fisher", "empirical"])
def observed(request):
    return request.param


def labels(pool, point, observed):
    return observed_labels(pool) if observed else log_probabilities(pool, point).exp()


def test_gamma_block_is_its_definition(pool, point, observed):
    means = log_means(pool.query_QH, pool.document_DH)

    def of_exponents(gammas):
        # Norms over their geometric means, with the scale that leaves the logits at the point as they are.
        unit_q, unit_d = torch.tensor([means.query, means.document], dtype=torch.float64).exp()
        scale = point.scale / (unit_q**point.gamma_q * unit_d**point.gamma_d)
        query = pool.query_QH / (pool.query_QH.norm(dim=1, keepdim=True) / unit_q) ** gammas[0]
        document = pool.document_DH / (pool.document_DH.norm(dim=1, keepdim=True) / unit_d) ** gammas[1]
        return scale * query @ document.T

    at = torch.tensor([point.gamma_q, point.gamma_d], dtype=torch.float64)
    torch.testing.assert_close(of_exponents(at), logits(pool.query_QH, pool.document_DH, point))
    p = log_probabilities(pool, point).exp()
    found = gamma_fisher(pool, p, point, means, label_QD=labels(pool, point, observed)) / Q
    expected = fisher_of(of_exponents, at, pool.masked_QD, observed=observed)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_gamma_kappa_knows_no_unit_of_length(pool, point):
    """In another unit, with the scale that keeps the logits: the same, which without geometric means it is not."""
    unit = 17.0
    shrunk = replace(pool, query_QH=pool.query_QH / unit, document_DH=pool.document_DH / unit)
    scale = point.scale * unit ** (2 - point.gamma_q - point.gamma_d)
    rescaled = Point(gamma_q=point.gamma_q, gamma_d=point.gamma_d, scale=scale)
    p = log_probabilities(pool, point).exp()
    torch.testing.assert_close(log_probabilities(shrunk, rescaled).exp(), p)
    kappas = [
        log10_kappa(gamma_fisher(which, p, at, log_means(which.query_QH, which.document_DH)), 2)
        for which, at in ((pool, point), (shrunk, rescaled))
    ]
    torch.testing.assert_close(*kappas, rtol=0, atol=1e-8)
    raw = LogMeans(query=0.0, document=0.0)
    one, other = (log10_kappa(gamma_fisher(which, p, at, raw), 2) for which, at in ((pool, point), (shrunk, rescaled)))
    assert abs(one - other) > 0.1


def test_gamma_of_equal_norms_is_singular(pool, point):
    unit = replace(pool, query_QH=pool.query_QH / pool.query_QH.norm(dim=1, keepdim=True))
    p = log_probabilities(unit, point).exp()
    found = gamma_fisher(unit, p, point, log_means(unit.query_QH, unit.document_DH))
    assert found[0].abs().max() < 1e-12
    assert found[1, 1] > 1e-3


def test_gamma_takes_the_rounding_of_equal_norms_for_no_information(point):
    """An untrained encoder that ends in a LayerNorm: a kappa would be that of float32's rounding, with an interval."""
    pools = [made_pool(seed) for seed in range(9)]
    last = torch.nn.LayerNorm(pools[0].query_QH.shape[1], eps=1e-12).requires_grad_(requires_grad=False)  # BERT's
    ends = [replace(p, query_QH=last(p.query_QH.float()), document_DH=last(p.document_DH.float())) for p in pools]
    means = log_means(torch.cat([p.query_QH for p in ends]), torch.cat([p.document_DH for p in ends]))
    basis_HR = torch.eye(pools[0].query_QH.shape[1], 2, dtype=torch.float64)
    seen = measure(ends, point, basis_HR, means=means)
    found = compare(seen, seen, "gamma", None)
    assert found.difference is None
    assert found.spectra[0].log10_kappa is None
    assert found.spectra[0].trace == 0


def test_empirical_embedding_blocks_are_their_definition(pool, point):
    p, eye, label = log_probabilities(pool, point).exp(), torch.eye(H, dtype=torch.float64), observed_labels(pool)
    expected = torch.zeros(H, H, dtype=torch.float64)
    for i in range(Q):
        query = pool.query_QH[i]
        mask = pool.masked_QD[i : i + 1]
        # fisher_of takes the positive of its row 0, so rows are rolled until it is there
        order = torch.roll(torch.arange(Q), -i)
        documents = pool.document_DH[order]
        expected += fisher_of(lambda q, d=documents: logits(q[None], d, point), query, mask[:, order], observed=True)
    found = query_fisher(pool, p, point, eye, label_QD=label)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    distinct = pool.document_D.unique()
    parameters = torch.stack([pool.document_DH[(pool.document_D == n).nonzero()[0, 0]] for n in distinct])
    slots = torch.searchsorted(distinct, pool.document_D)
    whole = fisher_of(lambda d: logits(pool.query_QH, d[slots], point), parameters, pool.masked_QD, observed=True)
    blocks = whole.reshape(len(distinct), H, len(distinct), H)
    expected = sum(blocks[n, :, n] for n in range(len(distinct)))
    found = document_fisher(pool, p, point, eye, label_QD=label) / Q
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def explicit_head(pools, point, observed):
    """The H^2 x H^2 matrix by autograd on s(W q, W d) at W = identity."""
    eye = torch.eye(H, dtype=torch.float64)
    return sum(
        fisher_of(
            lambda w, p=pool: logits(p.query_QH @ w.T, p.document_DH @ w.T, point),
            eye,
            pool.masked_QD,
            observed=observed,
        )
        for pool in pools
    ) / len(pools)


def test_head_is_the_explicit_matrix(point, observed):
    pools = [made_pool(seed) for seed in range(3)]
    explicit = explicit_head(pools, point, observed)
    parts = [head_pool(pool, point, observed=observed) for pool in pools]
    directions = normal(4, H, H, seed=8)
    expected = (directions.flatten(1) @ explicit).view(4, H, H)
    torch.testing.assert_close(head_product(parts, directions), expected, rtol=1e-8, atol=1e-8)
    assert head_trace(parts) == pytest.approx(explicit.trace().item(), rel=1e-10)
    values = torch.linalg.eigvalsh(explicit).flip(0)
    gram = torch.linalg.eigvalsh(head_gram(parts)).flip(0)
    torch.testing.assert_close(gram[: H * H], values, rtol=1e-8, atol=1e-8)
    assert gram[H * H :].abs().max() < 1e-8
    # rotations change no score: H (H - 1) / 2 exact null directions
    assert values[H * (H + 1) // 2 :].abs().max() < 1e-10


def test_head_in_a_subspace_is_the_explicit_matrix_of_symmetric_maps(pool, point, observed):
    basis = torch.linalg.qr(normal(H, 3, seed=4)).Q

    def of_coordinates(s):
        symmetric = torch.stack([torch.stack([a, b, d]) for a, b, d in ((s[0], s[1], s[3]), (s[1], s[2], s[4]))])
        symmetric = torch.cat([symmetric, torch.stack([s[3], s[4], s[5]])[None]])
        # coordinates that are orthonormal in the Frobenius product
        root = torch.full((3, 3), 0.5**0.5, dtype=torch.float64).fill_diagonal_(1.0)
        w = torch.eye(H, dtype=torch.float64) + basis @ (symmetric * root) @ basis.T
        return logits(pool.query_QH @ w.T, pool.document_DH @ w.T, point)

    zero = torch.zeros(6, dtype=torch.float64)
    expected = fisher_of(of_coordinates, zero, pool.masked_QD, observed=observed)
    found = head_fisher(head_pool(pool, point, observed=observed), basis) / Q
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    # the leading coordinates are those of the leading columns
    leading = head_fisher(head_pool(pool, point, observed=observed), basis[:, :2]) / Q
    torch.testing.assert_close(found[:3, :3], leading, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_head_spectrum_by_products_is_that_of_the_gram_matrix(point):
    """More gradients than a Gram matrix takes; here both are possible, and the explicit matrix too."""
    pools = [made_pool(seed, size=46) for seed in range(2)]
    assert sum(pool.masked_QD.numel() for pool in pools) > GRAM_GRADIENTS
    values = torch.linalg.eigvalsh(explicit_head(pools, point, observed=False)).clamp(min=0)
    found = head_spectrum([head_pool(pool, point) for pool in pools])
    assert found.eigenvalues is None
    assert found.seen.lambda_max == pytest.approx(values.max().item(), rel=1e-6)
    assert found.seen.trace.value == pytest.approx(values.sum().item(), rel=1e-10)
    shares = values[values > 0] / values.sum()
    rank = (-(shares * shares.log()).sum()).exp().item()
    seen = found.seen.effective_rank
    assert seen.low <= rank <= seen.high
    few = head_spectrum([head_pool(pools[0], point)])
    exact = torch.linalg.eigvalsh(explicit_head(pools[:1], point, observed=False)).flip(0)[: H * (H + 1) // 2]
    torch.testing.assert_close(few.eigenvalues, exact.clamp(min=0), rtol=1e-8, atol=1e-8)


def test_rotation_and_scale_of_every_block(pool, point):
    """kappa knows neither the axes of the space nor the scale where p stays; eigenvalues grow with its square."""
    rotation = torch.linalg.qr(normal(H, H, seed=9)).Q
    basis = torch.linalg.qr(normal(H, 3, seed=4)).Q
    rotated = replace(pool, query_QH=pool.query_QH @ rotation, document_DH=pool.document_DH @ rotation)
    means = log_means(pool.query_QH, pool.document_DH)
    sides = [
        measure([which], point, where, means=means, head_pools=1, labels=("", EMPIRICAL))
        for which, where in ((pool, basis), (rotated, rotation.T @ basis))
    ]
    assert set(sides[0].fisher_PRR) >= {"embedding", "gamma", "head", "empirical_gamma", "empirical_head"}
    for block, found in sides[0].fisher_PRR.items():
        torch.testing.assert_close(sides[1].fisher_PRR[block], found, rtol=1e-8, atol=1e-10, msg=block)
    louder = replace(head_pool(pool, point), z_QD=7 * head_pool(pool, point).z_QD, point=replace(point, scale=21.0))
    torch.testing.assert_close(head_fisher(louder, basis), 49 * head_fisher(head_pool(pool, point), basis))
    p = log_probabilities(pool, point).exp()
    quiet = gamma_fisher(pool, p, point, means)
    torch.testing.assert_close(gamma_fisher(pool, p, replace(point, scale=21.0), means), 49 * quiet)


def test_blocks_without_covered_intervals_have_none(pool, monkeypatch):
    """A call needs an interval, and an interval a simulation in which it held."""
    basis = torch.linalg.qr(normal(H, 3, seed=4)).Q
    pools = [made_pool(seed) for seed in range(9)]
    one, other = (measure(pools, POINTS[name], basis, head_pools=9) for name in ("qnorm", "dnorm"))
    assert compare(one, other, "embedding", 3).difference.low is not None
    monkeypatch.setattr("trainers.fisher.estimates.COVERED_RANKS", {"embedding": 2})
    assert compare(one, other, "embedding", 2).difference.low is not None
    assert compare(one, other, "embedding", 3).difference.low is None
    assert compare(one, other, "embedding_query", 2).difference.low is None


def test_sizes_of_blocks():
    assert [num_parameters(block, 8) for block in ("embedding", "head", "empirical_head")] == [8, 36, 36]
    assert num_parameters("gamma", None) == 2


def test_kappa_of_new_blocks_does_not_move_with_the_ridge():
    """Four decades of ridge would move log10 kappa by 4 if the ridge decided it; all of the head's space shows that."""
    pools = [made_pool(seed, size=12) for seed in range(8)]
    basis = torch.linalg.qr(normal(H, 3, seed=4)).Q
    means = LogMeans(query=0.8, document=0.8)
    one, other = (measure(pools, POINTS[name], basis, means=means, head_pools=8) for name in ("qnorm", "dnorm"))
    for block, rank in (("gamma", None), ("head", 3)):
        found = compare_at_ridges(one, other, block, rank, (1e-10, 1e-6))
        for side in ("first", "second", "difference"):
            values = [getattr(at, side).value for at in found.values()]
            assert abs(values[0] - values[1]) < 0.01, (block, side)
    explicit = explicit_head(pools, POINTS["qnorm"], observed=False)
    assert log10_kappa(explicit, H * H, 1e-10) - log10_kappa(explicit, H * H, 1e-6) > 3.5
