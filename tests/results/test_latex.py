"""LaTeX: compiles alone and by input in every engine, fits its page, and shows names as they are."""

import re
import shutil
import subprocess

import polars as pl
import pytest
from rendered import GOLDEN_TABLES, SEEDED, SPECIAL, table_of
from texlive import ENGINES, finds, needs_latex

from results.rendering import export, latex
from results.tables import TABLES, TableOptions
from results.tables.table import Column, Table


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


@needs_latex
@pytest.mark.parametrize("name", ["gains", "fisher_check"])
def test_two_scales_fit_a_page(two_scales, tmp_path, name):
    table = TABLES[name].build(two_scales, TableOptions())
    assert "scale" in [column.key for column in table.columns]
    assert "Overfull" not in compiled(tmp_path, export(table, "latex")[f"{name}_document.tex"])


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
