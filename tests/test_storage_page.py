"""docs/storage.md against the code: keys and defaults, schemes, severities, links."""

import re
from pathlib import Path
from typing import get_args

import yaml

from orchestrator.findings import Severity
from results.store import OBJECT_SCHEMES
from search_spaces.schema import CheckpointsBlock

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "storage.md").read_text()


def test_the_example_of_space_is_valid_and_shows_the_default():
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    block = CheckpointsBlock.model_validate(yaml.safe_load(text)["checkpoints"], strict=False)
    assert block.quota == 50 * 2**30
    assert block.wait_for_space_s == CheckpointsBlock().wait_for_space_s


def test_every_scheme_and_severity_is_explained():
    assert all(f"`{scheme}://" in PAGE for scheme in OBJECT_SCHEMES)
    rows = re.findall(r"^\| (\w+) \| .* \| .* \|$", PAGE, flags=re.MULTILINE)
    assert set(rows) >= set(get_args(Severity))


def test_it_is_linked():
    assert "docs/storage.md" in (DOCS.parent / "README.md").read_text()
