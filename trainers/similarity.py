"""The similarity of a query and a document: the only place where one is computed.

s(q, d) = q.d / (|q|^gamma_q * |d|^gamma_d) (arXiv 2602.09229). The loss, the search and the Fisher probe all go
through `query_vectors` and `search_vectors`, so that training scores are search scores.

Shapes: Q queries, D documents, N any number of vectors, H embedding size.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from search_spaces.specs import SimilaritySpec

# Below this norm a vector counts as zero and is left as it is: dividing it by a clamped norm would give a score of
# 0 too, but a gradient of 1/clamp that drowns every other one under gradient clipping.
SMALLEST_NORM = 1e-12


class Gammas(nn.Module):
    """The two exponents of a similarity: fixed, or trained as gamma = sigmoid(g) from their starting values.

    Trained ones want their own learning rate and no weight decay (decay pulls gamma towards 0.5).
    """

    logits: Tensor  # [2], g of query and document, where trained
    fixed: Tensor  # [2], where not

    def __init__(self, gamma_q: float, gamma_d: float, *, trained: bool) -> None:
        """Raise ValueError for exponents outside [0, 1], or trained ones at a bound, which no finite g reaches."""
        super().__init__()
        for name, gamma in (("gamma_q", gamma_q), ("gamma_d", gamma_d)):
            if not 0 <= gamma <= 1 or (trained and gamma in (0, 1)):
                allowed = "between 0 and 1, both excluded where it is trained"
                raise ValueError(f"{name} is {gamma}; it must be {allowed}")
        self.trained = trained
        if trained:
            self.logits = nn.Parameter(torch.tensor([math.log(g / (1 - g)) for g in (gamma_q, gamma_d)]))
        else:
            self.register_buffer("fixed", torch.tensor([gamma_q, gamma_d]))

    @classmethod
    def from_spec(cls, spec: SimilaritySpec) -> "Gammas":
        """The exponents where training starts."""
        return cls(spec.gamma_q, spec.gamma_d, trained=spec.trained)

    def values(self) -> tuple[Tensor, Tensor]:
        """(gamma_q, gamma_d) as float32 scalars, with gradient where trained."""
        gammas = self.logits.float().sigmoid() if self.trained else self.fixed.float()
        return gammas[0], gammas[1]

    def spec(self, start: SimilaritySpec) -> SimilaritySpec:
        """`start` with the exponents as they are now: what a checkpoint stores."""
        gamma_q, gamma_d = (gamma.item() for gamma in self.values())
        return replace(start, gamma_q=gamma_q, gamma_d=gamma_d)


def query_vectors(query_QH: Tensor, gamma_q: Tensor | float) -> Tensor:
    """Each q / |q|^gamma_q, float32 [Q, H]. gamma 0 leaves every bit as it is; a zero vector stays zero."""
    return _divided_by_norm(query_QH, gamma_q)


def search_vectors(document_DH: Tensor, gamma_d: Tensor | float) -> Tensor:
    """Each d / |d|^gamma_d, float32 [D, H]: what the index holds. Ranking depends on gamma_d alone."""
    return _divided_by_norm(document_DH, gamma_d)


def scores(query_QH: Tensor, document_DH: Tensor, gamma_q: Tensor | float, gamma_d: Tensor | float) -> Tensor:
    """Similarity of every query with every document, float32 [Q, D] whatever the autocast.

    A zero vector scores 0 and has a finite gradient. Logits are these times the scale.
    """
    # fp16 and bf16 products overflow or tie (FlagEmbedding#1370).
    with torch.autocast(query_QH.device.type, enabled=False):
        return query_vectors(query_QH, gamma_q) @ search_vectors(document_DH, gamma_d).T


def pair_scores(query_NH: Tensor, document_NH: Tensor, gamma_q: Tensor | float, gamma_d: Tensor | float) -> Tensor:
    """Similarity of each query with the document in its row, float32 [N] whatever the autocast; as `scores` else."""
    with torch.autocast(query_NH.device.type, enabled=False):
        return (query_vectors(query_NH, gamma_q) * search_vectors(document_NH, gamma_d)).sum(dim=-1)


def _divided_by_norm(vectors_NH: Tensor, gamma: Tensor | float) -> Tensor:
    with torch.autocast(vectors_NH.device.type, enabled=False):
        vectors_NH = vectors_NH.float()
        exponent = torch.as_tensor(gamma, dtype=torch.float32, device=vectors_NH.device)
        norm_N1 = torch.linalg.vector_norm(vectors_NH, dim=-1, keepdim=True)
        norm_N1 = torch.where(norm_N1 > SMALLEST_NORM, norm_N1, 1.0)
        return vectors_NH / norm_N1.pow(exponent)
