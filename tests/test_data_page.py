"""docs/data.md against the code: its examples are read as they stand, every key of an entry has its line."""

import json
import re
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from search_spaces.catalogue.data_sets import DATA_SETS, Counts, Cut, DataSet, ReferenceFigure, SplitCounts
from search_spaces.catalogue.data_sets.entry import Exclusion, Reader
from search_spaces.expand import expand
from search_spaces.load import parse_sweep
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.hub_files import is_hub, remedy
from trainers.data_sets.sts_files import patterns
from trainers.training.pairs import load_pairs
from trainers.training.sts_pairs import load_scored_pairs

PAGE = (Path(__file__).parents[1] / "docs" / "data.md").read_text()
FILES = dict(re.findall(r"^`([^`]+)`:\n\n```(?:json|tsv)\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL))
FRAGMENTS = re.findall(r"^```yaml\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL)
ON_THE_HUB = [entry for entry in DATA_SETS.values() if is_hub(entry) and entry.train_split]
PATTERNS = {"msmarco_v1": ["v1.1/*.parquet"], "msmarco_tevatron": ["*.jsonl.gz", "*.jsonl"]}
PASSAGES = {"is_selected": [0, 1, 0], "passage_text": ["Dogs bark.", "Cats purr.", "Cows moo."]}
EXPECTED = {  # by hand: pairs, and hard negatives, of the training split
    "notes": (2, 3),
    "tickets": (5, 3),
    "one-file": (2, 1),
    "passages": (2, 1),
    "marco_copy": (1, 2),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """All files of the page, and what a page cannot show: the parquet file of marco_copy."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "ms_marco" / "v1.1").mkdir(parents=True)
    rows = [{"query_id": 1, "query": "what purrs", "passages": PASSAGES}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "ms_marco" / "v1.1" / "train-00000-of-00001.parquet")
    return tmp_path


def sweep_of(folder, **axes):
    """The page's blocks in a sweep file that has nothing else but what every file needs."""
    blocks = [yaml.safe_load(fragment) for fragment in FRAGMENTS]
    base = {
        "name": "page",
        "axes": {
            "task": "contrastive",
            "family": "minilm",
            "similarity": "cosine",
            "init_regime": "finetune",
            "seed": 0,
            "scale": "fixed(20)",
            **axes,
        },
        "training": {"steps": 200, "global_batch": 2, "learning_rate": 1e-4},
        "evaluation": {"groups": {"in_domain": "notes"}},
    }
    text = yaml.safe_dump({key: value for block in (base, *blocks) for key, value in block.items()})
    return parse_sweep(text, where="page", folder=folder)


def test_every_example_of_pairs_is_read(folder):
    sweep = sweep_of(folder, training_data=list(EXPECTED))
    trials = expand(sweep, where="page").trials
    found = {}
    for data in [trial.training_data for trial in trials if trial.kind == "train"]:
        pairs = load_pairs(data, hard_negatives=1)
        found[data.name] = (len(pairs), len(pairs.negatives.values_V))
    assert found == EXPECTED
    assert {trial.validation.data.split for trial in trials if trial.validation} == {"dev"}


def test_every_other_entry_is_read_too(folder):
    entries = {entry.name: entry for entry in sweep_of(folder, training_data="notes").data_sets}
    assert set(entries) == {*EXPECTED, "scores", "other_stsb"}
    pairs = load_scored_pairs(DataSpec(entry=entries["scores"], split="train"))
    assert pairs.gold.tolist() == pytest.approx([4.2 / 5, 0.0])
    for name in EXPECTED:
        assert data_sets.report(entries[name]).left_out == {}, name


def test_no_block_of_the_page_is_passed_over():
    fences = re.findall(r"^```(\w*)$", PAGE, flags=re.MULTILINE)
    opened = fences[::2]
    assert opened.count("yaml") == len(FRAGMENTS)
    assert opened.count("json") + opened.count("tsv") == len(FILES)
    assert sorted(set(opened)) == ["", "json", "tsv", "yaml"]
    for name, text in FILES.items():
        assert not name.endswith(".jsonl") or all(isinstance(json.loads(line), dict) for line in text.splitlines())


def table_of_keys():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", PAGE[PAGE.index("| key | default |") :], flags=re.MULTILINE)
    return {key: (default, meaning) for key, default, meaning in rows}


def written(name, field):
    """A default as the page writes it."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if field.is_required():
        return "required"
    if name == "measures":
        return f"[{', '.join(default)}]"
    return default if isinstance(default, str) else json.dumps(default)


def test_every_key_of_an_entry_has_a_line_with_its_default():
    found = {key: default for key, (default, _) in table_of_keys().items()}
    assert found == {name: written(name, field) for name, field in DataSet.model_fields.items()}


@pytest.mark.parametrize(
    ("key", "block"), [("cut", Cut), ("counts", Counts), ("counts", SplitCounts), ("reference", ReferenceFigure)]
)
def test_keys_inside_a_key_stand_in_its_line(key, block):
    for name in block.model_fields:
        assert re.search(rf"\b{name}\b", table_of_keys()[key][1]), name


def test_every_reader_and_exclusion_stands_there():
    first_table = PAGE[: PAGE.index("## ")]
    assert all(f"`{reader}`" in first_table for reader in get_args(Reader))
    assert all(f"`{name}`" in str(table_of_keys()["exclusion"]) or name == "none" for name in get_args(Exclusion))


@pytest.mark.parametrize("entry", ON_THE_HUB, ids=lambda entry: entry.name)
def test_hub_sets_to_train_on_stand_there_with_the_command_that_fetches_them(entry):
    place = entry.source.removeprefix("hf:").partition("@")[0]
    assert f"| `{entry.name}` | {place}, `{entry.config}` |" in PAGE
    [command] = re.findall("`(hf download .*?)`", remedy(entry, PATTERNS.get(entry.name) or patterns(entry)))
    assert f"\n{command}\n" in PAGE
