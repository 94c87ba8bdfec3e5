"""The similarities: names with their normalisation exponents.

All are one family, s(q, d) = q.d / (|q|^gamma_q * |d|^gamma_d) (arXiv 2602.09229); the scoring function is in
`trainers/similarity.py`. Ranking depends on gamma_d alone.
"""

from dataclasses import dataclass

from search_spaces.catalogue.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Similarity:
    """A named pair of exponents; where `trained`, they are the starting point of two trained scalars."""

    name: str
    gamma_q: float
    gamma_d: float
    trained: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether s(a, b) = s(b, a) for all a, b; trained exponents may come apart."""
        return self.gamma_q == self.gamma_d and not self.trained


SIMILARITIES = Registry(
    "similarity",
    [
        Similarity(name="cosine", gamma_q=1.0, gamma_d=1.0),
        Similarity(name="dot", gamma_q=0.0, gamma_d=0.0),
        Similarity(name="qnorm", gamma_q=1.0, gamma_d=0.0),
        Similarity(name="dnorm", gamma_q=0.0, gamma_d=1.0),
        Similarity(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True),
        Similarity(name="half", gamma_q=0.5, gamma_d=0.5),
    ],
)
