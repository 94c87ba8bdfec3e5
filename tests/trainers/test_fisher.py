import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import jacrev

from search_spaces.catalogue.similarities import SIMILARITIES
from trainers.fisher.estimates import BLOCKS, compare, measure
from trainers.fisher.information import (
    BLOCK_ELEMENTS,
    Point,
    Pool,
    document_fisher,
    document_gradients,
    log_probabilities,
    query_fisher,
    query_gradients,
)
from trainers.fisher.jackknife import delete_group
from trainers.fisher.spectrum import RIDGE, log10_kappa, spectrum
from trainers.fisher.subspace import shared_subspace
from trainers.similarity import scores
from trainers.training.losses import info_nce

POINTS = {s.name: Point(gamma_q=s.gamma_q, gamma_d=s.gamma_d, scale=3.0) for s in SIMILARITIES.values()}
Q, H = 5, 6


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def pool():
    """Five queries; documents 1 and 3 are one document, which is masked for query 1 (its positive) and query 3."""
    documents = normal(Q, H, seed=2)
    documents[3] = documents[1]
    masked = torch.zeros(Q, Q, dtype=torch.bool)
    masked[1, 3] = masked[3, 1] = masked[0, 4] = True
    return Pool(
        query_QH=normal(Q, H, seed=1), document_DH=documents, document_D=torch.tensor([7, 8, 9, 8, 5]), masked_QD=masked
    )


@pytest.fixture(params=list(POINTS))
def point(request):
    return POINTS[request.param]


def logits(query_H, document_DH, point):
    """The formula of the study, once more, in float64 and for one query."""
    norms = query_H.norm() ** point.gamma_q * document_DH.norm(dim=1) ** point.gamma_d
    return point.scale * (document_DH @ query_H) / norms


def categorical_fisher(jacobian_DX, p_D):
    """Cov_{j ~ p}(row j), by its definition."""
    mean = p_D @ jacobian_DX
    return sum(p * torch.outer(row - mean, row - mean) for p, row in zip(p_D, jacobian_DX, strict=True))


def candidates(pool, i):
    return (~pool.masked_QD[i]).nonzero().flatten()


def brute_query_fisher(pool, point):
    total = torch.zeros(H, H, dtype=torch.float64)
    for i, query in enumerate(pool.query_QH):
        documents = pool.document_DH[candidates(pool, i)]
        jacobian = jacrev(lambda q, d=documents: logits(q, d, point))(query)
        total += categorical_fisher(jacobian, logits(query, documents, point).softmax(0))
    return total


def brute_document_fisher(pool, point):
    """The diagonal H x H blocks of the Fisher information of all different documents, summed over documents."""
    total = torch.zeros(H, H, dtype=torch.float64)
    numbers = pool.document_D.unique()
    distinct = torch.stack([pool.document_DH[(pool.document_D == n).nonzero()[0, 0]] for n in numbers])
    for i, query in enumerate(pool.query_QH):
        slots = torch.searchsorted(numbers, pool.document_D[candidates(pool, i)])

        def of_parameters(parameters, query=query, slots=slots):
            return logits(query, parameters[slots], point)

        whole = categorical_fisher(jacrev(of_parameters)(distinct).flatten(1), of_parameters(distinct).softmax(0))
        blocks = whole.reshape(len(numbers), H, len(numbers), H)
        total += sum(blocks[n, :, n] for n in range(len(numbers)))
    return total


def test_probabilities_are_those_of_the_training_loss(pool, point):
    log_p = log_probabilities(pool, point)
    trained = scores(pool.query_QH, pool.document_DH, point.gamma_q, point.gamma_d) * point.scale
    expected = trained.masked_fill(pool.masked_QD, -torch.inf).softmax(dim=1)
    torch.testing.assert_close(log_p.exp().float(), expected, rtol=1e-5, atol=1e-6)
    loss = info_nce(
        pool.query_QH,
        pool.document_DH,
        masked_QD=pool.masked_QD,
        gammas=(point.gamma_q, point.gamma_d),
        factor=point.scale,
    ).loss
    assert -log_p.diagonal().mean().item() == pytest.approx(loss.item(), rel=1e-5)


