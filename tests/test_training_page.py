"""docs/training.md against the code: every setting with its default, every logged column, no link into nothing."""

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from results.schemas import HISTORY
from search_spaces.schema import ResourcesBlock, TrainingBlock, ValidationBlock
from search_spaces.specs import TrainingSettings

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "training.md").read_text()


def section(title):
    return re.split(r"^## ", PAGE, flags=re.MULTILINE)[[t.split("\n")[0] for t in PAGE.split("\n## ")].index(title)]


def table_after(words, text):
    """Key to second cell of the first table after `words`."""
    lines = text[text.index(words) :].splitlines()
    rows = []
    for line in lines:
        if line.startswith("| `"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif rows:
            break
    return {row[0].strip("` "): row[1] for row in rows}


def written(default):
    """A default as the sweep file writes it."""
    if default in (MISSING, PydanticUndefined):
        return "required"
    return default if isinstance(default, str) else json.dumps(default)


def block_defaults(block):
    return {name: written(field.default) for name, field in block.model_fields.items()}


TRAINING = {field.name: written(field.default) for field in fields(TrainingSettings)}


@pytest.mark.parametrize(
    ("words", "defaults"),
    [
        ("`training:`", TRAINING),
        ("`validation:`, a part", block_defaults(ValidationBlock)),
        ("`resources:`, of one", block_defaults(ResourcesBlock)),
    ],
)
def test_every_setting_stands_there_with_its_default(words, defaults):
    assert table_after(words, section("Settings")) == defaults


def test_the_training_block_has_the_settings_and_nothing_else():
    assert set(TrainingBlock.model_fields) == {*TRAINING, "log_kappa_every"}  # which changes nothing of what is trained


def test_every_logged_column_has_a_line():
    assert list(table_after("| column |", section("What is logged"))) == [n for n in HISTORY.names if n != "trial_id"]


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
