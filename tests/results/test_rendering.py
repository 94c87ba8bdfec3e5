"""Rendering: CSV and JSON read back, Markdown and terminal, holes refused."""

import io
import json
import re
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rendered import GOLDEN_TABLES, SEEDED, table_of
from rich.console import Console

from results.rendering import FORMATS, export, markdown, terminal
from results.rendering.values import shown_rows
from results.tables import TABLES, TableOptions
from results.tables.table import Column, Table, TableHasHolesError

GOLDEN = Path(__file__).parent / "golden"


def one_row(kind, value, decimals=2, upper=None):
    column = Column(key="value", upper="upper" if upper is not None else None, header="x", kind=kind, decimals=decimals)
    rows = pl.DataFrame({"value": [value], "upper": [upper]})
    table = Table(name="t", title="t", columns=(column,), rows=rows)
    return next(shown_rows(table)).cells[0].text


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_table_with_holes_is_refused_and_lists_them(with_holes, format_name):
    with pytest.raises(TableHasHolesError, match=r"qnorm/s0: whole trial: failed: loss is NaN at step 7"):
        export(with_holes, format_name)
    with pytest.raises(TableHasHolesError, match="--allow-missing"):
        terminal.render(with_holes)


def test_allowed_holes_are_dashes_with_a_footnote(with_holes):
    text = export(with_holes, "md", allow_missing=True)["gains.md"]
    assert text == (GOLDEN / "gains_with_holes.md").read_text()
    assert re.search(r"\| qnorm +\| +– \| +– \| +\| +– \|", text)
    assert "INCOMPLETE" in text
    fragment = export(with_holes, "latex", allow_missing=True)["gains.tex"]
    assert "qnorm & {--} & {--} & --" in fragment
    assert "INCOMPLETE" in fragment
    frame = pl.read_csv(export(with_holes, "csv", allow_missing=True)["gains.csv"].encode())
    assert frame.filter(pl.col("label") == "qnorm")["score"].to_list() == [None, None]


@pytest.mark.parametrize("name", ["gains", "fisher_check"])
def test_csv_read_back_by_polars_equals_the_rows(small, name):
    table = TABLES[name].build(small, TableOptions())
    text = export(table, "csv")[f"{name}.csv"]
    assert_frame_equal(pl.read_csv(text.encode(), schema=table.rows.schema), table.rows, check_exact=True)
    known = [column for column in table.rows.columns if table.rows[column].null_count() < table.rows.height]
    inferred = pl.read_csv(text.encode(), infer_schema_length=None).select(known)
    assert_frame_equal(inferred, table.rows.select(known), check_exact=True, check_dtypes=False)


def test_csv_keeps_quotes_commas_and_every_digit():
    rows = pl.DataFrame({"text": ['a "b", c', "two\nlines"], "value": [0.1 + 0.2, 1e-17]})
    assert_frame_equal(pl.read_csv(export(table_of(rows), "csv")["t.csv"].encode()), rows, check_exact=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("score", 0.12345), "12.35"),
        (("score", 0.0), "0.00"),
        (("points", 0.0533), "+5.33"),
        (("points", -0.0533), "-5.33"),
        (("points", -0.00001), "0.00"),
        (("percent", 0.7193, 1), "+71.9"),
        (("count", 3), "3"),
        (("range", -0.2, 2, 0.1), "-0.20 to 0.10"),
        (("range", 2.001, 2, 2.002), "2.00"),
        (("interval", -0.0001, 2, 0.1), "[0.00, 0.10]"),
        (("pair", 1.0, 2, 2.5), "1.00 / 2.50"),
        (("share_pair", 0.08, 0, 0.915), "8 / 92"),
        (("share_pair", 0.08, 0, float("nan")), None),
        (("p", 0.0123, 3), "0.012"),
        (("p", 0.0009, 3), "<0.001"),
        (("p", 0.001, 3), "0.001"),
        (("p", 1.0, 3), "1.000"),
        (("plain", -0.46), "-0.46"),
        (("points_interval", -0.01, 2, 0.0234), "[-1.00, +2.34]"),
        (("points_interval", -0.00001, 2, float("nan")), None),
        (("score", None), None),
        (("score", float("nan")), None),
        (("interval", 0.1, 2, float("inf")), None),
    ],
)
def test_values(arguments, text):
    assert one_row(*arguments) == text


