"""docs/evaluation_data.md against the code: names, groups, commands and examples are those that there are."""

import json
import re
from pathlib import Path
from typing import get_args

import yaml

from search_spaces.catalogue.data_sets import DATA_SETS, PARTS, Reader, default_groups
from search_spaces.load import parse_sweep
from trainers.data_sets.beir import query

PAGE = (Path(__file__).parents[1] / "docs" / "evaluation_data.md").read_text()
BASE = {
    "name": "page",
    "axes": {
        "task": "contrastive",
        "training_data": "attack",
        "family": "minilm",
        "similarity": "cosine",
        "init_regime": "finetune",
        "seed": 0,
        "scale": "fixed(20)",
    },
    "training": {"steps": 2, "global_batch": 2, "learning_rate": 1e-4},
}


def test_the_table_of_groups_is_the_catalogues():
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]+) \|$", PAGE[: PAGE.index("```yaml")], flags=re.MULTILINE)
    found = {group: set(re.findall(r"`([^`]+)`", named)) for group, named in rows}
    wholes = {group: {DATA_SETS[n].part_of or n for n in names} for group, names in default_groups().items()}
    assert found == wholes


def test_the_examples_are_read(tmp_path):
    (tmp_path / "copies" / "scifact").mkdir(parents=True)
    (tmp_path / "copies" / "BRIGHT").mkdir()
    blocks = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL)]
    text = yaml.safe_dump({key: value for block in (BASE, *blocks) for key, value in block.items()})
    sweep = parse_sweep(text, where="page", folder=tmp_path)
    assert sweep.evaluation.groups["beir"] == default_groups()["beir"]
    assert sweep.evaluation.groups["mine"] == ("scifact", *PARTS["cqadupstack"])
    assert set(sweep.data_sources) == {"scifact", "bright_pony"}
    [line] = re.findall(r"^```json\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert query(json.loads(line)) == {
        "id": "q1", "text": "who sang Aria?", "excluded_ids": ["d7"], "answers": ["Ada"]
    }  # fmt: skip


def test_the_readers_of_benchmarks_and_the_commands_stand_there():
    from orchestrator.commands.data import data

    used = {entry.reader for entry in DATA_SETS.values() if entry.groups and not entry.is_scored}
    assert set(re.findall(r"^\| `(\w+)` \| ", PAGE[PAGE.index("| reader |") :], flags=re.MULTILINE)) == used
    assert used <= set(get_args(Reader))
    assert set(re.findall(r"^densesweep data (\w+)", PAGE, flags=re.MULTILINE)) == {
        command.name for command in data.registered_commands
    }
