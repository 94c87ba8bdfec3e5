import math

import pytest
import torch
import torch.nn.functional as F

from trainers.training.losses import info_nce

NUM_QUERIES, NUM_DOCUMENTS, SIZE = 5, 8, 6


def embeddings(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    query = (torch.randn(NUM_QUERIES, SIZE, generator=generator) * 3).to(dtype).requires_grad_()
    document = (torch.randn(NUM_DOCUMENTS, SIZE, generator=generator) * 2).to(dtype).requires_grad_()
    return query, document


def mask(*cells):
    masked = torch.zeros(NUM_QUERIES, NUM_DOCUMENTS, dtype=torch.bool)
    for cell in cells:
        masked[cell] = True
    return masked


def oracle(query, document, masked, gamma_q, gamma_d, scale):
    """-log softmax by hand, pair by pair, in float64."""
    queries, documents = query.detach().double().tolist(), document.detach().double().tolist()
    losses = []
    for i, q in enumerate(queries):
        logits = {}
        for j, d in enumerate(documents):
            if not masked[i, j]:
                norms = math.hypot(*q) ** gamma_q * math.hypot(*d) ** gamma_d
                logits[j] = scale * sum(a * b for a, b in zip(q, d, strict=True)) / norms
        largest = max(logits.values())
        losses.append(largest + math.log(sum(math.exp(x - largest) for x in logits.values())) - logits[i])
    return sum(losses) / len(losses)


@pytest.mark.parametrize(("gamma_q", "gamma_d"), [(1, 1), (0, 0), (1, 0), (0, 1), (0.3, 0.7)])
def test_the_loss_is_that_of_the_formula(gamma_q, gamma_d):
    query, document = embeddings()
    masked = mask((0, 1), (0, 7), (3, 0))
    loss = info_nce(query, document, masked_QD=masked, gammas=(gamma_q, gamma_d), factor=2.0).loss
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(oracle(query, document, masked, gamma_q, gamma_d, 2.0), rel=1e-5)


def test_without_masks_it_is_cross_entropy_of_scaled_cosines():
    query, document = embeddings()
    loss = info_nce(query, document, masked_QD=mask(), gammas=(1.0, 1.0), factor=20.0).loss
    cosines = F.cosine_similarity(query[:, None], document[None], dim=-1)
    assert loss.item() == pytest.approx(F.cross_entropy(cosines * 20, torch.arange(NUM_QUERIES)).item(), rel=1e-5)


def test_a_masked_document_does_not_matter_to_its_query():
    query, document = embeddings()
    masked = mask(*((row, 7) for row in range(NUM_QUERIES)))
    info_nce(query, document, masked_QD=masked, gammas=(0.0, 0.0), factor=1.0).loss.backward()
    assert document.grad[7].abs().max() == 0
    assert document.grad[6].abs().max() > 0
    assert torch.isfinite(query.grad).all()


def test_a_query_without_any_negative_left_has_loss_zero():
    query, document = embeddings()
    all_others = mask(
        *((row, column) for row in range(NUM_QUERIES) for column in range(NUM_DOCUMENTS) if row != column)
    )
    loss = info_nce(query, document, masked_QD=all_others, gammas=(1.0, 0.0), factor=20.0).loss
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(query.grad).all()


def test_logits_stay_float32_under_autocast():
    """fp16 would overflow here: the products reach 1e6."""
    query, document = embeddings(torch.bfloat16)
    query, document = (query * 300).detach(), (document * 300).detach()
    plain = info_nce(query, document, masked_QD=mask(), gammas=(0.0, 0.0), factor=20.0).loss
    with torch.autocast("cpu", dtype=torch.float16):
        inside = info_nce(query, document, masked_QD=mask(), gammas=(0.0, 0.0), factor=20.0).loss
    assert inside.dtype == torch.float32
    assert torch.equal(plain, inside)
    assert torch.isfinite(plain)


def test_trained_exponents_get_the_gradient_of_the_formula():
    query, document = embeddings()
    gammas = tuple(torch.tensor(value, requires_grad=True) for value in (0.4, 0.6))
    info_nce(query, document, masked_QD=mask(), gammas=gammas, factor=1.0).loss.backward()
    step = 1e-5
    ups = [oracle(query, document, mask(), 0.4 + step, 0.6, 1.0), oracle(query, document, mask(), 0.4, 0.6 + step, 1.0)]
    downs = [
        oracle(query, document, mask(), 0.4 - step, 0.6, 1.0),
        oracle(query, document, mask(), 0.4, 0.6 - step, 1.0),
    ]
    for gamma, up, down in zip(gammas, ups, downs, strict=True):
        assert gamma.grad.item() == pytest.approx((up - down) / (2 * step), rel=1e-3)


def test_both_directions_hold_each_positive_against_the_other_queries_too():
    query, document = embeddings()
    masked = mask((0, 1), (3, 0), (2, 6))
    loss = info_nce(query, document, masked_QD=masked, gammas=(0.3, 0.7), factor=2.0, directions="both").loss.item()
    forward = oracle(query, document, masked, 0.3, 0.7, 2.0)
    # Of each positive over the queries: sides and exponents change places, and hard negatives are no positives.
    backward = oracle(document[:NUM_QUERIES], query, masked[:, :NUM_QUERIES].T, 0.7, 0.3, 2.0)
    assert loss == pytest.approx((forward + backward) / 2, rel=1e-5)