def test_best_and_second_are_marked_in_each_block(small):
    table = TABLES["gains"].build(small, TableOptions(where={"init_regime": "finetune"}))
    text = export(table, "md")["gains.md"]
    assert re.findall(r"\*\*([\d.]+)\*\*", text) == ["55.00", "36.00", "36.00"]  # a tie out of domain
    assert re.findall(r"(?<!\*)\*([\d.]+)\*(?!\*)", text) == ["54.00", "33.00"]
    fragment = export(table, "latex")["gains.tex"]
    assert re.findall(r"\\bfseries ([\d.]+)", fragment) == ["55.00", "36.00", "36.00"]
    assert re.findall(r"[\d.]+\{\\llap\{\\underline\{\\phantom\{([\d.]+)\}\}\}\}", fragment) == ["54.00", "33.00"]
    assert fragment.count(r"\midrule") == 2


def test_markdown_escapes_what_would_be_markup():
    text = markdown.render(table_of(pl.DataFrame({"name": ["a|b", "_x_", "in_domain", "<b>", "*y*", "two\nlines"]})))
    cells = [line.strip("| ").strip() for line in text.splitlines()[4:]]
    assert cells == [r"a\|b", r"\_x\_", "in_domain", r"\<b\>", r"\*y\*", "two lines"]


def test_markdown_rows_have_one_width(small):
    text = export(TABLES["gains"].build(small, TableOptions()), "md")["gains.md"]
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1


@pytest.mark.parametrize("name", GOLDEN_TABLES)
def test_terminal_shows_every_row(small, name):
    table = TABLES[name].build(small, TableOptions())
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal.render(table))
    text = console.export_text()
    assert table.title in text
    for row in shown_rows(table.without_details()):
        assert all(cell.text is None or cell.text in text for cell in row.cells)


@pytest.mark.parametrize("name", GOLDEN_TABLES)
def test_a_narrow_terminal_keeps_every_number_whole_and_every_row(small, name):
    table = TABLES[name].build(small, TableOptions()).without_details()
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal.render(table))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    numbers = [place for place, c in enumerate(table.columns) if c.kind in ("score", "points", "percent", "p", "plain")]
    words = [word for line in lines for word in line.split()]
    for row in shown_rows(table):
        assert {row.cells[place].text or "–" for place in numbers} <= set(words)
    if table.block and name == "gains":
        assert "minilm-3l finetune in_domain" in lines


def test_what_fits_no_terminal_is_folded_and_never_cut_off():
    rows = pl.DataFrame({"name": ["x" * 30], "score": [0.123456]})
    columns = (Column(key="name", header="name"), Column(key="score", header="score", kind="score", decimals=4))
    console = Console(width=12, record=True, file=io.StringIO())
    console.print(terminal.render(Table(name="t", title="t", columns=columns, rows=rows)))
    text = console.export_text()
    assert text.count("x") == 30
    assert re.sub(r"[^\d.]", "", text) == "12.3456"


def test_terminal_takes_names_as_they_are():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal.render(table_of(pl.DataFrame({"name": ["[bold]x[/bold]"]}), notes=("[red]n",))))
    assert "[bold]x[/bold]" in console.export_text(clear=False)
    assert "[red]n" in console.export_text()


def test_a_narrow_terminal_cuts_no_name_off(two_scales):
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(terminal.render(TABLES["fisher_check"].build(two_scales, TableOptions())))
    assert "…" not in console.export_text()


@pytest.mark.parametrize(("sweep", "name"), [*(("small", n) for n in GOLDEN_TABLES), *(("seeded", n) for n in SEEDED)])
def test_json_has_every_value_typed_with_its_ids_notes_and_formula(request, sweep, name):
    table = TABLES[name].build(request.getfixturevalue(sweep), TableOptions())
    value = json.loads(export(table, "json")[f"{name}.json"])
    assert [row["row"] for row in value["rows"]] == list(range(1, table.rows.height + 1))
    read = [row["values"] for row in value["rows"]]
    nothing = {float("nan"), float("inf")}
    for row, raw in zip(read, table.rows.to_dicts(), strict=True):
        assert row == {key: None if item in nothing or item != item else item for key, item in raw.items()}
    assert [column["key"] for column in value["columns"]] == [column.key for column in table.columns]
    assert value["footnotes"] == list(table.notes)
    assert value["formula"] == table.formula
    for row, raw in zip(value["rows"], table.rows.to_dicts(), strict=True):
        held = " ".join(str(raw[key]) for key in table.origin.trials)
        assert all(identity in held for identity in row["ids"]["trials"])


def test_json_is_refused_with_holes_and_lists_them_when_allowed(with_holes):
    value = json.loads(export(with_holes, "json", allow_missing=True)["gains.json"])
    assert value["holes"] == list(with_holes.holes)
    assert any("INCOMPLETE" in note for note in value["footnotes"])
    assert None in [row["values"]["score"] for row in value["rows"]]
