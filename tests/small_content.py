"""The smallest sweep of real weights, as files of tests have it: one layer of MiniLM, on one data set."""

from collections.abc import Mapping
from typing import Any


def small_content(name: str, data_set: str, *, steps: int) -> dict[str, Any]:
    """Two similarities, one seed, a probe, and a checkpoint every second step."""
    return {
        "name": name,
        "axes": {
            "task": "contrastive",
            "training_data": data_set,
            "family": {"name": "minilm", "layers": 1, "max_query_length": 16, "max_document_length": 16},
            "similarity": ["cosine", "qnorm"],
            "init_regime": "finetune",
            "seed": 0,
            "scale": "fixed(20)",
        },
        "training": {"steps": steps, "global_batch": 8, "learning_rate": 1e-4},
        "evaluation": {"groups": {"in_domain": data_set}},
        "probe": {"num_queries": 32, "candidates_per_query": 8},
        "checkpoints": {"every_steps": 2},
    }


def extended(content: Mapping[str, Any], blocks: Mapping[str, Any]) -> dict[str, Any]:
    """The content with blocks replaced; those that are mappings in both are extended."""
    changed = dict(content)
    for key, value in blocks.items():
        merge = isinstance(changed.get(key), dict) and isinstance(value, dict)
        changed[key] = {**changed[key], **value} if merge else value
    return changed
