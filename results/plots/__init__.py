"""The plots: a registry of named ones, each rows of a sweep and a function that draws them. A module here adds one.

The only package with matplotlib, which takes half a second to import: who draws imports it then.
"""

from results.plots import cohen_d, curves, fisher_check, gains, gains_by_dataset, norms, spectra, train_score_matrix
from search_spaces.catalogue.registry import Registry

PLOTS = Registry(
    "plot",
    [
        gains.PLOT,
        gains_by_dataset.PLOT,
        train_score_matrix.PLOT,
        norms.PLOT,
        cohen_d.PLOT,
        *spectra.PLOTS,
        fisher_check.PLOT,
        curves.LOSSES,
        curves.GAMMAS,
    ],
)
