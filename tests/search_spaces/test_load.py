"""Sweep files: what is accepted, and the one clear message for each thing that is not."""

from pathlib import Path

import pytest

from search_spaces.load import load_sweep
from search_spaces.problems import InputError
from search_spaces.specs import TrainingSettings

SHIPPED = sorted((Path(__file__).parents[2] / "search_spaces").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_files_are_valid(path):
    assert load_sweep(path).name


def _problems(parse, content):
    with pytest.raises(InputError) as caught:
        parse(content)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["axs"], {}, "axs: 'axs' is not a key of the sweep file (did you mean 'axes'?)"),
        (["training", "warmup"], 1,
         "training.warmup: 'warmup' is not a key of the sweep file (did you mean 'warmup_steps'?)"),
        (["axes", "similarity"], ["dot", "cosin"],
         "axes.similarity[1]: 'cosin' is not a similarity (did you mean 'cosine'?)"),
        (["axes", "family"], "minlm", "axes.family[0].name: 'minlm' is not a family (did you mean 'minilm'?)"),
        (["axes", "init_regime"], "scratch", "axes.init_regime[0]: 'scratch' is not an init regime (known: "),
        (["axes", "training_data"], "atack",
         "axes.training_data[0]: 'atack' is not a data set (did you mean 'attack'?)"),
        (["axes", "seed"], [1, 1], "axes.seed: 1 stands twice"),
        (["axes", "seed"], [], "axes.seed: an axis without values"),
        (["axes", "seed"], ["one"], "axes.seed[0]: 'one': input should be a valid integer"),
        (["axes", "seed"], [2**63], f"axes.seed[0]: {2**63}: input should be less than or equal to {2**63 - 1}"),
        (["training", "clip_norm"], float("inf"), "training.clip_norm: inf is not a finite number (write a large one"),
        (["training", "epsilon"], float("inf"), "training.epsilon: inf is not a finite number"),
        (["training", "lora_alpha"], float("inf"), "training.lora_alpha: inf is not a finite number"),
        (["training", "gamma_learning_rate"], float("inf"), "training.gamma_learning_rate: "),
        (["axes", "hyperparameters"], {"clip_norm": [float("inf")]}, "inf is not a finite number (write a large one"),
        (["resources"], {"gpus": float("inf")}, "resources.gpus: "),
        (["checkpoints"], {"every_s": float("inf")}, "checkpoints.every_s: "),
        (["axes", "scale"], "20",
         "axes.scale[0]: '20' is not a scale (write fixed(20), for logits of 20 times the score, or matched,"),
        (["axes", "scale"], "fixed(1.2.3)", "axes.scale[0]: 'fixed(1.2.3)' is not a scale"),
        (["axes", "scale"], f"fixed({10**400})", "axes.scale[0]: 'fixed(1000"),
        (["evaluation", "groups", "a@b"], "pydoc", "evaluation.groups.a@b.[key]: 'a@b': string should match pattern"),
        (["data_sets"], [{"name": "Zoo", "source": "python:stdlib"}], "data_sets[0].name: 'Zoo' is not a name"),
        (["axes", "scale"], "fixed(0)", "axes.scale[0]: 'fixed(0)' is not a scale"),
        (["axes", "task"], "rank", "axes.task[0]: 'rank': input should be 'contrastive' or 'sts'"),
        (["axes", "hyperparameters"], {"lr": 1}, "axes.hyperparameters: 'lr' is not a hyperparameter"),
        (["axes", "hyperparameters"], {"steps": [0]}, "axes.hyperparameters: steps: 0: input should be greater than 0"),
        (["training", "steps"], 0, "training.steps: 0: input should be greater than 0"),
        (["training", "learning_rate"], "fast", "training.learning_rate: 'fast': input should be a valid number"),
        (["training", "learning_rate"], float("nan"), "training.learning_rate: "),
        (["training", "learning_rate"], True, "training.learning_rate: True: input should be a valid number"),
        (["evaluation", "groups"], {}, "evaluation.groups: "),
        (["evaluation", "groups", "x"], "pydok",
         "evaluation.groups.x[0]: 'pydok' is not a data set (did you mean 'pydoc'?)"),
        (["evaluation", "primary_groups"], ["ood"],
         "'ood' is not a group of this file (known: in_domain, out_of_domain)"),
        (["resources"], {"cpus": 0}, "resources.cpus: 0: input should be greater than 0"),
        (["name"], "My Sweep", "name: 'My Sweep' is not a sweep name"),
        (["data_sets"], [{"name": "mine", "source": "path:nowhere"}],
         "data_sets[0].source: there is no file or folder "),
        (["data_sets"], [{"name": "attack", "source": "python:stdlib"}],
         "data_sets[0].name: 'attack' is taken already"),
        (["families"], [{"name": "x", "pooling": "max"}],
         "families[0].pooling: 'max': input should be 'mean', 'cls' or 'last'"),
    ],
)  # fmt: skip
def test_each_fault_has_one_message_with_file_and_key(parse, raw, keys, value, message):
    target = raw
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    matching = [problem for problem in _problems(parse, raw) if message in problem]
    assert len(matching) == 1
    assert matching[0].startswith("sweep.yaml: ")