def test_query_block_is_its_definition(pool, point):
    found = query_fisher(pool, log_probabilities(pool, point).exp(), point, torch.eye(H, dtype=torch.float64))
    torch.testing.assert_close(found, brute_query_fisher(pool, point), rtol=1e-8, atol=1e-8)


def test_document_block_is_its_definition(pool, point):
    found = document_fisher(pool, log_probabilities(pool, point).exp(), point, torch.eye(H, dtype=torch.float64))
    torch.testing.assert_close(found, brute_document_fisher(pool, point), rtol=1e-8, atol=1e-8)


def test_projection_before_squaring_is_projection_of_the_whole(pool, point):
    basis = torch.linalg.qr(normal(H, 3, seed=4)).Q
    p = log_probabilities(pool, point).exp()
    for fisher in (query_fisher, document_fisher):
        whole = fisher(pool, p, point, torch.eye(H, dtype=torch.float64))
        torch.testing.assert_close(fisher(pool, p, point, basis), basis.T @ whole @ basis, rtol=1e-10, atol=1e-10)


def test_many_queries_are_summed_over_blocks():
    """More gradients than are held at once, against one query at a time."""
    size, point = 300, POINTS["half"]
    many = Pool(
        query_QH=normal(size, 64, seed=5),
        document_DH=normal(size, 64, seed=6),
        document_D=torch.arange(size),
        masked_QD=torch.zeros(size, size, dtype=torch.bool),
    )
    assert size * size * 64 > BLOCK_ELEMENTS
    p, eye = log_probabilities(many, point).exp(), torch.eye(64, dtype=torch.float64)
    for fisher in (query_fisher, document_fisher):
        alone = sum(
            fisher(
                replace(many, query_QH=many.query_QH[i : i + 1], masked_QD=many.masked_QD[i : i + 1]),
                p[i : i + 1],
                point,
                eye,
            )
            for i in range(size)
        )
        torch.testing.assert_close(fisher(many, p, point, eye), alone, rtol=1e-10, atol=1e-10)


def test_gradients_are_orthogonal_to_a_normalised_side_and_to_no_other(pool, point):
    eye = torch.eye(H, dtype=torch.float64)
    for gamma, gradients, own in (
        (point.gamma_q, query_gradients, pool.query_QH.unsqueeze(1)),
        (point.gamma_d, document_gradients, pool.document_DH.unsqueeze(0)),
    ):
        along = (gradients(pool.query_QH, pool.document_DH, point, eye) * own).sum(dim=2).abs()
        assert along.max() < 1e-12 if gamma == 1 else along.min() > 1e-3


def test_a_normalised_side_does_not_make_the_mean_singular(pool):
    point = POINTS["cosine"]
    found = document_fisher(pool, log_probabilities(pool, point).exp(), point, torch.eye(H, dtype=torch.float64))
    assert spectrum(found, H).log10_kappa < 4  # each pair alone has an exact null direction


@pytest.mark.parametrize("name", list(POINTS))
def test_a_shift_of_all_documents_has_zero_fisher_without_document_normalisation(pool, name):
    """dz_ij / dt of d_j + t is q~_i for every j under gamma_d = 0; one parameter per document is another question."""
    point, eye = POINTS[name], torch.eye(H, dtype=torch.float64)
    p = log_probabilities(pool, point).exp()
    gradients = document_gradients(pool.query_QH, pool.document_DH, point, eye)
    shift = sum(categorical_fisher(gradients[i], p[i]) for i in range(Q))
    shifted = jacrev(lambda t: logits(pool.query_QH[0], pool.document_DH + t, point))(
        torch.zeros(H, dtype=torch.float64)
    )
    torch.testing.assert_close(shifted, gradients[0])
    assert document_fisher(pool, p, point, eye).trace() > 1e-2
    if point.gamma_d == 0:
        assert shift.abs().max() < 1e-12
    else:
        assert shift.trace() > 1e-2


