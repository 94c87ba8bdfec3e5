"""The schema that editors get, held against the files that densesweep takes and refuses; jsonschema is the oracle."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from search_spaces.json_schema import json_schema
from search_spaces.problems import InputError

SHIPPED = sorted((Path(__file__).parents[2] / "search_spaces").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def plain(path):
    return yaml.safe_load(path.read_text().replace("e-", ".0e-"))  # YAML 1.1 reads 1e-4 as a text


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_files_are_valid_to_editors(path):
    assert [error.message for error in VALIDATOR.iter_errors(plain(path))] == []


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["title"] == "Sweep file"


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["axs"], {}),
        (["axes", "similarity"], "cosin"),
        (["axes", "similarity"], ["cosine", "cosin"]),
        (["axes", "seed"], []),
        (["axes", "seed"], "one"),
        (["axes", "scale"], "20"),
        (["axes", "family"], {"nam": "minilm"}),
        (["axes", "hyperparameters"], {"lr": 1}),
        (["axes", "hyperparameters"], {"steps": 0}),
        (["training", "steps"], 0),
        (["training", "warmup"], 1),
        (["tune"], {"spaces": {"learning_rate": {"normal": [0, 1]}}, "seed": 1, "num_samples": 1}),
        (["zip"], [["seed", "nothing"]]),
        (["resources"], {"memory": "4 apples"}),
        (["evaluation"], {}),
        (["evaluation", "rag"], {"num_passages": 3}),
    ],
)
def test_editors_and_densesweep_refuse_the_same(raw, parse, keys, value):
    target = raw
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    assert not VALIDATOR.is_valid(raw)
    with pytest.raises(InputError):
        parse(raw)


@pytest.mark.parametrize(
    "change",
    [
        {"axes": {"family": [{"name": "minilm", "layers": 2}, "smollm2"], "scale": ["matched", "fixed(2.5)"]}},
        {"axes": {"hyperparameters": {"learning_rate": 1e-3, "schedule": ["constant", "linear"]}}},
        {"evaluation": {"groups": ["beir", "sts"]}},
        {"evaluation": {"groups": "beir"}},
        {"evaluation": {"groups": {"beir": "all", "mine": "attack"}}},
        {"resources": {"gpus": "1/3", "memory": "512MiB", "accelerator_type": "A100"}},
        {"resources": {"gpus": 0.25, "memory": "3TiB"}, "evaluation": {"memory_budget": "1KiB"}},
        {"zip": [["seed", "init_regime"]]},
        {"include": [{"similarity": "dot"}]},
        {"tune": {"spaces": {"weight_decay": {"choice": [0.0]}}, "seed": 5, "sampler": "grid", "scheduler": "none"}},
    ],
    ids=json.dumps,
)
def test_editors_and_densesweep_take_the_same(raw, parse, change):
    for block, values in change.items():
        if isinstance(values, dict) and block in raw:
            raw[block] |= values
        else:
            raw[block] = values
    assert [error.message for error in VALIDATOR.iter_errors(raw)] == []
    assert parse(copy.deepcopy(raw))


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (0.33, "0.33 is no equal share of a GPU (write 1/3 or 1/4)"),
        (0.3, "0.3 is no equal share of a GPU (write 1/3 or 1/4)"),
        (0.75, "0.75 is no equal share of a GPU (write 1 or 1/2)"),
        (1.5, "1.5 GPUs are neither whole nor a share of one (write 1 or 2)"),
    ],
)
def test_shares_of_a_gpu_are_equal(raw, parse, gpus, message):
    raw["resources"] = {"gpus": gpus}
    with pytest.raises(InputError, match=r"equal share|neither whole") as caught:
        parse(raw)
    assert str(caught.value.problems[0]).endswith(message)


@pytest.mark.parametrize(
    ("written", "gpus"), [("1/3", 1 / 3), ("1/1", 1.0), (0.5, 0.5), (0.2, 0.2), (0.1, 0.1), (2, 2.0), (0, 0.0)]
)
def test_shares_of_a_gpu_are_read(raw, parse, written, gpus):
    raw["resources"] = {"gpus": written}
    assert parse(raw).resources.gpus == gpus


def test_a_kind_of_gpu_needs_gpus(raw, parse):
    raw["resources"] = {"accelerator_type": "A100"}
    with pytest.raises(InputError, match="'A100' is a kind of GPU, and gpus is 0"):
        parse(raw)
