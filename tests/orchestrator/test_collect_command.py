"""`densesweep collect`, and `tables`, `plots` and `report` of several sources, as a user calls them."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.open_sources import split_names
from results.layout import SWEEP_RECORD, to_bytes
from results.store import open_store
from search_spaces.problems import InputError
from tests.results.builders import (
    SweepFolder,
    add_magnitudes,
    evaluation,
    failed,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)

DATA = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))


@pytest.fixture
def sweeps(tmp_path):
    """Two sweeps of one similarity each, 'a' and 'b'; both have the untrained checkpoint."""
    for name, similarity in (("a", "cosine"), ("b", "qnorm")):
        folder = SweepFolder(store=open_store(str(tmp_path / name)), evaluations=DATA)
        folder.add_trial(trained(similarity), two_queries((0.5, 0.3)), packages={"torch": "2.0"})
        folder.add_trial(untrained(), untrained_queries((0.4, 0.2)), packages={"torch": "2.0"})
        add_magnitudes(folder)
        folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return tmp_path


def densesweep(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_tables_of_two_sweeps_are_those_of_the_folder_collected_of_them(sweeps):
    both = densesweep("tables", sweeps / "a", sweeps / "b", "gains", "--format", "csv")
    rows = pl.read_csv(both.encode())
    assert set(rows["similarity"]) >= {"cosine", "qnorm"}
    densesweep("collect", sweeps / "a", sweeps / "b", "-o", sweeps / "all")
    assert densesweep("tables", sweeps / "all", "gains", "--format", "csv") == both


def test_collect_says_what_it_found(sweeps):
    folder = SweepFolder(store=open_store(str(sweeps / "c")), evaluations=DATA)
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    folder.plan_trial(trained("dot"))
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    told = json.loads(densesweep("collect", *(sweeps / name for name in "abc"), "-o", sweeps / "all", "--json"))
    assert [source["kind"] for source in told["sources"]] == ["sweep folder"] * 3
    assert told["found"] == {"failed": 1, "missing": 1, "duplicate": 1}
    assert told["num_rows"]["trials"] == 3
    assert told["missing"][0].endswith("whole trial: failed: out of memory")
    shown = densesweep("collect", *(sweeps / name for name in "abc"), "-o", sweeps / "all")
    assert "1 failed, 1 missing, 1 duplicate" in shown
    assert "all: 3 sources; rows:" in shown
    assert "one: 1 source; rows:" in densesweep("collect", sweeps / "a", "-o", sweeps / "one")
    table = pl.read_csv(densesweep("tables", sweeps / "all", "missing", "--format", "csv").strip().encode())
    assert table.select("kind", "trial").rows() == [
        ("failed", "minilm-3l/finetune/dnorm/s0"),
        ("missing", "minilm-3l/finetune/dot/s0"),
        ("duplicate", "minilm-3l/finetune/untrained"),
    ]


def test_plots_and_the_report_take_several_sources(sweeps):
    densesweep("plots", sweeps / "a", sweeps / "b", "gains", "-o", sweeps / "plots", "--format", "svg")
    assert {path.suffix for path in (sweeps / "plots").iterdir()} == {".svg"}
    densesweep("report", sweeps / "a", sweeps / "b", "-o", sweeps / "report.html")
    page = (sweeps / "report.html").read_text()
    assert "qnorm" in page
    assert "counted once" in page


def test_a_misspelt_table_is_told_with_the_nearest_one(sweeps):
    with pytest.raises(InputError, match=r"'gian' is not a table \(did you mean 'gains'"):
        split_names([str(sweeps / "a"), "gian"], ["gains", "seeds"], "table")
    with pytest.raises(InputError, match="no source is named"):
        split_names(["gains"], ["gains", "seeds"], "table")
    assert split_names(["a", "./gains", "seeds"], ["gains", "seeds"], "table") == (("a", "./gains"), ("seeds",))
