"""The squared error of scored pairs, against float64 arithmetic and autograd."""

import pytest
import torch

from search_spaces.catalogue.similarities import SIMILARITIES
from trainers.similarity import Gammas, pair_scores, scores
from trainers.training.sts_loss import sts_loss

torch.manual_seed(0)
FIRST, SECOND = torch.randn(6, 5) * 3, torch.randn(6, 5) * 2
GOLD = torch.tensor([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def expected(first, second, gold, gamma_q, gamma_d, factor):
    first, second, gold = first.double(), second.double(), gold.double()
    size = first.norm(dim=1) ** gamma_q * second.norm(dim=1) ** gamma_d
    return ((factor * (first * second).sum(dim=1) / size - gold) ** 2).mean()


@pytest.mark.parametrize("similarity", SIMILARITIES.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("factor", [1.0, 0.04])
def test_loss_and_gradient_are_those_of_the_formula(similarity, factor):
    found, oracle = ([t.clone().requires_grad_() for t in (FIRST, SECOND)] for _ in range(2))
    gammas = (similarity.gamma_q, similarity.gamma_d)
    loss = sts_loss(*found, GOLD, gammas=gammas, factor=factor)
    wanted = expected(*oracle, GOLD, *gammas, factor)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-5, atol=1e-6)
    loss.backward()
    wanted.backward()
    for mine, other in zip(found, oracle, strict=True):
        torch.testing.assert_close(mine.grad, other.grad.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("similarity", SIMILARITIES.values(), ids=lambda s: s.name)
def test_pairs_score_as_they_do_in_the_matrix_and_only_symmetric_ones_alike_both_ways_round(similarity):
    gammas = (similarity.gamma_q, similarity.gamma_d)
    forward, swapped = pair_scores(FIRST, SECOND, *gammas), pair_scores(SECOND, FIRST, *gammas)
    torch.testing.assert_close(forward, scores(FIRST, SECOND, *gammas).diagonal(), rtol=1e-5, atol=1e-6)
    same = similarity.gamma_q == similarity.gamma_d
    assert torch.equal(forward, swapped) == same


def test_trained_exponents_have_a_gradient_and_zero_vectors_a_finite_one():
    gammas = Gammas(0.5, 0.5, trained=True)
    first = torch.cat([FIRST[:5], torch.zeros(1, 5)]).requires_grad_()
    sts_loss(first, SECOND, GOLD, gammas=gammas.values(), factor=1.0).backward()
    assert gammas.logits.grad.abs().min() > 0
    assert torch.isfinite(first.grad).all()


def test_half_precision_embeddings_are_scored_in_float32():
    with torch.autocast("cpu", torch.bfloat16):
        loss = sts_loss(FIRST.bfloat16(), SECOND.bfloat16(), GOLD, gammas=(0.0, 0.0), factor=1.0)
    wanted = expected(FIRST.bfloat16(), SECOND.bfloat16(), GOLD, 0.0, 0.0, 1.0)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-5, atol=0.0)


def test_unlike_numbers_of_texts_and_scores_are_refused():
    with pytest.raises(ValueError, match="6 first texts, 6 second texts, 5 scores"):
        sts_loss(FIRST, SECOND, GOLD[:5], gammas=(1.0, 1.0), factor=1.0)
