"""A trial's cell and settings as collected rows have them, from its spec."""

from dataclasses import asdict
from typing import Any

from results.selection import ENCODER_COLUMNS, TRAINING_COLUMNS
from search_spaces.specs import TrialSpec


def cell_of(spec: TrialSpec) -> dict[str, Any]:
    """The columns CELL_COLUMNS; an untrained checkpoint has no training data, similarity or scale."""
    data, similarity, scale = spec.training_data, spec.similarity, spec.scale
    return {
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
    }


def settings_of(spec: TrialSpec) -> dict[str, Any]:
    """The columns SETTING_COLUMNS; an untrained checkpoint has those of its encoder alone."""
    given = asdict(spec.training) if spec.training else {}
    encoder = {name: getattr(spec.encoder, name) for name in ENCODER_COLUMNS}
    return {**{name: given.get(name) for name in TRAINING_COLUMNS}, **encoder}
