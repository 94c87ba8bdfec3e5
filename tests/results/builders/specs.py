"""Specs of trials, probes and evaluations, as a sweep file expands to."""

from dataclasses import replace

from results.layout import (
    PlannedEvaluation,
    Status,
)
from search_spaces.catalogue.data_sets import SPEARMAN, DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
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
    ValidationSpec,
    WeightsSpec,
)


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


def pilot(similarity, *, steps=5, **cell):
    spec = trained(similarity, **cell)
    assert spec.training is not None
    return replace(
        spec,
        kind="pilot",
        training=replace(spec.training, steps=steps, schedule="constant", warmup_steps=0),
        validation=ValidationSpec(data=data_spec(spec.training_data.name, "dev"), every_steps=steps),
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


def failed(reason):
    return Status(state="failed", started_at="2026-01-01T00:00:00+00:00", reason=reason)
