"""Write small but real sweep folders through the row contract."""

import itertools
import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from results.layout import (
    LeftOut,
    PlannedEvaluation,
    PlannedTrial,
    PoolRecord,
    Status,
    SweepRecord,
    answer_rows,
    evaluations_key,
    evaluations_to_bytes,
    history_rows,
    judgement_rows,
    norm_rows,
    per_query_rows,
    pool_record,
    probe_prefix,
    probe_rows,
    spec_key,
    status_key,
    sts_rows,
    to_bytes,
    trial_prefix,
    trial_rows,
)
from results.rows import write_rows
from results.schemas import HISTORY
from results.store import Store
from search_spaces.catalogue.data_sets import SPEARMAN, DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import answers_id, encoding_id, evaluation_id, probe_id, trial_id
from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    EvaluationSpec,
    PoolSettings,
    PoolSpec,
    ProbeSpec,
    RagSpec,
    ReaderSpec,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    WeightsSpec,
    to_json,
)

FIXED = [similarity.name for similarity in SIMILARITIES.values() if not similarity.trained]
Score = Callable[[str, str], Iterable[float]]  # (data set, score similarity) -> nDCG@10 of queries q0, q1, ...


def data_spec(name="attack", split="train", content_hash=None, num_pairs=100):
    entry = DataSet(name=name, source=f"path:{name}")
    return DataSpec(
        entry=entry, split=split, content_hash=content_hash or f"hash-of-{name}-{split}", num_pairs=num_pairs
    )


def encoder_spec(family="minilm", layers=3, init_regime="finetune", max_query_length=64):
    return EncoderSpec(
        family=family,
        init_regime=init_regime,
        weights=WeightsSpec(source=f"path:{family}", content_hash=f"weights-of-{family}"),
        layers=layers,
        pooling="mean",
        append_eos=False,
        query_prompt="",
        document_prompt="",
        max_query_length=max_query_length,
        max_document_length=64,
    )


def trained(
    similarity,
    *,
    seed=0,
    data="attack",
    scale=20.0,
    scale_mode="fixed",
    learning_rate=1e-4,
    weight_decay=0.01,
    **encoder,
):
    return TrialSpec(
        kind="train",
        task="contrastive",
        training_data=data_spec(data),
        encoder=encoder_spec(**encoder),
        similarity=similarity_spec(similarity),
        scale=ScaleSpec(mode=scale_mode, value=scale),
        seed=seed,
        training=TrainingSettings(steps=15, global_batch=32, learning_rate=learning_rate, weight_decay=weight_decay),
    )


def untrained(*, seed=None, **encoder):
    return TrialSpec(
        kind="untrained",
        task="contrastive",
        training_data=None,
        encoder=encoder_spec(**encoder),
        similarity=None,
        scale=None,
        seed=seed,
        training=None,
    )


def probe(*, seed=None, data="attack", scale=20.0, scale_mode="fixed", **encoder):
    return ProbeSpec(
        task="contrastive",
        encoder=encoder_spec(**encoder),
        seed=seed,
        training_data=data_spec(data),
        scale=ScaleSpec(mode=scale_mode, value=scale),
        num_queries=8,
        candidates_per_query=4,
    )


def similarity_spec(name):
    entry = SIMILARITIES[name]
    return SimilaritySpec(name=name, gamma_q=entry.gamma_q, gamma_d=entry.gamma_d, trained=entry.trained)


def evaluation_spec(planned, *, measures=None, score_similarities="own"):
    """What the planner leaves beside each trial for a planned evaluation."""
    if planned.main_measure == SPEARMAN:
        entry = DataSet(name=planned.data_set, source=f"path:{planned.data_set}", reader="sts", score_range=(0, 1))
    else:
        measures = measures or (planned.main_measure, "R@100")
        entry = DataSet(name=planned.data_set, source=f"path:{planned.data_set}", measures=measures)
    data = DataSpec(entry=entry, split=planned.split, content_hash=planned.data_hash, num_pairs=100)
    rag = rag_spec(planned) if planned.reader else None
    pool = PoolSpec(settings=PoolSettings()) if planned.tier == "pool" else None
    return EvaluationSpec(data=data, score_similarities=score_similarities, rag=rag, tier=planned.tier, pool=pool)


