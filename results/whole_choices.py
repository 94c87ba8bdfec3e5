"""The choices that tables ask for before they average: of each that can be made, one, so that together all is shown."""

from collections.abc import Iterator, Mapping

import polars as pl

from results.collect import Collected
from results.schemas import CELL_COLUMNS
from results.selection import SELECTABLE, SETTING_COLUMNS, value_text


def whole_choices(collected: Collected) -> list[Mapping[str, str]]:
    """`--where` choices, an empty one where tables can be made of all rows as they are."""
    frames = (collected.expected, collected.expected_sts, collected.expected_answers)
    rows = pl.concat([frame.select("trial_id", *SELECTABLE) for frame in frames])
    trained = rows.filter(pl.col("kind") == "train")
    columns = list(_columns(collected, rows, trained))
    if not columns:
        return [{}]
    found = trained.select(columns).unique(maintain_order=True)
    return [{name: value_text(value) for name, value in row.items()} for row in found.iter_rows(named=True)]


def _columns(collected: Collected, rows: pl.DataFrame, trained: pl.DataFrame) -> Iterator[str]:
    """The columns whose values `refuse_mixed_tiers`, `refuse_pooling` and `refuse_repeats` keep apart."""
    if rows["tier"].n_unique() > 1:
        yield "tier"
    if trained["training_data_hash"].n_unique() > 1:
        names = trained.select("training_data", "training_data_hash").unique()
        yield "training_data" if names["training_data"].n_unique() == names.height else "training_data_hash"
    if collected.expected_sts.height or collected.expected_answers.height:
        yield from (name for name in ("scale_mode", "scale_value") if trained[name].n_unique() > 1)
    distinct = trained.unique("trial_id")
    repeated = distinct.filter(pl.struct(CELL_COLUMNS).is_duplicated())
    varying = (pl.col(name).n_unique() for name in SETTING_COLUMNS)
    counts = repeated.group_by(CELL_COLUMNS).agg(*varying)
    yield from (name for name in SETTING_COLUMNS if repeated.height and counts[name].to_numpy().max() > 1)
