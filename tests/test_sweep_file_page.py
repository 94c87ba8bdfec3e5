"""docs/sweep_file.md against the schema: every key with its default, none invented; its example is a sweep file."""

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from search_spaces.expand import expand
from search_spaces.json_schema import REQUIRED, keys_by_block
from search_spaces.load import parse_sweep
from search_spaces.specs import TrainingSettings

PAGE = (Path(__file__).parents[1] / "docs" / "sweep_file.md").read_text()
BLOCKS = keys_by_block()
# Which settings have no default is said where the file is expanded, since an axis or a search may give them.
TRAINING = {f.name: "required" if f.default is MISSING else f.default for f in fields(TrainingSettings)}
TRAINING["log_kappa_every"] = None  # which is no hyperparameter


def sections():
    """By the places that a heading names its text; what stands under a heading without places is of the file."""
    found = {}
    for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        for place in re.findall(r"`([a-z_.]+)`", heading) or ([""] if heading == "The file" else []):
            assert place not in found, f"{place} has two sections"
            found[place] = text
    return found


SECTIONS = sections()


def table(text):
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    names = [row[0].strip("` ") for row in rows]
    assert len(set(names)) == len(names)
    return {name: row[1].strip() for name, row in zip(names, rows, strict=True)}


def keys_of(place):
    """Key to default as the page has them; 'The keys are those of' stands for another block's table.

    Less what is named after 'but'.
    """
    if other := re.search(r"[Tt]he keys are those of\s+`([a-z_.]+)`(?: but `([a-z_]+)`)?", SECTIONS[place]):
        return dict.fromkeys(set(table(SECTIONS[other[1]])) - {other[2]}, None)
    return table(SECTIONS[place])


def written(default):
    """A default as the page writes it; 'its own' for what is a block or a long text."""
    if default is REQUIRED:
        return "required"
    if default and isinstance(default, dict | list):
        return "its own"
    if isinstance(default, str):
        return default if len(default) < 40 else "its own"
    return json.dumps(default)


def test_every_block_has_one_section_and_no_section_is_of_none():
    assert set(SECTIONS) == set(BLOCKS)


@pytest.mark.parametrize("place", BLOCKS, ids=lambda place: place or "file")
def test_every_key_is_documented_and_none_invented(place):
    assert set(keys_of(place)) == {key.name for key in BLOCKS[place]}


@pytest.mark.parametrize("place", BLOCKS, ids=lambda place: place or "file")
def test_every_default_is_the_schemas(place):
    for key in BLOCKS[place]:
        documented = keys_of(place)[key.name]
        if place == "training":
            default = TRAINING[key.name]
            assert documented == (default if isinstance(default, str) else json.dumps(default)), key.name
        elif documented is not None and (place, key.name) != ("data_sets", "measures"):  # those depend on the reader
            assert documented == written(key.default), key.name


def test_the_example_is_a_sweep_file():
    text = re.search(r"```yaml\n(name: .*?)```", PAGE, flags=re.DOTALL)[1]
    expansion = expand(parse_sweep(text, where="page", folder=Path()), where="page")
    assert len(expansion.tuned) == 6 + 5
    assert {len(study.reporting) for study in expansion.tuned} == {3}
    assert {(t.encoder.family, t.encoder.init_regime) for t in expansion.trials} == {
        ("minilm", "finetune"),
        ("smollm2", "from_base"),
    }


def test_links_inside_the_page_lead_somewhere():
    headings = re.findall(r"^##+ (.*)$", PAGE, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