def rag_spec(planned):
    return RagSpec(
        reader=ReaderSpec(
            weights=WeightsSpec(source=f"path:{planned.reader}", content_hash=f"weights-of-{planned.reader}")
        ),
        num_passages=planned.num_passages,
        prompt="{passages} {question}",
        max_input_tokens=64,
        max_new_tokens=8,
    )


def evaluation(
    data_set,
    *groups,
    main_measure="nDCG@10",
    split="test",
    reader=None,
    num_passages=None,
    part_of=None,
    tier="full",
):
    return PlannedEvaluation(
        data_set=data_set,
        data_hash=f"hash-of-{data_set}-{split}",
        split=split,
        tier=tier,
        main_measure=main_measure,
        relevance_threshold=1,
        groups=groups,
        in_domain="in_domain" in groups,
        pool_id=f"pool-of-{data_set}" if tier == "pool" else None,
        reader=reader,
        num_passages=num_passages,
        part_of=part_of,
    )


@dataclass
class SweepFolder:
    """A sweep folder under construction. Its record lists what was added, in that order."""

    store: Store
    evaluations: tuple[PlannedEvaluation, ...]
    primary_groups: tuple[str, ...] = ("out_of_domain",)
    left_out: tuple[LeftOut, ...] = ()
    trials: list[PlannedTrial] = field(default_factory=list)
    probes: list[PlannedTrial] = field(default_factory=list)

    def record(self):
        return SweepRecord(
            name="small",
            trials=tuple(self.trials),
            probes=tuple(self.probes),
            evaluations=self.evaluations,
            left_out=self.left_out,
            primary_groups=self.primary_groups,
        )

    def plan_trial(self, spec, *, status=None, with_spec=True):
        """List a trial that has no checkpoint."""
        key = trial_id(spec)
        self.trials.append(PlannedTrial(trial_id=key, title=spec.title))
        if with_spec:
            self.store.write(spec_key(trial_prefix(key)), to_json(spec).encode())
        self.plan_evaluations(key)
        if status:
            self.store.write(status_key(trial_prefix(key)), to_bytes(status))
        return key

    def plan_evaluations(self, trial, **changes):
        """What the sweep asks for of the trial's checkpoint."""
        specs = [evaluation_spec(planned, **changes) for planned in self.evaluations]
        self.store.write(evaluations_key(trial), evaluations_to_bytes(specs))

    def add_trial(self, spec, score: Score, *, packages: Mapping[str, str] | None = None, **columns):
        """Write a trial with its evaluations; data sets for which `score` gives None are left out.

        `columns` are further ones of its own row.
        """
        times = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:06:00+00:00"}
        key = self.plan_trial(spec, status=Status(state="finished", **times))
        provenance = json.dumps({"packages": packages or {"torch": "2.13.0"}})
        write_rows(self.store, trial_rows(key), "trials", [trial_row(spec, provenance) | columns])
        for planned in self.evaluations:
            for scored_with in [spec.similarity.name] if spec.similarity else FIXED:
                values = score(planned.data_set, scored_with)
                if values is None:
                    continue
                if planned.main_measure == SPEARMAN:
                    self.write_pairs(key, planned, scored_with, list(values), provenance_json=provenance)
                elif planned.reader:
                    self.write_answers(key, planned, scored_with, list(values), provenance_json=provenance)
                    self.write_evaluation(key, planned, scored_with, [1.0], provenance_json=provenance)
                else:
                    self.write_evaluation(key, planned, scored_with, list(values), provenance_json=provenance)
        return key

    def write_pairs(self, trial, planned, scored_with, orders, *, provenance_json=None):
        """Scored pairs p0, p1, ...: `orders` are the scores of both orders; the ratings rise from 0 to 1."""
        checkpoint = f"checkpoint-{trial}"
        rows = [
            {
                "checkpoint_hash": checkpoint,
                "data_set": planned.data_set,
                "data_hash": planned.data_hash,
                "split": planned.split,
                "score_similarity": scored_with,
                "pair_id": f"p{index}",
                "order": order,
                "score": float(score),
                "gold": index / (len(scores) - 1),
            }
            for order, scores in zip(("forward", "swapped"), orders, strict=True)
            for index, score in enumerate(scores)
        ]
        key = sts_rows(evaluation_id(checkpoint, evaluation_spec(planned), similarity_spec(scored_with)))
        write_rows(self.store, key, "sts", rows, provenance_json=provenance_json)

    def write_answers(self, trial, planned, scored_with, values, *, provenance_json=None):
        """Answers to questions q0, q1, ... with these F1, each from two passages, the first question's cut."""
        checkpoint = f"checkpoint-{trial}"
        rows = [
            {
                "checkpoint_hash": checkpoint,
                "data_set": planned.data_set,
                "data_hash": planned.data_hash,
                "split": planned.split,
                "tier": planned.tier,
                "score_similarity": scored_with,
                "reader": planned.reader,
                "num_passages": planned.num_passages,
                "query_id": f"q{index}",
                "document_ids": ["d0", "d1"],
                "num_cut": int(index == 0),
                "prediction": "an answer",
                "exact_match": float(f1 == 1),
                "f1": float(f1),
            }
            for index, f1 in enumerate(values)
        ]
        key = answer_rows(answers_id(checkpoint, evaluation_spec(planned), similarity_spec(scored_with)))
        write_rows(self.store, key, "qa", rows, provenance_json=provenance_json)

    def write_evaluation(self, trial, planned, scored_with, values, *, provenance_json=None):
        checkpoint = f"checkpoint-{trial}"
        rows = [
            {
                "checkpoint_hash": checkpoint,
                "data_set": planned.data_set,
                "data_hash": planned.data_hash,
                "split": planned.split,
                "tier": planned.tier,
                "score_similarity": scored_with,
                "query_id": f"q{index}",
                "measure": measure,
                "value": float(value),
            }
            for index, value in enumerate(values)
            for measure, value in ((planned.main_measure, value), ("R@100", 0.5))
        ]
        key = per_query_rows(evaluation_id(checkpoint, evaluation_spec(planned), similarity_spec(scored_with)))
        write_rows(self.store, key, "per_query", rows, provenance_json=provenance_json)

    def write_norms(self, trial, planned, documents, *, queries=(1.0, 3.0)):
        """Norms of queries q0, q1, ... and of documents d0, d1, ..."""
        checkpoint = f"checkpoint-{trial}"
        data = {"data_set": planned.data_set, "data_hash": planned.data_hash, "split": planned.split}
        rows = [
            {"checkpoint_hash": checkpoint, **data, "side": side, "text_id": f"{side[0]}{index}", "norm": float(norm)}
            for side, norms in (("query", queries), ("document", documents))
            for index, norm in enumerate(norms)
        ]
        write_rows(self.store, norm_rows(encoding_id(checkpoint, evaluation_spec(planned))), "norms", rows)

    def write_judgements(self, planned, grades):
        """`grades` of (query, document)."""
        rows = [
            {"data_hash": planned.data_hash, "query_id": query, "document_id": document, "relevance": grade}
            for (query, document), grade in grades.items()
        ]
        write_rows(self.store, judgement_rows(evaluation_spec(planned).data), "judgements", rows)

    def write_history(self, trial, gammas):
        """Steps 1, 2, ... with these (gamma_q, gamma_d)."""
        numbers = {field.name: 1.0 for field in HISTORY if not field.nullable}
        rows = [
            numbers | {"trial_id": trial, "step": step, "gamma_q": gamma_q, "gamma_d": gamma_d}
            for step, (gamma_q, gamma_d) in enumerate(gammas, start=1)
        ]
        write_rows(self.store, history_rows(trial), "history", rows)

    def add_probe(self, spec, differences, *, half_width=0.05, qnorm=2.0, softmax=None, provenance_json=None):
        """Write a probe: `differences` of log10 kappa (qnorm - dnorm) by rank; None plans it only.

        `softmax` are statistics of both sides, by name.
        """
        key = probe_id(spec)
        self.probes.append(PlannedTrial(trial_id=key, title=spec.title))
        if differences is not None:
            rows = [row for rank, d in differences.items() for row in probe_rows_of(spec, rank, qnorm, d, half_width)]
            rows += softmax_rows_of(rows[0], softmax or {})
            write_rows(self.store, probe_rows(key), "probes", rows, provenance_json=provenance_json)
        return key

    def write_pool(self, planned, settings=None):
        """The record of a data set's pool."""
        record = PoolRecord(
            pool_id=planned.pool_id,
            data_set=planned.data_set,
            split=planned.split,
            num_corpus_documents=8_841_823,
            num_documents=54_321,
            counts={"judged": 9_000},
            settings=settings or PoolSettings(),
            encoders=("minilm-3l/finetune",),
            made_by="{}",
        )
        self.store.write(pool_record(planned.pool_id), to_bytes(record))

    def fail_probe(self, spec, reason):
        key = self.add_probe(spec, None)
        status = Status(state="failed", started_at="2026-01-01T00:00:00+00:00", reason=reason)
        self.store.write(status_key(probe_prefix(key)), to_bytes(status))