def test_a_zero_vector_has_finite_gradients(pool, point):
    query, document = pool.query_QH.clone(), pool.document_DH.clone()
    query[0], document[0] = 0, 0
    zeros = Pool(query_QH=query, document_DH=document, document_D=pool.document_D, masked_QD=pool.masked_QD)
    p, eye = log_probabilities(zeros, point).exp(), torch.eye(H, dtype=torch.float64)
    assert query_fisher(zeros, p, point, eye).isfinite().all()
    assert document_fisher(zeros, p, point, eye).isfinite().all()
    # and the scores' own gradient there
    q = query[0].float().requires_grad_()
    (expected,) = torch.autograd.grad(
        scores(q[None], document[1:2], point.gamma_q, point.gamma_d).sum() * point.scale, q
    )
    found = query_gradients(query[:1], document[1:2], point, eye)[0, 0]
    torch.testing.assert_close(found.float(), expected, rtol=1e-5, atol=1e-6)


# Embeddings as encoders make them: a common mean, a spectrum that falls as a power, and null directions.


def encoder_like(num_pools=10, size=24, hidden=48, seed=0, scale_of=lambda n: n**-1.0):
    rng = torch.Generator().manual_seed(seed)
    rotation = torch.linalg.qr(torch.randn(hidden, hidden, generator=rng, dtype=torch.float64)).Q
    deviations = torch.tensor([scale_of(n) for n in range(1, hidden - 3)] + [0.0] * 4, dtype=torch.float64)
    mean = torch.randn(hidden, generator=rng, dtype=torch.float64) * 0.3
    pools = []
    for _ in range(num_pools):
        shared = torch.randn(size, hidden, generator=rng, dtype=torch.float64)
        own = [torch.randn(size, hidden, generator=rng, dtype=torch.float64) for _ in range(2)]
        query, document = (((0.8 * shared + 0.6 * x) * deviations) @ rotation.T + mean for x in own)
        masked = torch.zeros(size, size, dtype=torch.bool)
        pools.append(Pool(query_QH=query, document_DH=document, document_D=torch.arange(size), masked_QD=masked))
    return pools


def pooled(pools):
    return torch.cat([vectors for pool in pools for vectors in (pool.query_QH, pool.document_DH)])


def kappas(pools, rank=16, ridge=RIDGE):
    basis = shared_subspace(pooled(pools), ranks=(rank,)).basis_HR
    measured = [measure(pools, POINTS[name], basis) for name in ("qnorm", "dnorm")]
    return torch.stack([log10_kappa(m.fisher_PRR[b].mean(dim=0), rank, ridge) for m in measured for b in BLOCKS])


def changed(pools, change):
    return [
        Pool(
            query_QH=change(pool.query_QH),
            document_DH=change(pool.document_DH),
            document_D=pool.document_D,
            masked_QD=pool.masked_QD,
        )
        for pool in pools
    ]


def test_kappa_does_not_know_the_axes_of_the_space():
    pools = encoder_like()
    rotation = torch.linalg.qr(normal(48, 48, seed=9)).Q
    torch.testing.assert_close(kappas(changed(pools, lambda x: x @ rotation)), kappas(pools), rtol=0, atol=1e-6)
    # an uneven stretch is not a rotation
    stretch = torch.linspace(0.5, 2, 48, dtype=torch.float64)
    assert (kappas(changed(pools, lambda x: x * stretch)) - kappas(pools)).abs().max() > 0.01


