"""External numbers that a sweep file names: kept by the sweep, and beside ours in tables, plots, report and MLflow."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from mirrored_sweeps import RECORD, end_everything
from mirrors import all_runs, close, open_tracking, place_of
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.exports import export_all
from results import layout
from results.references import kept_references, load_references
from results.store import open_store
from search_spaces.load import parse_sweep
from search_spaces.problems import InputError
from tests.results.builders import seeded_sweep

# Of two sources: one averages group beir itself, one has a data set of it. Values are times 100.
FIRST = """model,group,data_set,measure,similarity,value,source
MiniLM,beir,,nDCG@10,cosine,40,Paper A
MiniLM,beir,,nDCG@10,qnorm,44.25,Paper A
"""
SECOND = """model,group,data_set,measure,similarity,value,source
MiniLM,beir,hotpotqa,nDCG@10,cosine,50,Paper B
MiniLM,beir,hotpotqa,nDCG@10,dnorm,47.5,Paper B
"""


@pytest.fixture
def files(tmp_path):
    for name, text in (("first.csv", FIRST), ("second.csv", SECOND)):
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in ("first.csv", "second.csv")]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = seeded_sweep(open_store(str(tmp_path_factory.mktemp("seeded"))))
    folder.store.write(layout.SWEEP_RECORD, layout.to_bytes(folder.record()))
    return folder


def densesweep(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def texts(path):
    return [element.text for element in ElementTree.parse(path).iter() if element.tag.endswith("text")]


def test_the_plot_of_gains_has_a_line_for_each_source_and_names_it(plain, files, tmp_path):
    options = [part for file in files for part in ("--reference", file)]
    densesweep("plots", plain.store.uri, "gains", "-o", tmp_path / "with", "--format", "svg", *options)
    shown = texts(tmp_path / "with" / "gains_beir.svg")
    lines = [text for text in shown if text.startswith(("minilm", "MiniLM", "bert"))]
    of_ours = [text for text in lines if text.startswith("minilm")]
    assert "MiniLM [1]" in lines[1 : lines.index(of_ours[-1]) + 2], "beside ours of that model"
    assert "[1] Paper A" in shown
    assert "MiniLM [1]" not in texts(tmp_path / "with" / "gains_multi_hop.svg")
    densesweep("plots", plain.store.uri, "gains", "-o", tmp_path / "without", "--format", "svg")
    assert not [text for text in texts(tmp_path / "without" / "gains_beir.svg") if "[1]" in text]


def test_the_strips_of_data_sets_have_them_at_our_model(plain, files, tmp_path):
    options = [part for file in files for part in ("--reference", file)]
    densesweep("plots", plain.store.uri, "gains_by_dataset", "-o", tmp_path, "--format", "svg", *options)
    with_them = {path.name for path in tmp_path.glob("*.svg") if "[1] Paper B" in texts(path)}
    assert with_them == {path.name for path in tmp_path.glob("*.svg") if "minilm" in path.name}


def test_a_sweep_file_names_files_beside_it_with_what_may_follow(tmp_path):
    sweep = Path("search_spaces/cpu.yaml").read_text()
    text = sweep + "\nreferences: ['numbers.csv,source=https://arxiv.org/abs/2602.09229', /data/others.csv]\n"
    found = parse_sweep(text, where="sweep.yaml", folder=tmp_path).references
    assert found == (f"{tmp_path}/numbers.csv,source=https://arxiv.org/abs/2602.09229", "/data/others.csv")
    with pytest.raises(InputError, match="references"):
        parse_sweep(f"{sweep}\nreferences: [1]\n", where="sweep.yaml", folder=tmp_path)


@pytest.mark.slow
def test_the_plan_refuses_a_file_that_is_not_there_and_the_record_keeps_no_machine_s_path(make_sweep, files):
    sweep = make_sweep(references=[files[0]])
    assert sweep.command("validate", sweep.file.name).returncode == 0
    [found, _] = kept_references([files[0]])
    assert found.place == "first.csv:2"
    Path(files[0]).unlink()
    refused = sweep.command("validate", sweep.file.name)
    assert refused.returncode == 2
    assert "first.csv: cannot be read as a CSV file" in refused.stderr.replace("\n", " ")


@pytest.mark.slow
def test_what_the_sweep_keeps_is_in_tables_plots_report_and_mlflow_alike(store, files):
    """Of the sweep's own group, whose baseline scores 30."""
    end_everything(store)
    text = FIRST.replace("beir", "out").replace("MiniLM", "minilm-3l")
    Path(files[0]).write_text(text)
    record = replace(RECORD, references=kept_references(files[:1]))
    store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
    Path(files[0]).unlink()
    summary = export_all(store, record)
    rows = list(csv.DictReader(io.StringIO(summary.files["tables/gains.csv"].decode())))
    theirs = [row for row in rows if row["source"] == "[1]"]
    assert [(row["source_name"], row["similarity"]) for row in theirs] == [("Paper A", "cosine"), ("Paper A", "qnorm")]
    assert [float(row["gain"]) for row in theirs] == pytest.approx([0, 0.0425])
    assert b"[1] Paper A" in summary.files["plots/gains_out.svg"]
    assert b"Paper A (first.csv)" in summary.files["report.html"]
    assert not any("Paper" in name for name in summary.metrics)
    tracking = open_tracking(store, record=record)
    tracking.finish_sweep("finished", summary)
    close(tracking)
    [parent] = [run for run in all_runs(place_of(store)) if run.data.tags.get("kind") == "sweep"]
    folder = Path(re.sub("^file://", "", parent.info.artifact_uri).replace("%20", " "))
    assert (folder / "tables" / "gains.csv").read_bytes() == summary.files["tables/gains.csv"]
    shown = densesweep("tables", store.uri, "gains", "--format", "csv", "--allow-missing")
    assert shown.strip() == summary.files["tables/gains.csv"].decode().strip()


def test_a_file_that_contradicts_what_the_sweep_keeps_is_refused_and_the_same_counts_once(plain, files, tmp_path):
    record = replace(plain.record(), references=load_references(files[:1]))
    folder = seeded_sweep(open_store(str(tmp_path / "sweep")))
    folder.store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
    once = densesweep("tables", folder.store.uri, "gains", "--format", "csv")
    assert densesweep("tables", folder.store.uri, "gains", "--format", "csv", "--reference", files[0]) == once
    Path(files[0]).write_text(FIRST.replace("44.25", "45"))
    result = CliRunner().invoke(app, ["tables", folder.store.uri, "gains", "--reference", files[0]])
    assert "has another value in" in str(result.exception)
