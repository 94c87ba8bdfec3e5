"""Plot `train_score_matrix`: a heat map of scores by the similarity of training and that of scoring."""

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from results.plots.plot import NothingToDrawError, Plot, PlotSource, holes_of
from results.plots.style import COLUMN, PAGE, in_catalogue_order, new_figure, panels, shortened, styled, titled
from results.scores import group_means, mean_if_whole
from results.selection import refuse_pooled_data, refuse_repeats, scale_text, select_trials
from results.tables.parts import model_name

UNTRAINED = "untrained"
_COLOURS = "cividis"  # even steps of lightness, the same to people who are colour-blind and on grey paper
_SCORED = ["trial_id", "group", "data_set", "data_hash", "split", "score_similarity"]
_MODEL = ["task", "family", "layers", "init_regime"]


@styled()
def draw(rows: pl.DataFrame, title: str) -> Figure:
    """A panel for each group: lines are what was trained, columns what it is scored with, scores times 100.

    `rows` are of one model and init regime: `group`, `trained` (a similarity or 'untrained'), `score_similarity` and
    `score` (0 to 1). A pair without a score is hatched.
    """
    groups = rows["group"].unique(maintain_order=True).to_list()
    columns = in_catalogue_order(rows["score_similarity"])
    lines = [*in_catalogue_order(rows["trained"]), *([UNTRAINED] if UNTRAINED in rows["trained"] else [])]
    across = min(len(groups), 2)
    tall = -(-len(groups) // across) * (0.75 + 0.3 * len(lines))
    figure = new_figure(width=PAGE if across == 2 else COLUMN, height=0.4 + tall)
    titled(figure, title)
    shown = rows["score"].to_list()
    norm = Normalize(100 * min(shown), 100 * max(shown))
    for axes, group in zip(panels(figure, len(groups), columns=2), groups, strict=True):
        found = {(t, s): v for t, s, v in rows.filter(group=group)["trained", "score_similarity", "score"].rows()}
        values = np.array([[found.get((line, column)) for column in columns] for line in lines], dtype=float) * 100
        _heat_map(axes, values, norm)
        axes.set(xticks=range(len(columns)), yticks=range(len(lines)), yticklabels=lines)
        axes.set_xticklabels(columns, rotation=30, ha="right", rotation_mode="anchor")
        axes.set(xlabel="scored with", ylabel="trained with")
        axes.set_title(shortened(group), loc="left")
    return figure


def _heat_map(axes: Axes, values: np.ndarray, norm: Normalize) -> None:
    colours = colormaps[_COLOURS]
    axes.set_xlim(-0.5, values.shape[1] - 0.5)
    axes.set_ylim(values.shape[0] - 0.5, -0.5)
    axes.grid(visible=False)
    for (line, column), value in np.ndenumerate(values):
        corner = (column - 0.5, line - 0.5)
        if np.isnan(value):
            axes.add_patch(Rectangle(corner, 1, 1, facecolor="white", edgecolor="#999999", hatch="////", linewidth=0))
            continue
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=colours(norm(value)), edgecolor="white", linewidth=0.8))
        is_dark = norm(value) < 0.55
        axes.text(column, line, f"{value:.1f}", ha="center", va="center", color="white" if is_dark else "black")


def _rows(source: PlotSource) -> pl.DataFrame:
    collected, options = source.collected, source.options
    chosen = select_trials(collected.expected, options.where)
    trained = chosen.filter(pl.col("kind") == "train")
    refuse_repeats(chosen)
    if not options.pool:
        refuse_pooled_data(trained)
    own = pl.col("similarity").is_null() | (pl.col("similarity") == pl.col("score_similarity"))
    if collected.scored.filter(~own).is_empty():
        raise NothingToDrawError(
            "each checkpoint is scored with its own similarity alone; the sweep file asks for the others with "
            "evaluation.score_similarities: all"
        )
    found = collected.data_set_scores.select(_SCORED).unique(maintain_order=True)
    asked = chosen.drop("score_similarity").unique(maintain_order=True)
    asked = asked.join(found, on=[n for n in _SCORED if n != "score_similarity"], maintain_order="left")
    scores = group_means(collected.data_set_scores, asked.select(chosen.columns)).with_columns(
        model_name(), scale=scale_text(), trained=pl.col("similarity").fill_null(UNTRAINED)
    )
    scores = _beside_each_scale(scores)
    key = ["model", *_MODEL, "scale", "group", "trained", "score_similarity"]
    return (
        scores.group_by(key, maintain_order=True)
        .agg(score=mean_if_whole("score"))
        .filter(pl.col("score").is_not_null())
    )


def _beside_each_scale(scores: pl.DataFrame) -> pl.DataFrame:
    """An untrained checkpoint stands beside the trials of every scale of its model."""
    trained = scores.filter(pl.col("trained") != UNTRAINED)
    untrained = scores.filter(pl.col("trained") == UNTRAINED).drop("scale")
    scales = trained.select(*_MODEL, "scale").unique(maintain_order=True)
    return pl.concat([trained, untrained.join(scales, on=_MODEL, nulls_equal=True).select(trained.columns)])


PLOT = Plot(
    name="train_score_matrix",
    title="Training against scoring similarity",
    reading="Mean score of the group, times 100, of a checkpoint trained with one similarity and scored with another.",
    rows=_rows,
    by=("model", "init_regime", "scale"),
    draw=draw,
    holes=holes_of("train_score_matrix"),
)
