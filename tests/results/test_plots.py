"""Plots: the same rows give the same bytes, from several threads too; what is drawn is what the rows say."""

import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from results import plots
from search_spaces.catalogue.similarities import SIMILARITIES


def history(similarity, num_steps=50, trial_id=None):
    return pl.DataFrame(
        {
            "trial_id": [trial_id or similarity] * num_steps,
            "similarity": [similarity] * num_steps,
            "step": range(1, num_steps + 1),
            "loss": [1 / step for step in range(1, num_steps + 1)],
        }
    )


def training(num_steps=50):
    norms = {f"{side}_norm_mean": pl.col("loss") * times for side, times in (("query", 1), ("document", 2))}
    scores = pl.when(pl.col("step") % 10 == 0).then("loss")
    return history("qnorm", num_steps).with_columns(**norms, validation_score=scores)


def gains(similarities=("dot", "qnorm")):
    rows = [("minilm", "finetune", "fixed(20)", name, place / 100) for place, name in enumerate(similarities)]
    return pl.DataFrame(rows, schema=["model", "init_regime", "scale", "similarity", "gain"], orient="row")


FIGURES = {
    "loss": lambda: plots.loss_curves(pl.concat([history("cosine"), history("qnorm")]), "losses"),
    "training": lambda: plots.training_curves(training(), "one training"),
    "gains": lambda: plots.gain_dots(gains(), "gains"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_rows_give_the_same_file(name):
    first = plots.svg(FIGURES[name]())
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: plots.svg(FIGURES[name]()), range(4))) == {first}
    assert ElementTree.fromstring(first).tag.endswith("svg")
    assert b"dc:date" not in first


def test_every_similarity_looks_unlike_every_other():
    looks = [plots.look_of(name) for name in SIMILARITIES]
    for one in ("colour", "marker", "dashes"):
        assert len({getattr(look, one) for look in looks}) == len(SIMILARITIES)


def test_curves_are_the_losses_of_each_trial():
    figure = plots.loss_curves(pl.concat([history("cosine", trial_id="a"), history("cosine", trial_id="b")]), "t")
    [axes] = figure.axes
    assert len(axes.lines) == 2
    assert list(axes.lines[0].get_ydata()) == [1 / step for step in range(1, 51)]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["cosine"]


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    [axes] = plots.loss_curves(history("cosine", 10_000), "t").axes
    steps = list(axes.lines[0].get_xdata())
    assert len(steps) <= 402
    assert (steps[0], steps[-1]) == (1, 10_000)


def test_a_training_shows_what_it_has():
    assert [axes.get_title() for axes in plots.training_curves(training(), "t").axes] == [
        "loss",
        "mean norm of embeddings",
        "validation score",
    ]
    without = training().with_columns(validation_score=pl.lit(None, dtype=pl.Float64))
    assert len(plots.training_curves(without, "t").axes) == 2


def test_dots_stand_at_the_gains_in_points():
    [axes] = plots.gain_dots(gains(("dot", "qnorm", "dnorm")), "t").axes
    dots = {line.get_marker(): line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "None"}
    assert dots == {plots.look_of(name).marker: place for place, name in enumerate(("dot", "qnorm", "dnorm"))}
