"""A trial's cell as the row contract has it: the columns `CELL_COLUMNS` of a spec."""

from typing import Any

from search_spaces.specs import TrialSpec


def cell_of(spec: TrialSpec) -> dict[str, Any]:
    """The cell; an untrained checkpoint has no training data, similarity or scale."""
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
