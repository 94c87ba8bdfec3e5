"""A small, valid sweep file to change in one place."""

import copy
from pathlib import Path

import pytest
import yaml

from search_spaces.load import parse_sweep

VALID = {
    "name": "small",
    "axes": {
        "task": "contrastive",
        "training_data": "attack",
        "family": "minilm",
        "similarity": ["cosine", "qnorm"],
        "init_regime": ["finetune", "random"],
        "seed": [0, 1],
        "scale": "fixed(20)",
    },
    "training": {"steps": 10, "global_batch": 8, "learning_rate": 1e-4},
    "evaluation": {"groups": {"in_domain": "attack", "out_of_domain": "pydoc_small"}},
}


@pytest.fixture
def raw():
    """The file as plain values."""
    return copy.deepcopy(VALID)


@pytest.fixture
def parse(tmp_path: Path):
    """Parse plain values, or a text, as the file 'sweep.yaml'."""

    def parse(content):
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        return parse_sweep(text, where="sweep.yaml", folder=tmp_path)

    return parse
