"""What the tables of gains and their tests share: their rows, the trials they choose, and what their notes say."""

from collections.abc import Iterator, Sequence

import polars as pl

from results.collect import Collected
from results.compared import Compared, Comparisons
from results.estimates import FIXED_SEEDS, LEVELS, with_marks
from results.gain_intervals import POOLED, gain_intervals, with_intervals
from results.gains import gains, start_similarity
from results.selection import NothingChosenError, SelectionError, refuse_repeats, select_trials
from results.statistics.estimate import LEVEL
from results.tables.parts import correction_name, missing_lines, model_name, varying
from results.tables.table import Column, Origin, TableOptions
from search_spaces.problems import unknown_name

INTERVAL = f"{LEVEL:.0%} interval"
OWN, BOTH = Origin(), Origin(trials=("trial_ids", "baseline_trial_ids"))
BEFORE = Origin(trials=("untrained_trial_ids",))
TWO_WAY = "the two-way model of seeds and queries"


def gain_rows(collected: Collected, expected: pl.DataFrame, options: TableOptions) -> pl.DataFrame:
    """Scores and gains with intervals and marks, an untrained checkpoint as one row of each block.

    Raises what `results.gains.gains` raises.

    Args:
        collected: the rows.
        expected: whose groups are shown.
        options: baseline, choice and correction.
    """
    every = gains(
        collected.data_set_scores, expected, baseline=options.baseline, where=options.where, pool=options.pool
    )
    chosen = select_trials(expected, options.where)
    is_pooled = chosen["training_data_hash"].drop_nulls().n_unique() > 1
    cells = [] if is_pooled else collected.comparisons(chosen).like(options.baseline)
    rows = with_intervals(every, gain_intervals(cells, options.baseline, correction=options.correction))
    if is_pooled:
        rows = rows.with_columns(gain_reason=pl.lit(POOLED))
    start = start_similarity(options.baseline)
    is_untrained = pl.col("kind") == "untrained"
    label = pl.when(is_untrained).then(pl.lit(f"untrained ({start})")).otherwise("similarity")
    shown = rows.filter(~is_untrained | (pl.col("similarity") == start))
    if shown.is_empty() and rows.height:
        raise NothingChosenError(f"the choice leaves untrained checkpoints alone, which are shown under {start}")
    return with_marks(shown).with_columns(model_name(), label=label)


def comparisons(collected: Collected, expected: pl.DataFrame, options: TableOptions) -> Comparisons:
    """What can be compared of the trials that `options` choose: each training data set and scale apart.

    Raises:
        SelectionError: two trials of one cell and seed, or a choice that finds nothing.
    """
    chosen = select_trials(expected, options.where)
    refuse_repeats(chosen)
    return collected.comparisons(chosen)


def compared_cells(collected: Collected, expected: pl.DataFrame, options: TableOptions) -> list[Compared]:
    """The cells with what has the baseline's seeds, for tables that name a baseline. Raises as `comparisons` does."""
    return comparisons(collected, expected, options).like(options.baseline)


def cell_columns(rows: pl.DataFrame, group_header: str = "group") -> tuple[Column, ...]:
    """The columns that say of what a row is."""
    of_training = tuple(Column(key=key, header=key.replace("_", " ")) for key in ("task", "training_data"))
    return (
        *varying(rows, of_training),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        *varying(rows, (Column(key="scale", header="scale"),)),
        Column(key="group", header=group_header),
        *varying(rows, (Column(key="measure", header="measure"),)),
    )


CELL_BLOCK = ("task", "training_data", "model", "init_regime", "scale", "group", "measure")


def trained_note(rows: pl.DataFrame) -> Iterator[str]:
    """What the shown trials were trained on, and at which scale."""
    data, scales = (", ".join(rows[name].drop_nulls().unique().sort()) for name in ("training_data", "scale"))
    if data:
        yield f"Trained on {data}, scale {scales}. Scores and gains are times 100."


def target_note() -> str:
    """What the interval of a gain speaks of."""
    return (
        f"{INTERVAL}: two-way model of seeds crossed with queries, for these data sets; for new data sets, data sets "
        "take the place of queries. A group of one data set says nothing of new ones."
    )


def mark_note(options: TableOptions, num_tests: int, what: str) -> Iterator[str]:
    """What the stars mean."""
    if num_tests:
        levels = ", ".join(f"{'*' * (place + 1)} {level:g}" for place, level in enumerate(LEVELS))
        yield (
            f"Marks: p of the two-way model, adjusted ({correction_name(options)}) over the {num_tests} {what} of this "
            f"table, is at most {levels}; in parentheses for {FIXED_SEEDS}."
        )


def one_seed_note(num_seeds: pl.Series) -> Iterator[str]:
    """That a row of one seed says nothing of another one."""
    if (num_seeds == 1).any():
        every = "One seed" if (num_seeds.drop_nulls() == 1).all() else "Rows of one seed"
        yield (
            f"{every}: intervals and marks are for {FIXED_SEEDS}, on queries like these; how far another seed would "
            "move a number is unknown."
        )


def reason_notes(rows: pl.DataFrame, column: str, what: str, key: Sequence[str]) -> Iterator[str]:
    """Why numbers are absent: a line for each reason, with the rows that have it."""
    told = rows.filter(pl.col(column).is_not_null()).select(column, pl.concat_str(key, separator="/").alias("where"))
    places = told.group_by(column, maintain_order=True).agg(pl.col("where").unique(maintain_order=True))
    for reason, where in places.rows():
        yield f"No {what} in {listed(where)}: {reason}."


_LISTED = 4


def trial_holes(collected: Collected, options: TableOptions) -> tuple[str, ...]:
    """The trials and evaluations that are missing of those chosen."""
    chosen = select_trials(collected.expected, options.where)
    return tuple(missing_lines(collected, chosen, ("trial", "evaluation")))


def check_baseline(cells: Sequence[Compared], options: TableOptions) -> None:
    """Raise where nothing was trained, or nothing with the baseline.

    Raises:
        SelectionError: naming what was trained.
    """
    known = sorted({name for cell in cells for name in cell.similarities})
    if not known:
        raise NothingChosenError("no trial to compare: the sweep has not started, or trains none of those chosen")
    if options.baseline not in known:
        raise SelectionError(f"baseline: {unknown_name('trained similarity of these rows', options.baseline, known)}")


def listed(places: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
    return f"{', '.join(places[:_LISTED])}{more}"