def test_kappa_does_not_know_the_scale_where_the_probabilities_stay(pool):
    point, eye = POINTS["qnorm"], torch.eye(H, dtype=torch.float64)
    louder = Point(gamma_q=point.gamma_q, gamma_d=point.gamma_d, scale=7 * point.scale)
    p = log_probabilities(pool, point).exp()
    for fisher in (query_fisher, document_fisher):
        quiet, loud = fisher(pool, p, point, eye), fisher(pool, p, louder, eye)
        torch.testing.assert_close(loud, 49 * quiet)
        # 49 * F is rounded, and the smallest eigenvalue carries the rounding of the largest, 1e-16 * kappa of it.
        torch.testing.assert_close(log10_kappa(loud, H), log10_kappa(quiet, H), rtol=0, atol=1e-7)


def test_kappa_does_not_move_with_the_ridge():
    """Two decades of ridge would move log10 kappa by 2 if the ridge decided it; so does a cut-off in all of H."""
    pools = encoder_like()
    moved = (kappas(pools, ridge=RIDGE / 10) - kappas(pools, ridge=RIDGE * 10)).abs().max()
    assert moved < 0.01
    whole = measure(pools, POINTS["qnorm"], torch.eye(48, dtype=torch.float64)).fisher_PRR["embedding"].mean(dim=0)
    assert log10_kappa(whole, 48, RIDGE / 10) - log10_kappa(whole, 48, RIDGE * 10) > 1.5


def test_every_rank_is_the_leading_block_of_the_largest():
    pools = encoder_like()
    largest = measure(pools, POINTS["dnorm"], shared_subspace(pooled(pools), ranks=(8, 16, 32)).basis_HR)
    for rank in (8, 16):
        own = measure(pools, POINTS["dnorm"], shared_subspace(pooled(pools), ranks=(rank,)).basis_HR)
        for block in BLOCKS:
            found, expected = (log10_kappa(m.fisher_PRR[block].mean(dim=0), rank) for m in (largest, own))
            assert found.item() == pytest.approx(expected.item(), abs=1e-9)


def test_null_directions_stay_out_of_the_subspace():
    pools = encoder_like()
    vectors = pooled(pools).float()  # rounding fills the null directions
    assert shared_subspace(vectors, ranks=(8, 44, 45)).ranks == (8, 44)
    assert shared_subspace(vectors, ranks=(45,)).ranks == (44,)
    with pytest.raises(ValueError, match="240 embeddings are all the same"):
        shared_subspace(torch.ones(240, 48) * 0.1)


def test_explained_variance_is_that_of_the_centred_embeddings():
    vectors = pooled(encoder_like())
    subspace = shared_subspace(vectors, ranks=(8,))
    centred = vectors - vectors.mean(dim=0)
    expected = (centred @ subspace.basis_HR).square().sum() / centred.square().sum()
    assert subspace.explained_R[7].item() == pytest.approx(expected.item())


def test_a_spectrum_of_known_eigenvalues():
    rotation = torch.linalg.qr(normal(4, 4, seed=3)).Q
    found = spectrum(rotation @ torch.diag(torch.tensor([8.0, 4, 2, 2], dtype=torch.float64)) @ rotation.T, 4)
    assert (found.lambda_max, found.lambda_min, found.trace) == pytest.approx((8, 2, 16))
    assert found.log10_kappa == pytest.approx(math.log10(4), abs=1e-7)
    assert found.effective_rank == pytest.approx(2**1.75)  # entropy of (1/2, 1/4, 1/8, 1/8) is 1.75 bits
    assert found.ridge_effect == pytest.approx(0, abs=1e-7)


def test_a_singular_and_a_zero_matrix_say_so():
    singular = spectrum(torch.diag(torch.tensor([1.0, 1, 0], dtype=torch.float64)), 3)
    assert singular.ridge_effect == pytest.approx(1, abs=1e-3)
    zero = spectrum(torch.zeros(3, 3, dtype=torch.float64), 3)
    assert (zero.log10_kappa, zero.effective_rank, zero.trace) == (None, None, 0)


# Jackknife and the intervals


