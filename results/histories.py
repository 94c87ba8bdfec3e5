"""The steps of all trainings of a sweep, with what was trained: loss and gammas over time."""

from collections.abc import Mapping

import polars as pl

from results.collect import Collected
from results.layout import history_rows
from results.rows import read_rows
from results.selection import scale_text, select_trials

STEPS = ("step", "loss", "gamma_q", "gamma_d")
_CELL = ("task", "training_data", "family", "layers", "init_regime", "scale_mode", "scale_value", "similarity", "seed")


def histories(collected: Collected, where: Mapping[str, str]) -> pl.DataFrame:
    """One row per step of each training that has a checkpoint and is chosen by `where`.

    Columns: `trial_id`, the cell, `scale` as text, and STEPS; steps of a trial are in order.

    Raises:
        SelectionError: the choice finds nothing.
    """
    chosen = select_trials(collected.every_trial, where)["trial_id"].unique()
    trained = collected.trials.filter(
        (pl.col("kind") == "train") & pl.col("similarity").is_not_null() & pl.col("trial_id").is_in(chosen.implode())
    )
    cells = trained.select("trial_id", *_CELL).with_columns(scale=scale_text())
    found = []
    for trial_id in trained["trial_id"]:
        if collected.store.exists(history_rows(trial_id)):
            rows = read_rows(collected.store, history_rows(trial_id), "history").select(["trial_id", *STEPS])
            found.append(pl.DataFrame(rows).sort("step"))
    none = pl.DataFrame(schema={"trial_id": pl.String, "step": pl.Int64, **dict.fromkeys(STEPS[1:], pl.Float64)})
    return pl.concat([none, *found]).join(cells, on="trial_id", maintain_order="left")
