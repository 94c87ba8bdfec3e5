import math

import numpy as np
import pytest
import torch

from trainers.training.diagnostics import norm_numbers, norm_statistics, softmax_numbers, softmax_statistics


def test_norms_against_numpy():
    generator = torch.Generator().manual_seed(0)
    query, document = torch.randn(9, 5, generator=generator) * 3, torch.randn(20, 5, generator=generator)
    found = norm_numbers(norm_statistics(query, document).tolist())
    for side, vectors in (("query", query), ("document", document)):
        norms = np.linalg.norm(vectors.numpy().astype(np.float64), axis=1)
        expected = [norms.mean(), norms.std(), *np.quantile(norms, [0.05, 0.5, 0.95])]
        names = ("mean", "std", "q05", "median", "q95")
        assert [getattr(found, f"{side}_norm_{name}") for name in names] == pytest.approx(expected, rel=1e-5)


def softmax_by_hand(logits, factor):
    """Query by query, in float64, over the candidates alone."""
    rows = []
    for i, row in enumerate(logits.double().tolist()):
        candidates = [x for x in row if x > -math.inf]
        weights = [math.exp(x - max(candidates)) for x in candidates]
        p = [weight / sum(weights) for weight in weights]
        negatives = [x for j, x in enumerate(row) if j != i and x > -math.inf]
        margin = (row[i] - max(negatives)) / factor if negatives else None
        perplexity = math.exp(-sum(x * math.log(x) for x in p if x > 0))
        rows.append((np.std(candidates), perplexity, max(p) > 0.99, margin, len(negatives)))
    deviation, perplexity, saturated, margins, negatives = zip(*rows, strict=True)
    known = [margin for margin in margins if margin is not None]
    return [np.mean(deviation), np.mean(perplexity), np.mean(saturated), np.mean(known), np.mean(negatives)]


@pytest.mark.parametrize("size", [1.0, 8.0])
def test_softmax_numbers_by_hand(size):
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(1)) * size
    logits[0, 3] = logits[2, 7] = logits[5, 0] = -torch.inf
    logits[4, torch.arange(9) != 4] = -torch.inf  # a query without any negative
    found = softmax_numbers(softmax_statistics(logits, 20.0).tolist())
    expected = softmax_by_hand(logits, 20.0)
    assert list(vars(found).values()) == pytest.approx(expected, rel=1e-4)


def test_a_sure_softmax_is_saturated_and_a_flat_one_is_not():
    sure = softmax_numbers(softmax_statistics(torch.eye(4) * 50, 1.0).tolist())
    flat = softmax_numbers(softmax_statistics(torch.zeros(4, 4), 1.0).tolist())
    assert (sure.saturated_share, flat.saturated_share) == (1, 0)
    assert (sure.perplexity, flat.perplexity) == pytest.approx((1, 4))
    assert (sure.score_margin, flat.score_margin, flat.logit_std) == (50, 0, 0)