def test_all_problems_of_a_file_come_together(parse, raw):
    raw["axes"]["similarity"] = ["cosin"]
    raw["axes"]["init_regime"] = ["randm"]
    raw["training"]["stepz"] = 3
    raw["data_sets"] = [{"name": "mine", "source": "path:nowhere"}]
    del raw["training"]["steps"]
    keys = {problem.split(": ")[1] for problem in _problems(parse, raw)}
    assert keys == {"axes.similarity[0]", "axes.init_regime[0]", "training.stepz", "data_sets[0].source"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "not valid YAML"),
        ("- a list", "a mapping of keys is expected"),
        ("", "a mapping of keys is expected"),
        ("name: a\nname: b", "line 2: key 'name' stands twice (first on line 1)"),
        ("? [a]\n: 1", "line 1: key ['a'] is not a text"),
        ("axes: {seed: 0, seed: 1}", "key 'seed' stands twice"),
    ],
)
def test_a_file_that_is_no_sweep_file(parse, text, message):
    assert message in _problems(parse, text)[0]


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.yaml: cannot be read \(No such file or directory\)"):
        load_sweep(tmp_path / "nowhere.yaml")
    (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
    with pytest.raises(InputError, match="not a UTF-8 text file"):
        load_sweep(tmp_path / "latin.yaml")


def test_numbers_are_read_as_yaml_1_2_reads_them(parse, raw):
    import yaml

    text = yaml.safe_dump(raw).replace("learning_rate: 0.0001", "learning_rate: 1e-4")
    assert "1e-4" in text
    assert parse(text).training.learning_rate == 1e-4


def test_relative_paths_start_from_the_files_folder(parse, raw, tmp_path):
    (tmp_path / "mine").mkdir()
    raw["data_sets"] = [{"name": "mine", "source": "path:mine"}]
    assert parse(raw).data_sets[0].source == f"path:{tmp_path / 'mine'}"


def test_training_defaults_live_in_the_dataclass_alone(parse, raw):
    sweep = parse(raw)
    assert set(type(sweep.training).model_fields) - {"log_kappa_every"} == set(TrainingSettings.__dataclass_fields__)
    assert sweep.training.gamma_learning_rate is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "'nowhere' is not a source (write hf:ORG/NAME@REVISION, path:FOLDER"),
        ("path:", "'path:' is not a source"),
        ("path:nowhere", "there is no file or folder"),
        ("path:. ", "(the path begins or ends with a space)"),
        (f"path:{'x' * 300}", "cannot be a path (File name too long)"),
        ("path:a\0b", "cannot be a path (embedded null byte)"),
        ("path:~nobody-of-this-name/x", "cannot be a path (Could not determine home directory.)"),
    ],
)
def test_a_wrong_source_is_one_problem(parse, raw, source, message):
    """And not a second one of the default of `measures`, which is made of other keys."""
    raw["data_sets"] = [{"name": "mine", "source": source}]
    with pytest.raises(InputError) as refused:
        parse(raw)
    [problem] = refused.value.problems
    assert problem.key == "data_sets[0].source"
    assert message in problem.message
