"""Choose trials by their cell and settings, and refuse to average what must not be averaged."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

import polars as pl

from results.schemas import CELL_COLUMNS
from search_spaces.problems import unknown_name
from search_spaces.specs import TrainingSettings

TRAINING_COLUMNS = tuple(field.name for field in fields(TrainingSettings))
ENCODER_COLUMNS = ("towers", "max_query_length", "max_document_length")
SETTING_COLUMNS = (*TRAINING_COLUMNS, *ENCODER_COLUMNS)
SELECTABLE = (*CELL_COLUMNS, *SETTING_COLUMNS, "tier")
# What training adds to a row: an untrained checkpoint has none of it, and a choice by it leaves that checkpoint in.
_OF_TRAINING = ("training_data", "training_data_hash", "num_pairs", "scale_mode", "scale_value", "seed")
OF_RESULT = ("similarity", "kind")  # these pick rows of a table, which still need the baseline and untrained rows
_MOST_TOLD = 12  # values that a refusal lists


class SelectionError(ValueError):
    """A choice of rows that cannot be made, or whose mean would mix what is not comparable."""


class NothingChosenError(SelectionError):
    """A choice that these rows have nothing of; another table of the same sweep may."""


def choice_problems(frames: Sequence[pl.DataFrame], where: Mapping[str, str]) -> list[str]:
    """What is wrong with a choice, whichever table it is for: columns and values that nothing in `frames` has.

    `frames` are rows with columns SELECTABLE. A similarity must be one that some of them was trained with.
    """
    rows = pl.concat([frame.select(SELECTABLE) for frame in frames])
    # An untrained checkpoint has no similarity of its own: what it is scored with is the table's to choose.
    is_untrained = where.get("kind") == "untrained"
    asked = {column: text for column, text in where.items() if not is_untrained or column != "similarity"}
    problems = []
    for column, text in asked.items():
        known = rows.filter(pl.col("kind") == "train") if column == "similarity" else rows
        try:
            select(known, {column: text})
        except SelectionError as error:
            problems.append(str(error))
    if not problems and len(asked) > 1:
        try:
            select(rows, asked)
        except NothingChosenError as error:
            problems.append(f"{error}, together with {_choice(where)}")
    return problems


def _choice(where: Mapping[str, str]) -> str:
    return " ".join(f"{column}={text}" for column, text in where.items())


def select_trials(trials: pl.DataFrame, where: Mapping[str, str]) -> pl.DataFrame:
    """What a table is computed from: `select`, without choosing by similarity or kind."""
    return select(trials, {column: text for column, text in where.items() if column not in OF_RESULT})


def select_result(rows: pl.DataFrame, where: Mapping[str, str]) -> pl.DataFrame:
    """What of a computed table is shown: the choice by similarity or kind."""
    chosen = {column: text for column, text in where.items() if column in OF_RESULT}
    return select(rows, chosen, of="row of this table")


def select(trials: pl.DataFrame, where: Mapping[str, str], *, of: str = "trial") -> pl.DataFrame:
    """The rows of `trials` (with columns SELECTABLE) that have every value in `where`; 'none' is an empty value.

    Raises:
        SelectionError: a column that cannot be chosen by, or a value of another type.
        NothingChosenError: a value that no row has, with those that are there.
    """
    for column, text in where.items():
        if column not in SELECTABLE:
            raise SelectionError(f"--where {column}={text}: {unknown_name('column to choose by', column, SELECTABLE)}")
        matches = pl.col(column).is_null() if text == "none" else pl.col(column) == _value(trials, column, text)
        if trials.filter(matches).is_empty():
            raise NothingChosenError(f"--where {column}={text}: no {of} has it ({_there_are(trials[column], text)})")
        if column in (*_OF_TRAINING, *TRAINING_COLUMNS):
            matches = matches | ((pl.col("kind") == "untrained") & pl.col(column).is_null())
        trials = trials.filter(matches)
    return trials


def _there_are(values: pl.Series, text: str) -> str:
    """The values that can be chosen, the nearest to `text` first."""
    known = [value_text(value) for value in values.unique().drop_nulls().sort()]
    known += ["none"] if values.null_count() else []
    near = get_close_matches(text, known, n=1) if values.dtype == pl.String else []  # of numbers letters say nothing
    hint = f"did you mean '{near[0]}'? " if near else ""
    more = f" and {len(known) - _MOST_TOLD} more" if len(known) > _MOST_TOLD else ""
    return f"{hint}there are: {', '.join(known[:_MOST_TOLD]) or 'none'}{more}"


def value_text(value: Any) -> str:
    """A value as `--where` takes it, with every digit that tells it from others."""
    if value is None:
        return "none"
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


def _value(trials: pl.DataFrame, column: str, text: str) -> Any:
    dtype = trials.schema[column]
    try:
        return text if dtype == pl.String else float(text)
    except ValueError as error:
        raise SelectionError(f"--where {column}={text}: '{text}' is not a number") from error


def refuse_mixed_tiers(chosen: pl.DataFrame) -> None:
    """Raise where a table of these rows would set scores on pools beside scores over whole corpora.

    Raises:
        SelectionError: naming what is of which tier, and what to do.
    """
    column = "group" if "group" in chosen.columns else "data_set"
    of_tier = dict(chosen.group_by("tier").agg(pl.col(column).unique(maintain_order=True)).sort("tier").iter_rows())
    if len(of_tier) > 1:
        named = " and ".join(f"{', '.join(names)} ({tier})" for tier, names in of_tier.items())
        raise SelectionError(
            f"the rows are of two evaluation tiers, {named}, and a score on a pool is not one over a whole corpus: "
            "choose one (--where tier=full, or tier=pool)"
        )


def refuse_pooling(trained: pl.DataFrame) -> None:
    """Raise where a table of these trained trials would average over training data sets or over scales.

    Raises:
        SelectionError: naming the values and what to do.
    """
    refuse_pooled_data(trained)
    scales = trained.select("scale_mode", "scale_value").unique().sort("scale_mode", "scale_value")
    if scales.height > 1:
        by = "scale_mode" if scales["scale_mode"].n_unique() > 1 else "scale_value"
        names = [scale_name(mode, value) for mode, value in scales.iter_rows()]
        raise SelectionError(_pooled("scale", names, f"{by}={value_text(scales[by][0])}"))


def refuse_pooled_data(trained: pl.DataFrame) -> None:
    """Raise where a table of these trained trials would average over training data sets.

    Raises:
        SelectionError: naming the data sets and what to do.
    """
    data = trained.select("training_data", "training_data_hash").unique().sort("training_data", "training_data_hash")
    if data.height > 1:
        by = "training_data" if data["training_data"].n_unique() > 1 else "training_data_hash"
        names = [f"'{name}' (content {content[:8]})" for name, content in data.iter_rows()]
        raise SelectionError(_pooled("training data set", names, f"{by}={data[by][0]}"))


def _pooled(axis: str, names: list[str], choice: str) -> str:
    return (
        f"the rows hold more than one {axis}, {' and '.join(names)}, and a mean over them says little: "
        f"choose one (--where {choice}), or ask for that mean (--pool)"
    )


def refuse_repeats(trials: pl.DataFrame) -> None:
    """Raise where trials share cell and seed (they differ in hyperparameters): their mean is not one over seeds.

    Raises:
        SelectionError: naming the trials and what to do.
    """
    distinct = trials.unique("trial_id", keep="first", maintain_order=True)
    repeated = distinct.filter(pl.struct(CELL_COLUMNS).is_duplicated())
    if repeated.is_empty():
        return
    first = repeated.row(0, named=True)
    same = repeated.filter(pl.all_horizontal(pl.col(c).eq_missing(first[c]) for c in CELL_COLUMNS))
    differ = [c for c in SETTING_COLUMNS if same[c].n_unique() > 1]
    named = " and ".join(_settings(row, differ or ["trial_id"]) for row in same.iter_rows(named=True))
    remedy = f"choose one (--where {_settings(first, differ[:1])})" if differ else "collect them apart"
    raise SelectionError(
        f"{same.height} trials are of one cell and seed, {first['title']} ({named}), and their mean is not one over "
        f"seeds: {remedy}"
    )


def _settings(row: Mapping[str, Any], columns: list[str]) -> str:
    return " ".join(f"{c}={value_text(row[c])}" for c in columns)


def data_names(trained: pl.DataFrame) -> pl.Expr:
    """The training data sets of the rows in one text."""
    return pl.lit(" + ".join(trained["training_data"].unique().sort()))


def training_names(trained: pl.DataFrame) -> list[pl.Expr]:
    """`training_data` and `scale`: what the rows were trained on and at, each in one text."""
    scales = trained.select("scale_mode", "scale_value").unique().sort("scale_mode", "scale_value").rows()
    names = pl.lit(" + ".join(scale_name(mode, value) for mode, value in scales))
    return [data_names(trained).alias("training_data"), names.alias("scale")]


def scale_name(mode: str, value: float) -> str:
    """A scale as the sweep file writes it: 'fixed(20)'."""
    return f"{mode}({value:g})"


def scale_text() -> pl.Expr:
    """`scale_name` of each row."""
    return pl.struct("scale_mode", "scale_value").map_elements(_scale_of, return_dtype=pl.String)


def _scale_of(row: Mapping[str, Any]) -> str | None:
    known = row["scale_mode"] is not None and row["scale_value"] is not None
    return scale_name(row["scale_mode"], row["scale_value"]) if known else None
