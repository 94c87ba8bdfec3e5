"""The small sweeps that many tests read: one of one seed, one of three."""

import itertools

from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders.folder import SweepFolder
from tests.results.builders.scores import (
    BEIR,
    FINETUNE,
    FORUMS,
    RANDOM,
    SEEDED,
    UNTRAINED,
    VALIDATED,
    noisy_queries,
    seeded_queries,
    softmax_of,
    untrained_noisy,
)
from tests.results.builders.specs import evaluation, probe, trained, untrained


def costs_of(seed, layers):
    """The columns of a trial that say what its training took."""
    return {
        "train_wall_s": 20.0 * layers + seed % 7,
        "steps_done": 15,
        "pairs_per_s": 64.0,
        "tokens_per_s": 4096.0,
        "peak_memory_bytes": 2**28 * layers + seed,
    }


def seeded_sweep(store):
    """Three seeds of two families, two groups out of domain that share a data set, one data set of two parts."""
    folder = SweepFolder(
        store=store,
        evaluations=(
            evaluation("attack", "in_domain"),
            *(evaluation(name, "beir", *(["multi_hop"] if name == "hotpotqa" else [])) for name in BEIR),
            *(evaluation(name, "beir", part_of="cqadupstack") for name in FORUMS),
            evaluation("musique", "multi_hop"),
        ),
        primary_groups=("beir", "multi_hop"),
    )
    for family, regimes in (("minilm", ("finetune", "random")), ("bert", ("finetune",))):
        for (regime, similarity), seed in itertools.product(SEEDED, (0, 42, 1337)):
            if regime not in regimes or (family == "bert" and similarity in ("dot", "learnable")):
                continue
            spec = trained(similarity, seed=seed, family=family, layers=None, init_regime=regime)
            took = costs_of(seed, layers=spec.encoder.layers or 12)
            folder.add_trial(spec, seeded_queries(seed, spec), validation_score=VALIDATED[similarity], **took)
        spec = untrained(family=family, layers=None)
        folder.add_trial(spec, seeded_queries(0, spec))
    for seed in (0, 42, 1337):
        spec = untrained(layers=None, init_regime="random", seed=seed)
        folder.add_trial(spec, seeded_queries(seed, spec))
    return folder


def small_sweep(store):
    """Three regimes, one seed: fine-tuned and random with all sides, from_base with cosine and qnorm only."""
    retrieval = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    pairs = evaluation("stsb", "sts", main_measure=SPEARMAN)
    folder = SweepFolder(store=store, evaluations=(*retrieval, pairs, questions))
    for similarity, scores in FINETUNE.items():
        gammas = {"gamma_q": 0.5, "gamma_d": 0.5} if similarity == "learnable" else {}
        folder.add_trial(trained(similarity), noisy_queries(scores), **softmax_of(similarity), **gammas)
    for similarity, scores in RANDOM.items():
        folder.add_trial(trained(similarity, init_regime="random"), noisy_queries(scores), **softmax_of(similarity))
    base = {"family": "smollm2", "layers": 2, "init_regime": "from_base"}
    folder.add_trial(trained("cosine", **base), noisy_queries((0.3, 0.2)), **softmax_of("cosine"))
    folder.add_trial(trained("qnorm", **base), noisy_queries((0.31, 0.19)), **softmax_of("qnorm"))
    folder.add_trial(untrained(), untrained_noisy(UNTRAINED))
    folder.add_trial(untrained(init_regime="random", seed=0), untrained_noisy((0.15, 0.15)))
    folder.add_trial(untrained(**base), untrained_noisy((0.11, 0.16)))
    softmax = {"saturated_share": (0.547, 0.56), "perplexity": (1.6, 1.59), "logit_std": (14.2, 14.0)}
    folder.add_probe(probe(), {16: -0.2, 32: -0.12}, softmax=softmax)
    folder.add_probe(probe(init_regime="random", seed=0), {16: -0.3, 32: -0.1}, softmax=softmax)
    folder.add_probe(probe(**base), {16: 0.02, 32: 0.2}, softmax=softmax)
    add_magnitudes(folder)
    return folder


# d0 and d1 are relevant, d2 and d3 judged 0, d4 and d5 unjudged: d is 2 / sqrt(2) and 4 / sqrt(2) before `LONGER`.
GRADES = {("q0", "d0"): 1, ("q0", "d2"): 0, ("q1", "d1"): 1, ("q1", "d3"): 0}
NORMS_OF_DOCUMENTS = (5, 7, 3, 5, 1, 3)
LONGER = {"qnorm": 2, "dot": 1}  # that the relevant ones are under a similarity


def add_magnitudes(folder):
    """Norms, judgements and, of the trained gammas, history of every trial of a folder."""
    rankings = [planned for planned in folder.evaluations if planned.main_measure != SPEARMAN]
    for planned in rankings:
        folder.write_judgements(planned, GRADES)
    for trial in folder.trials:
        similarity = trial.title.split("/")[2]
        for planned in rankings:
            first, second, *rest = NORMS_OF_DOCUMENTS
            more = LONGER.get(similarity, 0)
            folder.write_norms(trial.trial_id, planned, (first + more, second + more, *rest))
        if similarity == "learnable":
            folder.write_history(trial.trial_id, [(0.5, 0.5), (0.48, 0.53), (0.49, 0.52), (0.5, 0.51)])
