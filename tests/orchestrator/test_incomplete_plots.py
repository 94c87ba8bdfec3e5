"""Plots of an unfinished sweep: refused as tables are, or drawn with how much is missing in every title."""

import re

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from results.layout import SWEEP_RECORD, to_bytes
from results.plots import PLOTS
from results.store import open_store
from tests.results.builders import failed, small_sweep, trained

WHOLE = "gammas"  # the trial that lacks learns none
# Each checkpoint is scored with its own similarity alone, and the probe has no curves.
NOT_HERE = {"train_score_matrix", "spectra", "kappa_sensitivity", "kappa_convergence", "fisher_densities"}


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """The small sweep, of which everything else can be drawn, and a second seed that failed."""
    folder = small_sweep(open_store(str(tmp_path_factory.mktemp("sweep"))))
    folder.plan_trial(trained("qnorm", seed=7), status=failed("out of memory"))
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return folder.store.uri


def drawn(uri, output, *arguments):
    return CliRunner().invoke(app, ["plots", uri, *arguments, "-o", str(output), "--format", "svg"])


def test_an_unfinished_sweep_is_refused_with_what_is_missing_as_tables_tell_it(unfinished, tmp_path):
    result = drawn(unfinished, tmp_path / "plots")
    [problem] = [found for found in result.exception.problems if found.key == "holes"]
    lines = problem.message.splitlines()
    lacking = [name for name in PLOTS if name not in {WHOLE, *NOT_HERE}]
    assert lines[0].endswith(f" missing ({', '.join(lacking)}):")
    assert lines[0].startswith(f"{len(lacking)} plots are not whole, ")
    assert lines[1] == "  failed: out of memory:"
    assert "qnorm/s7: whole trial (trials/" in lines[2]
    assert "--allow-missing" in lines[-1]
    assert {path.name.split("_")[0] for path in (tmp_path / "plots").iterdir()} == {WHOLE}
    told = CliRunner().invoke(app, ["tables", unfinished, "gains"]).exception.problems[0].message.splitlines()
    assert told[1:3] == lines[1:3]


def test_allowed_every_plot_says_in_its_titles_how_much_is_missing(unfinished, tmp_path):
    result = drawn(unfinished, tmp_path / "plots", "--allow-missing")
    assert result.exit_code == 0, result.output
    for name in PLOTS:
        others = [other for other in PLOTS if other != name and other.startswith(name)]
        files = [f for f in (tmp_path / "plots").glob(f"{name}_*") if not f.name.startswith(tuple(others or ("-",)))]
        assert bool(files) == (name not in NOT_HERE)
        assert all(bool(re.search(r"\(\d missing\)", file.read_text())) == (name != WHOLE) for file in files)
        assert (f"'{name}' lacks " in result.stderr) == (name not in {WHOLE, *NOT_HERE})
