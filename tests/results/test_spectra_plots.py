"""Plots of probes: each curve is the rows of one similarity and subspace, in the look that it has everywhere."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

from results.collect import collect
from results.layout import probe_rows
from results.plots import PLOTS, spectra
from results.plots.files import FILES, svg
from results.plots.plot import NothingToDrawError, PlotSource, drawings
from results.plots.style import GREY, look_of
from results.rows import write_rows
from results.store import open_store
from results.tables.built import BuiltTables
from results.tables.table import TableOptions
from tests.results.builders import SweepFolder, probe, probe_rows_of

RANKS = (8, 16)
RIDGES = (1e-8, 1e-4)
QUERIES = (64, 128)
NAMES = [plot.name for plot in spectra.PLOTS]


def probe_frame():
    """A probe's rows: two blocks in subspaces, gamma in none, and a whole density."""
    rows = []

    def add(block, statistic, value, **more):
        rows.append({"block": block, "statistic": statistic, "value": value, **more})

    for block, ranks in (("embedding", RANKS), ("head", RANKS), ("gamma", (None,))):
        for place, side in enumerate(("qnorm", "dnorm")):
            for rank in ranks:
                at = {"similarity": side, "rank": rank}
                for number in range(1, (rank or 2) + 1):
                    add(block, "eigenvalue", 4.0 * 0.5 ** (number * (1 + place)), at=number, **at)
                add(block, "log10_kappa", 2.0 + place + (rank or 0) / 100, low=1.9, high=3.3, **at)
                for ridge in RIDGES:
                    add(block, "log10_kappa_of_ridge", 2.0 + place - ridge, at=ridge, **at)
        for rank in ranks:
            for queries in QUERIES:
                at = {"similarity": "qnorm-dnorm", "rank": rank, "at": queries}
                add(block, "log10_kappa_of_queries", -1.0 + 8 / queries, low=-2.0, high=0.5, **at)
    add("embedding", "num_queries_enough", 128.0)
    add("subspace", "ridge", 1e-8)
    for place, side in enumerate(("qnorm", "dnorm")):
        for log10_value in (-3.0, -2.0, -1.0):
            add("head", "whole_density", 0.1 * (place + 1), similarity=side, at=log10_value)
        add("head", "whole_lambda_max", 0.1, similarity=side)
    types = {"rank": pl.Int64, "at": pl.Float64, "low": pl.Float64, "high": pl.Float64, "similarity": pl.String}
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)


DRAW = {plot.name: plot.draw for plot in spectra.PLOTS}


def axes_of(figure, title):
    return next(axes for axes in figure.axes if axes.get_title() == title)


def lines_of(axes, similarity):
    look = look_of(similarity)
    return [line for line in axes.lines if line.get_color() == look.colour and len(line.get_xdata()) > 1]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_file_in_every_format(name):
    first = svg(DRAW[name](probe_frame(), "t"))
    with ThreadPoolExecutor(2) as threads:
        assert set(threads.map(lambda _: svg(DRAW[name](probe_frame(), "t")), range(2))) == {first}
    written = {kind: write(DRAW[name](probe_frame(), "t")) for kind, write in FILES.items()}
    assert written["pdf"].startswith(b"%PDF")
    assert written["png"].startswith(b"\x89PNG")


def test_spectra_are_eigenvalues_over_the_largest_and_thick_in_the_largest_subspace():
    figure = spectra.draw_spectra(probe_frame(), "t")
    assert [axes.get_title() for axes in figure.axes] == ["embedding", "head", "gamma"]
    small, large = sorted(lines_of(axes_of(figure, "embedding"), "dnorm"), key=lambda line: line.get_linewidth())
    assert (len(small.get_xdata()), len(large.get_xdata())) == RANKS
    assert list(large.get_ydata()) == pytest.approx([0.25**number for number in range(16)])
    [gamma] = lines_of(axes_of(figure, "gamma"), "qnorm")
    assert gamma.get_marker() == "."
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["qnorm", "dnorm", "r = 8", "r = 16"]


def test_an_eigenvalue_of_zero_ends_its_curve():
    rows = probe_frame().with_columns(
        value=pl.when((pl.col("statistic") == "eigenvalue") & (pl.col("at") > 5)).then(0.0).otherwise("value")
    )
    for line in lines_of(axes_of(spectra.draw_spectra(rows, "t"), "embedding"), "qnorm"):
        assert np.all(np.isfinite(np.log(line.get_ydata())))
        assert len(line.get_xdata()) == 5


