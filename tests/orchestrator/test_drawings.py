"""`densesweep plots` and `densesweep report`: the files they write, what they say, and what they refuse."""

import io
import re

import pytest
from mirrored_sweeps import RECORD, end_everything
from rich.console import Console

from orchestrator.exports import export_all
from orchestrator.show_drawings import PlotsRequest, write_plots, write_report
from results.plots import PLOTS
from results.sources import Source
from results.tables.table import TableOptions
from search_spaces.problems import InputError


@pytest.fixture
def done(store):
    end_everything(store)
    return store


def source_of(store):
    return Source(uri=store.uri, kind="sweep folder", store=store, record=RECORD)


def draw(store, output, *names, output_format="all", **options):
    console = Console(file=io.StringIO(), width=200)
    request = PlotsRequest(
        names=names, output_format=output_format, output=output, allow_missing=True, options=TableOptions(**options)
    )
    write_plots(source_of(store), request, console)
    return console.file.getvalue().splitlines()


def test_plots_come_in_every_format_and_the_rest_says_why_not(done, tmp_path):
    said = draw(done, tmp_path / "plots")
    written = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {
        f"gains_{group}.{kind}" for group in ("in_domain", "out", "both") for kind in ("svg", "pdf", "png")
    } <= written
    assert {line for line in said if not line.startswith("Nothing")} == {str(tmp_path / "plots" / n) for n in written}
    absent = {name for name in PLOTS if not any(file.startswith(name) for file in written)}
    told = {match[1] for line in said if (match := re.match(r"Nothing to draw for '(\w+)': .", line))}
    assert told >= absent


def test_one_plot_in_one_format(done, tmp_path):
    draw(done, tmp_path / "plots", "losses", output_format="pdf")
    [path] = (tmp_path / "plots").iterdir()
    assert path.name == "losses_minilm-3l_finetune.pdf"
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["gain"], {}, "'gain' is not a plot .did you mean 'gains'"),
        (["train_score_matrix"], {}, "score_similarities: all"),
        ([], {"where": {"family": "bert"}}, "no trial has it .there are: minilm"),
        (["gains"], {"baseline": "dot"}, "baseline: 'dot' is not"),
    ],
)
def test_what_cannot_be_drawn_is_refused(done, tmp_path, names, options, message):
    with pytest.raises(InputError, match=message):
        draw(done, tmp_path / "plots", *names, **options)


def test_the_report_is_one_file_with_what_the_run_of_the_sweep_has(done, tmp_path):
    output = tmp_path / "new" / "report.html"
    write_report(source_of(done), output, TableOptions(), Console(file=io.StringIO()))
    assert output.read_bytes() == export_all(done, RECORD).files["report.html"]
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]
