"""Golden files of every table: Markdown, CSV, LaTeX."""

import io
import re
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from reference_files import AVERAGES, written
from rendered import GOLDEN_FORMATS, GOLDEN_TABLES, SEEDED

from results.references import kept_references
from results.rendering import export
from results.tables import TABLES, TableOptions

GOLDEN = Path(__file__).parent / "golden"


def assert_as_golden(text, path):
    """To the letter; numbers of a CSV file to nine digits, since libraries add up in an order of their own."""
    sources = tuple(map(without_hashes, (text, path.read_text())))
    if path.suffix != ".csv":
        assert sources[0] == sources[1], path.name
        return
    frame, golden = (pl.read_csv(io.StringIO(source), infer_schema_length=None) for source in sources)
    assert_frame_equal(frame, golden, rel_tol=1e-9, abs_tol=1e-9)


def without_hashes(text):
    """The text with identities numbered: they change with the versions that they are hashed from."""
    ids = {}
    return re.sub(r"(?<![\w.])[0-9a-f]{16}\b", lambda found: ids.setdefault(found[0], f"id{len(ids) + 1}"), text)


@pytest.mark.parametrize("format_name", GOLDEN_FORMATS)
@pytest.mark.parametrize("name", GOLDEN_TABLES)
def test_golden_files(small, name, format_name):
    """To accept a wanted change, write the new text into tests/results/golden/."""
    for file_name, text in export(TABLES[name].build(small, TableOptions()), format_name).items():
        assert_as_golden(text, GOLDEN / file_name)


@pytest.mark.parametrize("format_name", GOLDEN_FORMATS)
@pytest.mark.parametrize("name", SEEDED)
def test_golden_files_of_three_seeds(seeded, name, format_name):
    for file_name, text in export(TABLES[name].build(seeded, TableOptions()), format_name).items():
        assert_as_golden(text, GOLDEN / "seeded" / file_name)


@pytest.mark.parametrize("format_name", GOLDEN_FORMATS)
def test_golden_files_with_external_numbers(seeded, tmp_path, format_name):
    references = kept_references([written(tmp_path, AVERAGES.replace("Contriever", "MiniLM"), "averages.csv")])
    for file_name, text in export(
        TABLES["gains"].build(seeded, TableOptions(references=references)), format_name
    ).items():
        assert_as_golden(text, GOLDEN / "referenced" / file_name)


def test_golden_files_cover_every_table():
    assert {path.stem for path in GOLDEN.glob("*.md")} - {"gains_with_holes"} == set(GOLDEN_TABLES)
    assert {path.stem for path in (GOLDEN / "seeded").glob("*.md")} == set(SEEDED)
    assert {*GOLDEN_TABLES, *SEEDED} == set(TABLES)
    files = {path.name for path in (*GOLDEN.glob("*.*"), *(GOLDEN / "seeded").glob("*.*"))} - {"gains_with_holes.md"}
    assert files == {f"{name}{end}" for name in TABLES for end in (".md", ".csv", ".tex", "_document.tex")}