def test_sensitivity_stands_over_both_the_subspace_and_the_ridge():
    figure = spectra.draw_sensitivity(probe_frame(), "t")
    upper, lower = np.array(figure.axes).reshape(3, 2).T
    [curve] = lines_of(upper[0], "qnorm")
    assert list(curve.get_ydata()) == pytest.approx([2.08, 2.16])
    bars = [segment for collection in upper[0].collections for segment in collection.get_segments()]
    assert sorted({float(y) for segment in bars for y in segment[:, 1]}) == [1.9, 3.3]
    over_ridge = lines_of(lower[0], "dnorm")
    assert len(over_ridge) == len(RANKS)
    assert list(over_ridge[0].get_xdata()) == list(RIDGES)
    assert list(over_ridge[0].get_ydata()) == pytest.approx([3.0 - ridge for ridge in RIDGES])
    assert [1e-8, 1e-8] in [list(line.get_xdata()) for line in lower[0].lines]  # the ridge of the calls
    assert upper[2].get_xlabel() == "in no subspace"


def test_convergence_is_the_difference_by_queries_and_says_from_where_it_is_narrow():
    figure = spectra.draw_convergence(probe_frame(), "t")
    axes = axes_of(figure, "embedding")
    curves = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_color() != GREY]
    assert [list(line.get_ydata()) for line in curves] == [pytest.approx([-1 + 8 / 64, -1 + 8 / 128])] * 2
    assert [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "--"] == [[128.0, 128.0]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["in no subspace", "r = 8", "r = 16"]


def test_what_a_few_queries_gave_by_chance_is_hollow_and_presses_nothing_flat():
    of_first = (pl.col("statistic") == "log10_kappa_of_queries") & (pl.col("at") == 64)
    nothing = pl.lit(None, dtype=pl.Float64)
    rows = probe_frame().with_columns(
        value=pl.when(of_first).then(40.0).otherwise("value"),
        low=pl.when(of_first).then(nothing).otherwise("low"),
        high=pl.when(of_first).then(nothing).otherwise("high"),
    )
    axes = axes_of(spectra.draw_convergence(rows, "t"), "embedding")
    hollow = {float(line.get_ydata()[0]) for line in axes.lines if line.get_markerfacecolor() == "white"}
    assert hollow == {40.0}
    low, high = axes.get_ylim()
    assert low < -2.0
    assert 0.5 < high < 2.0


def test_densities_stand_over_log10_with_their_largest_eigenvalue_at_the_foot():
    figure = spectra.draw_densities(probe_frame(), "t")
    [axes] = figure.axes
    [curve] = lines_of(axes, "dnorm")
    assert list(curve.get_xdata()) == [-3.0, -2.0, -1.0]
    assert list(curve.get_ydata()) == pytest.approx([0.2] * 3)
    feet = {float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert feet == {-1.0}


def source_of(folder, **where):
    options = TableOptions(where=where)
    return PlotSource(
        collected=collect(folder.store, folder.record()), built=BuiltTables(tables={}, refused={}), options=options
    )


@pytest.fixture
def folder(tmp_path):
    """Two probes with all rows of a frame, of which one has an empirical block too."""
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=())
    for seed in (0, 1):
        spec = probe(init_regime="random", seed=seed)
        key = folder.add_probe(spec, None)
        [cell, *_] = probe_rows_of(spec, 8, 2.0, -0.1, 0.05)
        about = {name: value for name, value in cell.items() if name not in probe_frame().columns}
        rows = [about | row for row in probe_frame().iter_rows(named=True)]
        if seed:
            rows += [row | {"block": f"empirical_{row['block']}"} for row in rows if row["block"] == "embedding"]
        write_rows(folder.store, probe_rows(key), "probes", rows)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_each_probe_and_each_information_has_a_figure(folder, name):
    labels = [figure.label for figure in drawings(PLOTS[name], source_of(folder))]
    own = ["minilm-3l random (seed 0)", "minilm-3l random (seed 1)"]
    if name == "fisher_densities":  # the empirical information has none
        assert labels == own
    else:
        assert labels == [f"{own[0]} Fisher", f"{own[1]} Fisher", f"{own[1]} empirical Fisher"]
        blocks = [axes.get_title() for axes in drawings(PLOTS[name], source_of(folder))[2].draw().axes]
        assert [title for title in blocks if title] == ["embedding"]


def test_a_choice_takes_its_probes(folder):
    [figure] = drawings(PLOTS["fisher_densities"], source_of(folder, seed="1"))
    assert figure.label == "minilm-3l random (seed 1)"


def test_a_sweep_without_such_rows_says_so(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=())
    folder.add_probe(probe(), {16: -0.2})
    for name in NAMES:
        with pytest.raises(NothingToDrawError, match="no probe has"):
            drawings(PLOTS[name], source_of(folder))
