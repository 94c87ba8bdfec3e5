"""The claims of the study (arXiv 2602.09229) as contrasts that are declared before any result is seen.

One entry of CLAIMS is one claim: its words, the contrast that stands for it, the sign or margin that would confirm it.
Nothing here looks at results: an entry names regimes, similarities and sides of the domain, `evaluate.py` computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from results.statistics.contrasts import MARGIN
from search_spaces.catalogue.registry import Registry

Side = Literal["in domain", "out of domain"]
"""'in domain' is the group `in_domain`; 'out of domain' the unweighted mean over the sweep's primary groups."""


@dataclass(frozen=True, kw_only=True)
class GainPart:
    """`weight` times the gain of the mean of `similarities` over `baseline` in an init regime, on one side."""

    regime: str
    similarities: tuple[str, ...]
    baseline: str
    side: Side
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class GainClaim:
    """The sum of its parts has the sign `expected`."""

    parts: tuple[GainPart, ...]
    expected: Literal[1, -1]

    @property
    def names(self) -> tuple[str, ...]:
        """The similarities that it is about."""
        return tuple(dict.fromkeys(name for part in self.parts for name in (*part.similarities, part.baseline)))


@dataclass(frozen=True, kw_only=True)
class NonInferiority:
    """In a regime and on a side, `similarity` is less than `margin` (0 to 1) worse than the best of `others`.

    The best is chosen by the validation score of the trials, never by what the claim is tested on.
    """

    regime: str
    similarity: str
    others: tuple[str, ...]
    side: Side
    margin: float = MARGIN

    @property
    def names(self) -> tuple[str, ...]:
        """The similarities that it is about."""
        return (self.similarity, *self.others)


@dataclass(frozen=True, kw_only=True)
class EffectClaim:
    """Cohen's d of document norms, relevant against irrelevant, has the sign `expected` on the mean data set."""

    regime: str
    similarity: str
    side: Side
    expected: Literal[1, -1]

    @property
    def names(self) -> tuple[str, ...]:
        """The similarity that it is about."""
        return (self.similarity,)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim: its name, hypothesis in words, where the study makes it, and what is tested."""

    name: str
    hypothesis: str
    source: str
    test: GainClaim | NonInferiority | EffectClaim


MAGNITUDE = ("qnorm", "dnorm")
MANUAL = ("cosine", "dot", "qnorm", "dnorm")


def _gain(regime: str, side: Side, weight: float = 1.0) -> GainPart:
    """Of the mean of both magnitude-aware similarities, not of the better one: that would be chosen by the result."""
    return GainPart(regime=regime, similarities=MAGNITUDE, baseline="cosine", side=side, weight=weight)


CLAIMS: Mapping[str, Claim] = Registry(
    "claim",
    [
        Claim(
            name="magnitude_helps",
            hypothesis="fine-tuned, the mean of qnorm and dnorm scores higher than cosine out of domain",
            source="arXiv 2602.09229, main results: BEIR and BRIGHT averages of Contriever and RetroMAE",
            test=GainClaim(parts=(_gain("finetune", "out of domain"),), expected=1),
        ),
        Claim(
            name="more_out_of_domain",
            hypothesis="fine-tuned, that gain is larger out of domain than in domain",
            source="arXiv 2602.09229, main results: BRIGHT +71.9 % against MS MARCO dev +1.6 % (Contriever, qnorm)",
            test=GainClaim(
                parts=(_gain("finetune", "out of domain"), _gain("finetune", "in domain", -1.0)), expected=1
            ),
        ),
        Claim(
            name="needs_pretraining",
            hypothesis="that gain is larger fine-tuned than from random weights",
            source="arXiv 2602.09229, random initialisation: Contriever's gains turn into losses",
            test=GainClaim(
                parts=(_gain("finetune", "out of domain"), _gain("random", "out of domain", -1.0)), expected=1
            ),
        ),
        Claim(
            name="hurts_from_random",
            hypothesis="from random weights, the mean of qnorm and dnorm scores lower than cosine out of domain",
            source="arXiv 2602.09229, random initialisation: BEIR 24.38 under cosine, 15.46 qnorm, 21.05 dnorm",
            test=GainClaim(parts=(_gain("random", "out of domain"),), expected=-1),
        ),
        Claim(
            name="relevant_longer_finetuned",
            hypothesis="fine-tuned with qnorm, relevant documents are longer than irrelevant ones (Cohen's d > 0)",
            source="arXiv 2602.09229, magnitude analysis: d > 0 fine-tuned",
            test=EffectClaim(regime="finetune", similarity="qnorm", side="out of domain", expected=1),
        ),
        Claim(
            name="relevant_shorter_from_random",
            hypothesis="from random weights with qnorm, relevant documents are shorter (Cohen's d < 0)",
            source="arXiv 2602.09229, magnitude analysis: d < 0 with random weights",
            test=EffectClaim(regime="random", similarity="qnorm", side="out of domain", expected=-1),
        ),
        Claim(
            name="learnable_keeps_up",
            hypothesis="fine-tuned, learnable is less than 0.5 points worse than the best manual similarity",
            source="arXiv 2602.09229, learnable normalisation: as good as the best similarity chosen by hand",
            test=NonInferiority(regime="finetune", similarity="learnable", others=MANUAL, side="out of domain"),
        ),
    ],
)
