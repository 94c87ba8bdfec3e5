"""The report: every table and plot is in it, it fetches nothing, and names are shown, never executed."""

import base64
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from hostile import HOSTILE, hostile_sweep

from results.collect import collect
from results.layout import SWEEP_FILE
from results.plots import PLOTS
from results.plots.drawn import drawn_plots
from results.plots.plot import PlotSource
from results.report.page import render
from results.store import open_store
from results.tables import TABLES, applicable
from results.tables.built import build_tables
from results.tables.table import TableOptions
from tests.results.builders import add_magnitudes


class Page(HTMLParser):
    """What a page holds: elements with attributes, and the texts in them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.tables, self.style = [], [], {}, ""
        self._rows = self._cell = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.elements.append((tag, named))
        if tag == "table":
            self._rows = self.tables.setdefault(named["data-table"], [])
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
        self._cell = tag in ("td", "th") or (self._cell and tag in ("strong", "u", "span", "button"))

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.texts.append(data)
        if self.elements and self.elements[-1][0] == "style":
            self.style += data
        if self._cell:
            self._rows[-1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(collected, **options):
    chosen = TableOptions(**options)
    built = build_tables(collected, chosen)
    source = PlotSource(collected=collected, built=built, options=chosen)
    return render(collected, built, drawn_plots(source))


@pytest.fixture(scope="module")
def report(small):
    return page_of(small)


@pytest.fixture(scope="module")
def page(report):
    return Page(report.decode())


def test_the_same_rows_give_the_same_page(small, report):
    assert page_of(small) == report


def test_every_table_is_there_with_all_its_rows(small, page):
    for name in applicable(small.record):
        table = TABLES[name].build(small, TableOptions())
        assert {"id": f"table-{name}"} in page.all("article")
        if table.rows.height:
            assert page.tables[name][0] == [column.header for column in table.columns]
            assert len(page.tables[name]) == 1 + table.rows.height


def test_cells_read_as_in_the_other_formats(page):
    assert page.tables["gains"][4][:6] == ["minilm-3l", "finetune", "in_domain", "qnorm", "55.00", "+5.00"]


def test_csv_files_are_the_raw_values(small, page):
    links = {link["download"]: link["href"] for link in page.all("a") if "download" in link}
    prefix, _, data = links["gains.csv"].partition(",")
    assert prefix == "data:text/csv;charset=utf-8;base64"
    rows = pl.read_csv(base64.b64decode(data))
    assert rows["score"].to_list() == TABLES["gains"].build(small, TableOptions()).rows["score"].to_list()


def test_every_plot_is_there_or_is_said_not_to_be(page):
    for name in PLOTS:
        assert {"id": f"plot-{name}"} in page.all("article")
    pictures = [picture["alt"] for picture in page.all("img")]
    assert {"Gains: in_domain", "Gains: out_of_domain"} <= set(pictures)
    assert any("Nothing to draw: " in text for text in page.texts)
    assert all(picture["src"].startswith("data:image/svg+xml;base64,") for picture in page.all("img"))


def test_nothing_is_fetched(page):
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "@media print" in page.style
    assert "url(" not in page.style
    assert "@import" not in page.style
    [policy] = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_provenance_names_code_packages_weights_and_data(page):
    told = " ".join(" ".join(page.texts).split())
    assert "torch 2.13.0" in told
    sources = {tuple(row) for row in page.tables["inputs"][1:]}
    assert ("weights", "minilm (finetune)", "path:minilm", "weights-of-minilm") in sources
    assert ("training data", "attack/train", "path:attack", "hash-of-attack-train") in sources
    assert ("evaluated on", "pydoc_small/test", "full; out_of_domain", "hash-of-pydoc_small-test") in sources


def test_what_is_missing_is_said_first(tmp_path):
    folder = hostile_sweep(open_store(str(tmp_path)), fails=True)
    add_magnitudes(folder)
    text = page_of(collect(folder.store, folder.record())).decode()
    assert text.index("This sweep is not whole: 1 things") < text.index("<nav")
    assert "failed: " in text


def test_a_table_that_cannot_be_one_is_said_not_to_be(tmp_path):
    folder = hostile_sweep(open_store(str(tmp_path)), training_data=("attack", "pydoc"))
    collected = collect(folder.store, folder.record())
    told = " ".join(Page(page_of(collected).decode()).texts)
    assert "Table 'gains' is not shown: the rows hold more than one training data set" in told
    assert "table-gains" not in [a.get("id") for a in Page(page_of(collected).decode()).all("article")]
    assert Page(page_of(collected, where={"training_data": "attack"}).decode()).tables["gains"]


@pytest.mark.filterwarnings("error")  # matplotlib's, where names leave no room for what is drawn
def test_hostile_names_are_text(tmp_path):
    folder = hostile_sweep(open_store(str(tmp_path)))
    folder.store.write(SWEEP_FILE, f"name: {HOSTILE}</pre></script>".encode())
    text = page_of(collect(folder.store, folder.record())).decode()
    page = Page(text)
    assert len(page.all("script")) == 1
    assert not [attributes for _, attributes in page.elements if any(name.startswith("on") for name in attributes)]
    assert not [picture for picture in page.all("img") if not picture["src"].startswith("data:")]
    assert any(HOSTILE in row for row in page.tables["gains"])
    assert HOSTILE in page.texts
    assert re.search(r"<title>&lt;img", text)