def test_jackknife_of_a_mean_is_the_mean_and_its_standard_error():
    values = np.array([1.0, 4, 2, 7, 5])
    found = delete_group(values.mean(), [np.delete(values, i).mean() for i in range(5)])
    assert found.value == pytest.approx(values.mean())
    half = 4.604094871 * values.std(ddof=1) / 5**0.5  # Student's t, 4 degrees of freedom, 0.995
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_jackknife_takes_out_the_bias_of_a_square():
    rng = np.random.default_rng(0)
    plain, corrected = [], []
    for values in rng.normal(1, 1, size=(2000, 8)):
        without = [np.delete(values, i).mean() ** 2 for i in range(8)]
        plain.append(values.mean() ** 2)
        corrected.append(delete_group(values.mean() ** 2, without).value)
    assert np.mean(plain) - 1 == pytest.approx(1 / 8, abs=0.03)
    assert np.mean(corrected) - 1 == pytest.approx(0, abs=0.03)


def test_difference_is_paired_and_needs_enough_pools():
    pools = encoder_like(num_pools=12)
    basis = shared_subspace(pooled(pools), ranks=(8,)).basis_HR
    first, second = (measure(pools, POINTS[name], basis) for name in ("qnorm", "dnorm"))
    found = compare(first, second, "embedding", 8)
    assert found.difference.value == pytest.approx(found.first.value - found.second.value)
    assert found.difference.low < found.difference.value < found.difference.high
    same = compare(first, first, "embedding", 8)
    assert (same.difference.low, same.difference.high) == pytest.approx((0, 0), abs=1e-12)
    few = compare(*(measure(pools[:7], POINTS[name], basis) for name in ("qnorm", "dnorm")), "embedding", 8)
    assert (few.difference.low, few.difference.high) == (None, None)
    assert few.difference.value is not None


def test_saturated_queries_leave_no_interval_and_a_zero_no_value():
    pools = encoder_like(num_pools=8)
    basis = shared_subspace(pooled(pools), ranks=(8,)).basis_HR

    def at(scale):
        return measure(pools, Point(gamma_q=1.0, gamma_d=0.0, scale=scale), basis)

    calm, saturated = at(3.0), at(500.0)
    assert calm.saturated_share < 0.5
    assert saturated.saturated_share > 0.85
    assert compare(calm, saturated, "embedding", 8).difference.low is None
    silent = compare(calm, at(1e7), "embedding", 8)
    assert (silent.second, silent.difference) == (None, None)
    assert silent.first.value == compare(calm, calm, "embedding", 8).first.value


@pytest.mark.slow
def test_intervals_cover_the_difference_that_many_pools_have():
    """16 pools at a time out of 300, whose mean is the truth. A percentile bootstrap misses it, biased as it is."""
    everything = encoder_like(num_pools=300, seed=5)
    basis = shared_subspace(pooled(everything), ranks=(32,)).basis_HR
    fishers = [measure(everything, POINTS[name], basis).fisher_PRR["embedding"] for name in ("qnorm", "dnorm")]
    truth = [log10_kappa(f.mean(dim=0), 32).item() for f in fishers]
    rng = np.random.default_rng(0)
    jackknife, percentile = [], []
    for _ in range(200):
        rows = rng.integers(0, 300, 16)
        groups = [f[rows] for f in fishers]
        whole, without = 0.0, np.zeros(16)
        for sign, group in zip((1, -1), groups, strict=True):
            total = group.sum(dim=0)
            whole += sign * log10_kappa(total, 32).item()
            without += sign * log10_kappa(total - group, 32).numpy()
        found = delete_group(whole, without)
        jackknife.append(found.low <= truth[0] - truth[1] <= found.high)
        draws = [log10_kappa(groups[0][rng.integers(0, 16, 16)].sum(dim=0), 32).item() for _ in range(100)]
        low, high = np.quantile(draws, [0.025, 0.975])
        percentile.append(low <= truth[0] <= high)
    assert np.mean(jackknife) > 0.9
    assert np.mean(percentile) < 0.9
