"""Made-up scores of queries, pairs and answers, by data set and similarity."""

import random

from search_spaces.catalogue.similarities import SIMILARITIES

# The folder of the golden files. Scores by (similarity) on attack, pydoc_small; query values are score -/+ 0.1.
FINETUNE = {
    "cosine": (0.50, 0.30),
    "dot": (0.52, 0.33),
    "qnorm": (0.55, 0.36),
    "dnorm": (0.54, 0.32),
    "learnable": (0.53, 0.36),
}
RANDOM = {"cosine": (0.20, 0.12), "dot": (0.15, 0.11), "qnorm": (0.12, 0.10), "dnorm": (0.18, 0.15)}
UNTRAINED = (0.40, 0.25)
# By similarity, at the start and at the end: share of saturated queries, perplexity, deviation of logits.
SOFTMAX = {
    "cosine": ((0.08, 0.25), (6.1, 2.4), (2.9, 3.6)),
    "dot": ((0.91, 0.875), (1.04, 1.06), (70.0, 61.5)),
    "qnorm": ((0.55, 0.6), (1.6, 1.5), (14.2, 15.0)),
    "dnorm": ((0.56, 0.594), (1.59, 1.5), (14.0, 14.8)),
    "learnable": ((0.54, 0.469), (1.62, 1.7), (14.1, 12.2)),
}
# Scores of five pairs in both orders: rho is 1 in order, 0.9 with two neighbours swapped, 0.6 with three turned round.
PAIRS = {
    "cosine": ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
    "dot": ([2, 1, 3, 4, 5], [2, 1, 3, 4, 5]),
    "qnorm": ([3, 2, 1, 4, 5], [2, 1, 3, 4, 5]),
    "dnorm": ([2, 1, 3, 4, 5], [3, 2, 1, 4, 5]),
    "learnable": ([1, 2, 3, 5, 4], [1, 2, 3, 4, 5]),
    "half": ([1, 2, 3, 5, 4], [1, 2, 3, 5, 4]),
}
# F1 of three questions under each similarity, and of an untrained checkpoint.
ANSWERS = {
    "cosine": (1, 0.5, 0),
    "dot": (1, 0, 0),
    "qnorm": (1, 1, 0.25),
    "dnorm": (0.5, 0.5, 0),
    "learnable": (1, 1, 0.25),
    "half": (1, 1, 0),
}
UNTRAINED_ANSWERS = (0.5, 0.25, 0)


def softmax_of(similarity):
    """The columns of a trial."""
    shares, perplexities, deviations = SOFTMAX[similarity]
    named = {"saturated_share": shares, "perplexity": perplexities, "logit_std": deviations}
    return {
        f"{when}_{name}": pair[place] for name, pair in named.items() for place, when in enumerate(("start", "end"))
    }


def two_queries(scores):
    """Two queries around each data set's score; documents' norms lower an untrained checkpoint by 0.05."""

    def score(data_set, scored_with):
        if data_set == "stsb":
            return PAIRS[scored_with]
        if data_set == "questions":
            return ANSWERS[scored_with]
        value = scores[0] if data_set == "attack" else scores[1]
        return [value - 0.1, value + 0.1]

    return score


def noisy_queries(scores, less=0.0, seed=0):
    """Twelve queries around each data set's score, some easier than others, each similarity with noise of its own.

    Their mean is the score. `less` is taken from what a data set's documents' norms rank.
    """

    def score(data_set, scored_with):
        if data_set == "stsb":
            return PAIRS[scored_with]
        if data_set == "questions":
            return ANSWERS[scored_with]
        draw = random.Random(f"{data_set} {scored_with} {seed}")
        noise = [draw.randint(-8, 8) / 400 for _ in range(6)]
        value = scores[0] if data_set == "attack" else scores[1]
        value -= less if SIMILARITIES[scored_with].gamma_d == 0 else 0.0
        easier = [place / 64 for place in (-3, -2, -1, 1, 2, 3)]
        return [value + e + n for e, n in zip(easier, noise, strict=True)] + [
            value - e - n for e, n in zip(easier, noise, strict=True)
        ]

    return score


def untrained_queries(scores):
    def score(data_set, scored_with):
        if data_set == "stsb":
            return PAIRS["dot"]
        if data_set == "questions":
            return UNTRAINED_ANSWERS
        less = 0.05 if SIMILARITIES[scored_with].gamma_d == 0 else 0.0
        return [value - less for value in two_queries(scores)(data_set, scored_with)]

    return score


def untrained_noisy(scores):
    def score(data_set, scored_with):
        if data_set in ("stsb", "questions"):
            return untrained_queries(scores)(data_set, scored_with)
        return noisy_queries(scores, less=0.05)(data_set, scored_with)

    return score


# What trainings of `seeded_sweep` score more than cosine's, by init regime and similarity, in and out of domain.
SEEDED = {
    ("finetune", "cosine"): (0.0, 0.0),
    ("finetune", "dot"): (0.002, 0.03),
    ("finetune", "qnorm"): (0.01, 0.06),
    ("finetune", "dnorm"): (0.012, 0.04),
    ("finetune", "learnable"): (0.012, 0.058),
    ("random", "cosine"): (-0.1, -0.1),
    ("random", "qnorm"): (-0.16, -0.18),
    ("random", "dnorm"): (-0.12, -0.14),
}
VALIDATED = {"cosine": 0.30, "dot": 0.32, "qnorm": 0.36, "dnorm": 0.35, "learnable": 0.36}
BEIR = ("nq", "fiqa", "hotpotqa")
FORUMS = ("cqadupstack/android", "cqadupstack/unix")


def seeded_queries(seed, spec):
    """Queries that some find harder than others, data sets that gain unlike, and what a seed brings."""

    def score(data_set, scored_with):
        in_domain, outside = SEEDED[spec.encoder.init_regime, spec.similarity.name] if spec.similarity else (-0.05,) * 2
        size = 10 + len(data_set)
        ease = random.Random(data_set)
        of_seed = random.Random(f"{spec.encoder.family} {spec.encoder.init_regime} {scored_with} {seed}").gauss(
            0, 0.004
        )
        of_data = random.Random(f"{data_set} {scored_with}").gauss(1, 0.3)
        noise = random.Random(f"{data_set} {spec.title}")
        gain = in_domain if data_set == "attack" else outside * of_data
        return [min(max(ease.gauss(0.45, 0.08) + gain + of_seed + noise.gauss(0, 0.02), 0.0), 1.0) for _ in range(size)]

    return score
