"""One training in its parts: loss, norms, validation; what the run of a trial shows in MLflow."""

import polars as pl
from matplotlib.figure import Figure

from results.plots.style import DASHES, OKABE_ITO, new_figure, panels, styled, thinned

_PANELS = (
    ("loss", ("loss",)),
    ("mean norm of embeddings", ("query_norm_mean", "document_norm_mean")),
    ("validation score", ("validation_score",)),
)


@styled()
def training_curves(history: pl.DataFrame, title: str) -> Figure:
    """One training: loss, norms and validation, as far as it has them; `history` has columns of the schema HISTORY."""
    shown = [(name, [c for c in columns if history[c].drop_nulls().len()]) for name, columns in _PANELS]
    shown = [(name, columns) for name, columns in shown if columns]
    figure = new_figure(width=3.2 * len(shown), height=2.6)
    figure.suptitle(title, fontsize=10)
    points = thinned(history)
    for axes, (name, columns) in zip(panels(figure, len(shown), columns=3), shown, strict=True):
        axes.set(title=name, xlabel="optimiser step")
        source = history if name == "validation score" else points
        for index, column in enumerate(columns):
            curve = source.select("step", column).drop_nulls()
            label = column.partition("_")[0] if len(columns) > 1 else None
            colour, dashes = OKABE_ITO[6 - 2 * index], DASHES[index]  # blue, then vermilion
            axes.plot(curve["step"], curve[column], color=colour, linestyle=dashes, linewidth=1.2, label=label)
        if len(columns) > 1:
            axes.legend(frameon=False)
    return figure
