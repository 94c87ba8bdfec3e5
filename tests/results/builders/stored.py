"""The rows that a training and a probe leave, for the row contract."""

from search_spaces.identity import probe_id, trial_id
from search_spaces.specs import (
    to_json,
)


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
