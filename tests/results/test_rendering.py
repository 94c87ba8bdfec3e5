"""Rendering: golden files, CSV read back, LaTeX compiled, holes refused."""

import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console
from texlive import ENGINES, finds, needs_latex

from results.collect import collect
from results.rendering import FORMATS, export, latex, markdown, terminal
from results.rendering.values import shown_rows
from results.store import open_store
from results.tables import TABLES, TableOptions
from results.tables.table import Column, Table, TableHasHolesError
from tests.results.builders import (
    SweepFolder,
    evaluation,
    failed,
    probe,
    softmax_of,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_TABLES = ["gains", "winners", "significance", "seeds", "claims", "sts", "rag", "fisher_check", "missing"]
GOLDEN_TABLES += ["rag_gains", "train_score_matrix", "learned_gamma", "cohen_d", "magnitude_correlation"]
GOLDEN_TABLES += ["fisher_summary", "fisher_tau", "fisher_published", "cost"]
GOLDEN_TABLES += ["fisher_calls", "predictions"]
SEEDED = [
    "gains",
    "gains_by_dataset",
    "winners",
    "significance",
    "significance_by_dataset",
    "ranks",
    "seeds",
    "claims",
    "cost",
]
GOLDEN_FORMATS = ("md", "csv", "latex")
SPECIAL = '50% of_a & b#1 $x$ ~y^2 \\end{z} <tag> |p| "q" `r` -- s--- [t] *u*'


@pytest.fixture(scope="module")
def with_holes(tmp_path_factory):
    folder = SweepFolder(
        store=open_store(str(tmp_path_factory.mktemp("holes"))),
        evaluations=(evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain")),
    )
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    folder.plan_trial(trained("qnorm"), status=failed("loss is NaN at step 7"))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    return TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions())


def assert_as_golden(text, path):
    """To the letter; numbers of a CSV file to nine digits, since libraries add up in an order of their own."""
    sources = tuple(map(without_hashes, (text, path.read_text())))
    if path.suffix != ".csv":
        assert sources[0] == sources[1], path.name
        return
    frame, golden = (pl.read_csv(io.StringIO(source), infer_schema_length=None) for source in sources)
    assert_frame_equal(frame, golden, rel_tol=1e-9, abs_tol=1e-9)


def one_row(kind, value, decimals=2, upper=None):
    column = Column(key="value", upper="upper" if upper is not None else None, header="x", kind=kind, decimals=decimals)
    rows = pl.DataFrame({"value": [value], "upper": [upper]})
    table = Table(name="t", title="t", columns=(column,), rows=rows)
    return next(shown_rows(table)).cells[0].text


def without_hashes(text):
    """The text with identities numbered: they change with the versions that they are hashed from."""
    ids = {}
    return re.sub(r"(?<![\w.])[0-9a-f]{16}\b", lambda found: ids.setdefault(found[0], f"id{len(ids) + 1}"), text)


def table_of(rows, **changes):
    columns = tuple(Column(key=name, header=name) for name in rows.columns)
    return Table(**{"name": "t", "title": "t", "columns": columns, "rows": rows, **changes})


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


def test_golden_files_cover_every_table():
    assert {path.stem for path in GOLDEN.glob("*.md")} - {"gains_with_holes"} == set(GOLDEN_TABLES)
    assert {path.stem for path in (GOLDEN / "seeded").glob("*.md")} == set(SEEDED)
    assert {*GOLDEN_TABLES, *SEEDED} == set(TABLES)


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


def special_table():
    rows = pl.DataFrame({"name": [SPECIAL, "[first cell]", "*star"], SPECIAL: ["a", "b", "c"]})
    return table_of(rows, title=SPECIAL, notes=(SPECIAL,))


def compiled(folder, text, engine=None):
    """Compile a document and give its log."""
    (folder / "document.tex").write_text(text)
    command = [engine or ENGINES[0], "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "document.pdf").read_bytes().startswith(b"%PDF")
    return done.stdout


@needs_latex
@pytest.mark.parametrize("name", SEEDED)
def test_latex_of_three_seeds_compiles(seeded, tmp_path, name):
    log = compiled(tmp_path, export(TABLES[name].build(seeded, TableOptions()), "latex")[f"{name}_document.tex"])
    assert "Overfull" not in log
    assert "Float too large" not in log


@needs_latex
@pytest.mark.parametrize("name", GOLDEN_TABLES)
def test_latex_compiles_alone(small, tmp_path, name):
    log = compiled(tmp_path, export(TABLES[name].build(small, TableOptions()), "latex")[f"{name}_document.tex"])
    assert "Overfull" not in log
    assert "Float too large" not in log


@pytest.fixture(scope="module")
def two_scales(tmp_path_factory):
    folder = SweepFolder(
        store=open_store(str(tmp_path_factory.mktemp("scales"))), evaluations=(evaluation("attack", "out_of_domain"),)
    )
    for mode, difference in (("fixed", -0.2), ("matched", -0.1)):
        for similarity in ("cosine", "qnorm", "dnorm"):
            spec = trained(similarity, scale_mode=mode, init_regime="random")
            folder.add_trial(spec, two_queries((0.5, 0.3)), **softmax_of(similarity))
        spec = probe(scale_mode=mode, init_regime="random", seed=0)
        folder.add_probe(spec, {16: difference, 32: 2 * difference}, softmax={"saturated_share": (0.5, 0.6)})
    folder.add_trial(untrained(init_regime="random", seed=0), untrained_queries((0.4, 0.2)))
    return collect(folder.store, folder.record())


@needs_latex
@pytest.mark.parametrize("name", ["gains", "fisher_check"])
def test_two_scales_fit_a_page(two_scales, tmp_path, name):
    table = TABLES[name].build(two_scales, TableOptions())
    assert "scale" in [column.key for column in table.columns]
    assert "Overfull" not in compiled(tmp_path, export(table, "latex")[f"{name}_document.tex"])


def test_a_narrow_terminal_cuts_no_name_off(two_scales):
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(terminal.render(TABLES["fisher_check"].build(two_scales, TableOptions())))
    assert "…" not in console.export_text()


@needs_latex
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["winners", "gains"])
def test_latex_compiles_by_input_with_the_packages_that_it_names(seeded, tmp_path, name, engine):
    fragment = export(TABLES[name].build(seeded, TableOptions()), "latex")[f"{name}.tex"]
    (tmp_path / f"{name}.tex").write_text(fragment)
    [packages] = re.findall(r"^% needs (.*)", fragment)
    assert ("longtable" in packages) == (name == "gains")
    compiled(
        tmp_path,
        rf"\documentclass{{article}}{packages}\begin{{document}}"
        rf"Table~\ref{{tab:{name}}}.\input{{{name}}}\end{{document}}",
        engine,
    )


@needs_latex
def test_latex_with_holes_compiles(with_holes, tmp_path):
    compiled(tmp_path, export(with_holes, "latex", allow_missing=True)["gains_document.tex"])


@needs_latex
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed")
def test_special_characters_show_as_themselves(tmp_path):
    compiled(tmp_path, latex.render_document(special_table()))
    shown = subprocess.run(["pdftotext", "-layout", "document.pdf", "-"], cwd=tmp_path, capture_output=True, text=True)
    # The underscore is drawn as a rule, and tilde and caret as accents, which are no characters in the PDF.
    for part in ("50% of", "& b#1", "$x$", "\\end{z}", "<tag>", "|p|", "--", "[first cell]", "*star"):
        assert part in shown.stdout


@needs_latex
def test_special_characters_compile(tmp_path):
    compiled(tmp_path, latex.render_document(special_table()))


def test_latex_escapes():
    assert latex.escape("% _ & # $ ~ ^ \\ { }") == (
        r"\% \_ \& \# \$ \textasciitilde{} \textasciicircum{} \textbackslash{} \{ \}"
    )
    assert latex.escape("a--b---c") == "a-{}-b-{}-{}-c"
    assert latex.escape("two\nlines") == "two lines"


def test_latex_has_letters_beyond_ascii():
    assert latex.escape("α-BERT κ Ωmega ς") == r"$\alpha$-BERT $\kappa$ $\Omega$mega $\varsigma$"
    assert latex.escape("Κά") == r"$\mathrm{K}$$\acute{\alpha}$"
    assert latex.escape("Zoë, Dvořák, Ångström, Łódź, ß") == (
        r"Zo\"{e}, Dvo\v{r}\'{a}k, \r{A}ngstr\"{o}m, \L{}\'{o}d\'{z}, \ss{}"
    )
    assert latex.escape("≤ 3 × 10²") == r"$\leq$ 3 $\times$ 10$^{2}$"
    assert latex.escape("bge-中文_v1") == r"bge-\cjktext{gbsn}{中文}\_v1"
    assert latex.escape("日本語モデル") == r"\cjktext{min}{日本語モデル}"
    assert latex.escape("한국어") == r"\cjktext{mj}{한국어}"
    assert latex.escape("a\u200bb \U0001f600") == "ab {[}U+1F600{]}"


LETTERS = "α-BERT κ≤2 Dvořák ß Łódź ς ά → \U0001f600"


def lettered_table(name):
    rows = pl.DataFrame({name: [name, "[x]"], "score": [0.5, 0.25]})
    columns = (Column(key=name, header=name), Column(key="score", header=name, kind="score"))
    return Table(name="t", title=name, columns=columns, rows=rows, notes=(name,))


@needs_latex
@pytest.mark.parametrize("engine", ENGINES)
def test_letters_beyond_ascii_compile(tmp_path, engine):
    compiled(tmp_path, latex.render_document(lettered_table(LETTERS)), engine)


@needs_latex
@pytest.mark.skipif(
    "pdflatex" not in ENGINES or not finds("CJKutf8.sty") or not finds("gbsnu4e.tfm"),
    reason="no CJK package with a font is installed (Debian: latex-cjk-chinese-arphic-gbsn00lp)",
)
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed")
def test_chinese_names_compile_and_show_as_themselves(tmp_path):
    compiled(tmp_path, latex.render_document(lettered_table("中文模型 100%")), "pdflatex")
    shown = subprocess.run(["pdftotext", "-layout", "document.pdf", "-"], cwd=tmp_path, capture_output=True, text=True)
    assert "100%" in shown.stdout
    fonts = subprocess.run(["pdffonts", "document.pdf"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "gbsn" in fonts.lower()


@needs_latex
def test_what_is_higher_than_a_page_breaks_over_pages(tmp_path):
    rows = pl.DataFrame(
        {"name": [f"row {place}" for place in range(150)], "score": [place / 150 for place in range(150)]}
    )
    columns = (Column(key="name", header="name"), Column(key="score", header="score", kind="score"))
    table = Table(name="t", title="Many rows", columns=columns, rows=rows, notes=("A note.",))
    log = compiled(tmp_path, latex.render_document(table))
    assert "Overfull" not in log
    pages = int(re.search(r"\((\d+) pages?", log)[1])
    assert pages > 2
    few = Table(name="t", title="Few rows", columns=columns, rows=rows.head(20))
    assert "longtable" not in latex.render_document(few)


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
