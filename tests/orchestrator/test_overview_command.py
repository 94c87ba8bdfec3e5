"""What `densesweep tables` shows where no table is named, and what a run shows at its end."""

import io

import pytest
from rich.console import Console

from orchestrator.show_overview import print_results
from results.layout import SWEEP_RECORD, to_bytes
from results.store import open_store
from results.tables import applicable
from tests.densesweep_here import densesweep_here
from tests.results.builders import failed, small_sweep, trained


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return saved(small_sweep(open_store(str(tmp_path_factory.mktemp("sweep")))))


@pytest.fixture
def with_holes(tmp_path):
    folder = small_sweep(open_store(str(tmp_path / "sweep")))
    folder.plan_trial(trained("half"), status=failed("out of memory"))
    return saved(folder)


def saved(folder):
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return folder


def densesweep(folder, *arguments):
    return densesweep_here(*arguments, folder=folder, variables={"COLUMNS": "100"})


def shown_by_a_run(folder):
    console = Console(file=io.StringIO(), width=100)
    print_results(folder.store, folder.record(), console)
    return console.file.getvalue()


def test_tables_without_names_show_what_a_run_shows_and_which_tables_there_are(whole, tmp_path):
    done = densesweep(tmp_path, "tables", whole.store.uri)
    assert (done.returncode, done.stderr) == (0, "")
    answer = shown_by_a_run(whole).partition("\nAll tables:")[0].rstrip()
    assert answer in done.stdout
    told = " ".join(done.stdout[len(answer) :].split())
    assert f"Tables: {', '.join(applicable(whole.record()))} One of them: densesweep tables" in told


@pytest.mark.parametrize("arguments", [["--format", "md"], ["-o", "out"]])
def test_a_format_or_a_folder_ask_for_all_tables(whole, tmp_path, arguments):
    done = densesweep(tmp_path, "tables", whole.store.uri, *arguments)
    assert done.returncode == 0
    written = {path.stem for path in (tmp_path / "out").glob("*.md")} or set(applicable(whole.record()))
    assert written == set(applicable(whole.record()))
    assert "Highest score, of" not in done.stdout


def test_holes_are_refused_as_of_any_table_unless_they_are_allowed(with_holes, tmp_path):
    refused = densesweep(tmp_path, "tables", with_holes.store.uri)
    assert refused.returncode == 2
    assert "out of memory" in refused.stderr
    assert "Gains against" not in refused.stdout
    allowed = densesweep(tmp_path, "tables", with_holes.store.uri, "--allow-missing")
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert "Gains against" in allowed.stdout
    assert "half/s0: whole trial: failed: out of memory" in allowed.stdout


def test_a_run_names_the_page_of_its_tables_where_there_is_one(whole, tmp_path):
    assert "on one page" not in shown_by_a_run(whole)
    with_page = saved(small_sweep(open_store(str(tmp_path / "page"))))
    with_page.store.write("report.html", b"<html></html>")
    assert f"Tables and plots on one page: {tmp_path}/page/report.html" in shown_by_a_run(with_page)
