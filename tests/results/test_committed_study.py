"""The study of docs/studies/fisher_cpu: its rows rebuild the tables that its page shows, and name no machine."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from orchestrator.open_sources import open_sources
from results.rendering import markdown
from results.sources import collect_source
from results.tables import TABLES, TableOptions

FOLDER = Path(__file__).parents[2] / "docs" / "studies" / "fisher_cpu"
SHOWN = ("fisher_summary", "fisher_check", "predictions", "winners")


@pytest.fixture(scope="module")
def collected():
    return collect_source(open_sources([str(FOLDER)]))


def test_nothing_is_missing(collected):
    assert collected.missing == ()
    trained = collected.trials.filter(pl.col("kind") == "train")
    assert trained.height == 3 * 3 * 3 * 3  # models in their regimes, data sets, similarities, seeds
    assert trained["seed"].unique().sort().to_list() == [0, 42, 1337]


@pytest.mark.parametrize("name", SHOWN)
def test_tables_are_those_that_stand_beside_the_rows(collected, name):
    table = TABLES[name].build(collected, TableOptions())
    assert markdown.render(table) == (FOLDER / f"{name}.md").read_text()


def test_rows_name_no_machine():
    texts = [(FOLDER / "collected.json").read_text()]
    for path in FOLDER.glob("*.parquet"):
        frame = pl.read_parquet(path)
        for column in frame.select(pl.selectors.string(), pl.selectors.binary()).columns:
            texts += [text if isinstance(text, str) else text.decode() for text in frame[column].drop_nulls().unique()]
    absolute = {found for text in texts for found in re.findall(r"(?<![\w.:/])/(?:[\w.-]+/)+[\w.-]+", text)}
    assert absolute == set()
    assert json.loads((FOLDER / "collected.json").read_text())["sources"]
