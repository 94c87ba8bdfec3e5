"""Table `learned_gamma`: where trained gammas started, ended and went between, per model, init regime and seed."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.learned_gammas import learned_gammas
from results.missing import MissingKind
from results.selection import select_trials
from results.tables.parts import missing_lines, model_name, varying, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions
from search_spaces.catalogue.similarities import SIMILARITIES


def build(collected: Collected, options: TableOptions) -> Table:
    """The table of gammas. Raises what `results.learned_gammas.learned_gammas` raises."""
    rows = learned_gammas(
        collected.history(), collected.trials, collected.every_trial, where=options.where
    ).with_columns(model_name())
    return Table(
        name="learned_gamma",
        title="Learned gammas over training",
        columns=_columns(rows),
        rows=rows,
        notes=(*_notes(), *warning_notes(collected)),
        block=("task", "training_data", "scale", "model", "init_regime"),
        holes=tuple(_holes(rows, collected, options)),
        formula="s(q, d) = q.d / (|q|^gamma_q |d|^gamma_d)",
        origin=Origin(trials=("trial_id",), data="none"),
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    of = ("task", "training_data", "scale", "similarity", "learning_rate")
    first, rate = of[:-1], Column(key="learning_rate", header="learning rate", kind="plain", decimals=7)
    gammas = [
        column
        for side, name in (("gamma_q", "q"), ("gamma_d", "d"))
        for column in (
            Column(key=f"{side}_start", header=f"gamma {name} start", kind="plain", decimals=3),
            Column(key=f"{side}_half", header=f"{name} half-way", kind="plain", decimals=3, detail=True),
            Column(key=f"{side}_end", header=f"{name} end", kind="plain", decimals=3),
            Column(key=f"{side}_min", upper=f"{side}_max", header=f"{name} range", kind="interval", decimals=3),
        )
    ]
    return (
        *varying(rows, tuple(Column(key=key, header=key.replace("_", " ")) for key in first)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        *varying(rows, (rate,)),
        Column(key="seed", header="seed", kind="count"),
        *gammas,
        Column(key="gamma_difference_end", header="q - d at the end", kind="plain", decimals=3),
        Column(key="last_step", header="steps", kind="count"),
    )


def _notes() -> Iterator[str]:
    yield (
        "s(q, d) = q.d / (|q|^gamma_q |d|^gamma_d): gammas of 1 and 1 are cosine, 0 and 0 dot, 1 and 0 qnorm, 0 and 1 "
        "dnorm. One row for each training."
    )
    yield (
        "Start: before the first step; half-way: at half the steps; end: after the last step (where the best step was "
        "kept instead, that with which the last step was made); range: the smallest and the largest of all of them."
    )
    yield "q - d at the end: 0 is a symmetric similarity."


def _holes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    trained = [similarity.name for similarity in SIMILARITIES.values() if similarity.trained]
    chosen = select_trials(collected.every_trial, options.where).filter(pl.col("similarity").is_in(trained))
    kinds: tuple[MissingKind, ...] = ("trial",)
    yield from missing_lines(collected, chosen, kinds)
    known = set(collected.trials["trial_id"])
    for trial, title in rows.filter(pl.col("last_step").is_null()).select("trial_id", "title").iter_rows():
        if trial in known:
            yield f"{title}: its history rows are missing"
