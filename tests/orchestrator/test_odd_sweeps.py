"""Sweeps as no run leaves them: each command gives a right number, or one clear line; never a traceback."""

import io
import itertools
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestrator.cli import app, main
from orchestrator.show_overview import print_results
from results.layout import SWEEP_RECORD, to_bytes
from results.rows import table_of
from results.store import open_store
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.problems import InputError, UnreadableError
from tests.results.builders import (
    SweepFolder,
    add_magnitudes,
    evaluation,
    failed,
    noisy_queries,
    probe,
    trained,
    untrained,
    untrained_noisy,
)

KINDS = {
    "per query rows": "evaluations/",
    "trials": "/trial.parquet",
    "steps": "/history.parquet",
    "probes": "/probes.parquet",
    "norms": "encodings/",
    "judgements": "judgements/",
    "answers": "answers/",
}
COMMANDS = {
    "overview": ["tables", "{}", "--allow-missing"],
    "tables": ["tables", "{}", "--allow-missing", "--format", "md"],
    "csv": ["tables", "{}", "--allow-missing", "--format", "csv", "-o", "{}/csv"],
    "latex": ["tables", "{}", "--allow-missing", "--format", "latex", "-o", "{}/latex"],
    "json": ["tables", "{}", "--allow-missing", "--format", "json", "-o", "{}/json"],
    "plots": ["plots", "{}", "--allow-missing", "-o", "{}/plots", "--format", "svg"],
    "report": ["report", "{}", "-o", "{}/report.html"],
    "collect": ["collect", "{}", "-o", "{}/collected"],
    "explain": ["explain", "{}", "gains", "1", "score"],
    "status": ["status", "{}"],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep with rows of every kind."""
    store = open_store(str(tmp_path_factory.mktemp("whole")))
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    pairs = evaluation("stsb", "sts", main_measure=SPEARMAN)
    folder = SweepFolder(store=store, evaluations=(evaluation("attack", "out_of_domain"), questions, pairs))
    for similarity in ("cosine", "qnorm", "dnorm", "learnable"):
        folder.add_trial(trained(similarity), noisy_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    folder.add_probe(probe(), {16: -0.2, 32: -0.12})
    add_magnitudes(folder)
    return saved(folder)


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of it."""
    shutil.copytree(whole.store.uri, tmp_path / "sweep")
    return replace(whole, store=open_store(str(tmp_path / "sweep")))


def saved(folder):
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return folder


def ran(command, uri):
    """The output of a command; what it refuses, in lines of which each is told by itself."""
    result = CliRunner().invoke(app, [part.format(uri) for part in COMMANDS[command]])
    if isinstance(result.exception, InputError | UnreadableError):
        return result.output, str(result.exception)
    assert result.exit_code == 0, (command, result.exc_info)
    return result.output, ""


def keys_of(folder, kind):
    return [key for key in folder.store.list("") if KINDS[kind] in f"/{key}" and key.endswith(".parquet")]


def rewritten(folder, key, change):
    table = change(table_of(folder.store.read(key)))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    folder.store.write(key, buffer.getvalue())


def without_a_column(table):
    return table.drop_columns([table.schema.names[-1]])


def of_another_version(table):
    return table.replace_schema_metadata({**table.schema.metadata, b"densesweep.schema": b"rows/1"})


def with_nan(table):
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            first = pa.array([math.nan, *table.column(place).to_pylist()[1:]], field.type)
            table = table.set_column(place, field, first)
    return table


@pytest.mark.parametrize("change", ["cut off", "empty", "no parquet", "a column less", "another version"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_by_every_command_that_reads_it(folder, kind, change):
    key = keys_of(folder, kind)[0]
    data = folder.store.read(key)
    if change in ("a column less", "another version"):
        rewritten(folder, key, without_a_column if change == "a column less" else of_another_version)
    else:
        folder.store.write(key, {"cut off": data[: len(data) // 2], "empty": b"", "no parquet": b"<html>"}[change])
    _, refused = ran("tables", folder.store.uri)
    assert 1 <= refused.count(key) <= 2, "once, whichever tables lack it"
    assert len(refused.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_command_stands_a_damaged_file(folder, kind):
    key = keys_of(folder, kind)[0]
    folder.store.write(key, folder.store.read(key)[:-30])
    for command in COMMANDS:
        output, refused = ran(command, folder.store.uri)
        assert len(refused.splitlines()) <= 1, command
        assert key in refused or command in ("status", "report", "explain", "plots", "overview"), (
            command,
            output,
            refused,
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "judgements"])
def test_a_number_that_is_none_is_in_no_mean_and_is_shown_nowhere(folder, kind):
    for key in keys_of(folder, kind):
        rewritten(folder, key, with_nan)
    for command in COMMANDS:
        output, refused = ran(command, folder.store.uri)
        assert not re.search(r"(?<![\w-])(nan|inf|NaN)(?!\w)", output), command
        if kind == "trials" and command != "status":
            assert re.fullmatch(r".*/trial.parquet has gamma_q nan and gamma_d nan: .* cannot be scored", refused)
    for path in [*folder_files(folder, "csv"), *folder_files(folder, "latex"), *folder_files(folder, "json")]:
        assert not re.search(r"(?<![\w-])(nan|inf|NaN|Infinity)(?!\w)", path.read_text()), path.name


def folder_files(folder, name):
    return sorted(Path(folder.store.uri, name).glob("*"))


def test_a_score_with_a_query_that_is_none_is_absent_and_told(tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path / "sweep")), evaluations=(evaluation("attack", "in", "out"),), primary_groups=()
    )
    folder.add_trial(trained("cosine"), lambda *_: [0.5, 0.3])
    folder.add_trial(trained("qnorm"), lambda *_: [0.5, math.nan])
    folder.add_trial(untrained(), lambda *_: [0.5, 0.25])
    saved(folder)
    output, refused = ran("tables", folder.store.uri)
    assert not refused
    assert re.search(r"\| out +\| qnorm +\| +– \|", output)
    assert re.search(r"\| in +\| cosine +\| \**40.00", output), "a data set of two groups stands in both"
    assert re.search(r"\| out +\| cosine +\| \**40.00", output)
    assert "1 of 2 queries" in output


def nothing(folder):
    pass


def failed_alone(folder):
    folder.plan_trial(trained("cosine"), status=failed("out of memory"))


def untrained_alone(folder):
    folder.add_trial(untrained(), lambda *_: [0.5, 0.25])


def one_query(folder):
    for place, similarity in enumerate(("cosine", "qnorm", "dnorm", "learnable")):
        folder.add_trial(trained(similarity), lambda *_, place=place: [0.5 + place / 10])


def all_alike(folder):
    for similarity in ("cosine", "qnorm", "dnorm", "learnable"):
        folder.add_trial(trained(similarity), lambda *_: [0.5, 0.5])


def all_zero(folder):
    for similarity, seed in itertools.product(("cosine", "qnorm", "dnorm"), (0, 1)):
        folder.add_trial(trained(similarity, seed=seed), lambda *_: [0.0, 0.0])


def names_of_all_sorts(folder):
    for family in ('50% of_a & b#1 $x$ ~y^2 \\end{z} | "q" <b>', "中文 é\U0001f600", "x" * 300, "a\nb"):
        for similarity in ("cosine", "qnorm"):
            folder.add_trial(trained(similarity, family=family), lambda *_: [0.5, 0.25])


@pytest.mark.slow
@pytest.mark.parametrize(
    "fill",
    [nothing, failed_alone, untrained_alone, one_query, all_alike, all_zero, names_of_all_sorts],
    ids=lambda fill: fill.__name__,
)
def test_every_command_stands_it(tmp_path, fill):
    evaluations = (evaluation("attack", "in_domain"), evaluation("other", "out_of_domain", "in_domain"))
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=evaluations)
    fill(folder)
    saved(folder)
    for command in COMMANDS:
        output, _ = ran(command, folder.store.uri)
        assert not re.search(r"(?<![\w-])(nan|inf|NaN)(?!\w)", output), command
    csv = {path.stem: pl.read_csv(path, infer_schema_length=None) for path in folder_files(folder, "csv")}
    if fill is one_query:
        gains = csv["gains"].filter(pl.col("group") == "out_of_domain")
        assert dict(gains.select("similarity", "gain").rows()) == pytest.approx(
            {"cosine": 0, "qnorm": 0.1, "dnorm": 0.2, "learnable": 0.3}
        )
        assert gains["gain_low"].null_count() == gains.height, "one query says nothing of others"
    if fill is all_zero:
        assert csv["gains"]["gain_ratio"].null_count() == csv["gains"].height, "no ratio to nothing"
    if fill is names_of_all_sorts:
        assert set(csv["gains"]["family"]) == {trial.title.rsplit("-3l/", 1)[0] for trial in folder.trials}


@pytest.mark.parametrize("file", ["per_query.parquet", "trials.parquet", "index.parquet", "records.parquet"])
@pytest.mark.parametrize("change", ["cut off", "gone"])
def test_a_damaged_collected_folder_is_one_line(folder, tmp_path, file, change):
    CliRunner().invoke(app, ["collect", folder.store.uri, "-o", str(tmp_path / "all")], catch_exceptions=False)
    path = tmp_path / "all" / file
    path.write_bytes(path.read_bytes()[:-30]) if change == "cut off" else path.unlink()
    for command in ("tables", "collect", "report") if file == "per_query.parquet" else ("tables",):
        _, refused = ran(command, tmp_path / "all")
        assert f"{path} is damaged or not there" in refused, command
        assert len(refused.splitlines()) == 1


def test_what_stands_in_collected_json_is_read_or_refused(folder, tmp_path):
    CliRunner().invoke(app, ["collect", folder.store.uri, "-o", str(tmp_path / "all")], catch_exceptions=False)
    record = tmp_path / "all" / "collected.json"
    whole = record.read_text()
    for text in ("[]", "{}", whole[:-40], "", json.dumps({**json.loads(whole), "schema_version": 0})):
        record.write_text(text)
        _, refused = ran("tables", tmp_path / "all")
        assert "collect its sources anew" in refused or "is damaged" in refused
        assert len(refused.splitlines()) == 1


@pytest.mark.parametrize("place", ["file", "below a file", "a folder that takes none"])
@pytest.mark.parametrize("command", ["csv", "plots", "report", "collect"])
def test_what_cannot_be_written_is_one_line(folder, tmp_path, command, place, monkeypatch, capsys):
    (tmp_path / "file").write_text("kept")
    target = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "x", "a folder that takes none": "/proc/x"}
    arguments = [part.format(folder.store.uri) for part in COMMANDS[command]]
    output = f"{target[place]}/report.html" if command == "report" else str(target[place])
    monkeypatch.setattr(sys, "argv", ["densesweep", *arguments[: arguments.index("-o")], "-o", output])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    [line] = [text for text in capsys.readouterr().err.splitlines() if text.startswith("error: ")]
    assert re.search(r"-o: (is a file \(give a folder\)|cannot be written \(.+\))", line), line
    assert (tmp_path / "file").read_text() == "kept"


def test_a_report_into_a_folder_is_refused(folder, tmp_path):
    result = CliRunner().invoke(app, ["report", folder.store.uri, "-o", str(tmp_path)])
    assert "is a folder (give a file)" in str(result.exception)


@pytest.mark.slow
def test_two_reports_at_once_leave_a_whole_page_and_nothing_else(folder, tmp_path):
    page = tmp_path / "out" / "r.html"
    command = [sys.executable, "-m", "orchestrator.cli", "report", folder.store.uri, "-o", str(page)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    assert [(writer.communicate()[0], writer.returncode)[1] for writer in writers] == [0, 0]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["r.html"]
    assert page.read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_a_terminal_without_colours_shows_the_same_words(folder, variable, monkeypatch, capsys):
    monkeypatch.setenv(variable, "dumb")
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    print_results(folder.store, folder.record(), console)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
    assert not re.search(r"\x1b\[(3|4|9|10)\d", console.file.getvalue())
    assert "qnorm" in plain
    assert "\x1b" not in plain