def failed(reason):
    return Status(state="failed", started_at="2026-01-01T00:00:00+00:00", reason=reason)


def trial_row(spec, provenance):
    data, similarity, scale = spec.training_data, spec.similarity, spec.scale
    return {
        "trial_id": trial_id(spec),
        "kind": spec.kind,
        "task": spec.task,
        "training_data": data.name if data else None,
        "training_data_hash": data.content_hash if data else None,
        "num_pairs": data.num_pairs if data else None,
        "family": spec.encoder.family,
        "layers": spec.encoder.layers,
        "init_regime": spec.encoder.init_regime,
        "similarity": similarity.name if similarity else None,
        "scale_mode": scale.mode if scale else None,
        "scale_value": scale.value if scale else None,
        "seed": spec.seed,
        "checkpoint_hash": f"checkpoint-{trial_id(spec)}",
        "steps": spec.training.steps if spec.training else None,
        "global_batch": spec.training.global_batch if spec.training else None,
        "learning_rate": spec.training.learning_rate if spec.training else None,
        "spec_json": to_json(spec),
        "provenance_json": provenance,
    }


def probe_rows_of(spec, rank, qnorm, difference, half_width):
    cell = {
        "probe_id": probe_id(spec),
        "family": spec.encoder.family,
        "layers": spec.encoder.layers,
        "init_regime": spec.encoder.init_regime,
        "seed": spec.seed,
        "task": spec.task,
        "training_data": spec.training_data.name,
        "training_data_hash": spec.training_data.content_hash,
        "num_pairs": spec.training_data.num_pairs,
        "scale_mode": spec.scale.mode,
        "scale_value": spec.scale.value,
        "block": "embedding",
        "statistic": "log10_kappa",
        "rank": rank,
    }
    low, high = difference - half_width, difference + half_width
    yield {**cell, "similarity": "qnorm", "value": qnorm}
    yield {**cell, "similarity": "dnorm", "value": qnorm - difference}
    yield {**cell, "similarity": "qnorm-dnorm", "value": difference, "low": low, "high": high, "level": 0.95}


def softmax_rows_of(row, softmax):
    cell = row | {"block": "softmax", "rank": None}
    for statistic, values in softmax.items():
        for similarity, value in zip(("qnorm", "dnorm"), values, strict=True):
            yield cell | {"similarity": similarity, "statistic": statistic, "value": value}


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
