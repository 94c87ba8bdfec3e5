"""The loss of the symmetric task. Suffixes: B pairs of the batch, H embedding size; all values are float32."""

import torch.nn.functional as F
from torch import Tensor

from trainers.similarity import pair_scores


def sts_loss(
    first_BH: Tensor,
    second_BH: Tensor,
    gold_B: Tensor,
    *,
    gammas: tuple[Tensor | float, Tensor | float],
    factor: float,
) -> Tensor:
    """Mean squared error between s(a, b) * factor and the raters' score (as arXiv 2602.09229 trains its STS models).

    Args:
        first_BH: raw embeddings of the pairs' first texts, which take the query's part.
        second_BH: raw embeddings of the second texts, which take the document's part.
        gold_B: the raters' scores, 0 to 1.
        gammas: (gamma_q, gamma_d), the exponents of the similarity, with gradient where trained.
        factor: what similarities are multiplied by to be held against the scores: 1 under `scale: fixed(1)`, and with
            `matched(1)` 1 over the divisor, so that predictions of every similarity start at the size of a cosine.

    Raises:
        ValueError: the three have not the same number of pairs.
    """
    if not len(first_BH) == len(second_BH) == len(gold_B):
        raise ValueError(f"{len(first_BH)} first texts, {len(second_BH)} second texts, {len(gold_B)} scores")
    return F.mse_loss(pair_scores(first_BH, second_BH, *gammas) * factor, gold_B.float())
