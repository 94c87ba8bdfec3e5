"""What a sweep must have scored: every checkpoint, trained or planned, on every data set and group that it asks for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from results.cells import cell_of, settings_of
from results.layout import PlannedTrial, SweepRecord, spec_key, trial_prefix
from results.schemas import CELL_COLUMNS
from results.selection import SETTING_COLUMNS
from results.softmax import SOFTMAX_COLUMNS
from results.store import Readable
from results.stored_rows import read_trials
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.specs import TrialSpec, from_json

DATA_KEY = ["data_set", "data_hash", "split", "tier"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What some checkpoints must be scored on: `Collected.expected`, `expected_sts` and `expected_answers`."""

    ranked: pl.DataFrame
    pairs: pl.DataFrame
    answers: pl.DataFrame

    def and_also(self, other: "Expected") -> "Expected":
        """The rows of both."""
        return Expected(
            ranked=pl.concat([self.ranked, other.ranked]),
            pairs=pl.concat([self.pairs, other.pairs]),
            answers=pl.concat([self.answers, other.answers]),
        )


def expected_of(record: SweepRecord, cells: pl.DataFrame, parts: Sequence[SweepRecord]) -> Expected:
    """What must be scored of checkpoints.

    Args:
        record: what is asked for.
        cells: those of `cells_of` or `planned_cells`.
        parts: the records that `record` joins: a trial is expected on the groups that one with it asks for.
    """
    ranked, pairs = _expected(record, cells, parts)
    return Expected(ranked=ranked, pairs=pairs, answers=_expected_answers(record, cells, parts))


_TEXTS = ("schedule", "precision", "loss_directions", "towers")
_SETTING_TYPES = {name: pl.String if name in _TEXTS else pl.Float64 for name in SETTING_COLUMNS}


def cells_of(trials: pl.DataFrame) -> pl.DataFrame:
    """The cells of checkpoints with their settings."""
    settings = [settings_of(from_json(TrialSpec, text)) for text in trials["spec_json"]]
    cells = trials.select("trial_id", "title", *CELL_COLUMNS, *SOFTMAX_COLUMNS)
    return cells.hstack(pl.DataFrame(settings, schema=_SETTING_TYPES))


def planned_cells(store: Readable, planned: Iterable[PlannedTrial]) -> pl.DataFrame:
    """The cells of trials without a checkpoint, from their specs."""
    cells = []
    for trial in planned:
        key = spec_key(trial_prefix(trial.trial_id))
        if store.exists(key):
            spec = from_json(TrialSpec, store.read(key))
            cells.append({"trial_id": trial.trial_id, "title": trial.title, **cell_of(spec), **settings_of(spec)})
    return pl.DataFrame(cells, schema=cells_of(read_trials(store, ())).schema)


def planned_data(record: SweepRecord) -> pl.DataFrame:
    """One row per data set and group: the data set's key, `part_of`, `measure` (its main one) and `group`."""
    names = [*DATA_KEY, "part_of", "main_measure"]
    rows = [(*(getattr(e, name) for name in names), group) for e in record.evaluations for group in e.groups]
    planned = pl.DataFrame(rows, schema=dict.fromkeys([*names, "group"], pl.String), orient="row")
    return planned.rename({"main_measure": "measure"})


def planned_questions(record: SweepRecord) -> pl.DataFrame:
    """One row per data set whose questions a reader answers."""
    names = [*DATA_KEY, "part_of", "reader"]
    rows = [tuple(getattr(e, name) for name in (*names, "num_passages")) for e in record.evaluations if e.reader]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), "num_passages": pl.Int64}, orient="row")


def _scored(cells: pl.DataFrame) -> pl.DataFrame:
    """The cells with what each must be scored with.

    A trained checkpoint is scored with its own similarity, an untrained one with each that is not trained.
    """
    fixed = pl.DataFrame({"score_similarity": [s.name for s in SIMILARITIES.values() if not s.trained]})
    is_trained = pl.col("kind") == "train"
    own = cells.filter(is_trained).with_columns(score_similarity=pl.col("similarity"))
    return pl.concat([own, cells.filter(~is_trained).join(fixed, how="cross")])


def _expected_answers(record: SweepRecord, cells: pl.DataFrame, parts: Sequence[SweepRecord]) -> pl.DataFrame:
    """What must be answered; of several sweeps a trial need answer what one with it asks."""
    expected = _scored(cells).join(planned_questions(record), how="cross")
    if not parts:
        return expected
    return _of_parts(expected, [(part, [(e.data_set, e.tier) for e in part.evaluations if e.reader]) for part in parts])


def _expected(
    record: SweepRecord, cells: pl.DataFrame, parts: Sequence[SweepRecord]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What must be scored, on retrieval collections and on scored pairs.

    Of several sweeps a trial need be scored on the groups that one with it asks for, but on all data sets that any has
    in such a group: means over different data sets are not compared.
    """
    expected = _scored(cells).join(planned_data(record), how="cross")
    if parts:
        asked = [(part, [(group, e.tier) for e in part.evaluations for group in e.groups]) for part in parts]
        expected = _of_parts(expected, asked, "group")
    of_pairs = pl.col("measure") == SPEARMAN
    return expected.filter(~of_pairs), expected.filter(of_pairs)


def _of_parts(
    expected: pl.DataFrame, asked: Iterable[tuple[SweepRecord, list[tuple[str, str]]]], column: str = "data_set"
) -> pl.DataFrame:
    """Of `expected` what is asked of a trial by a sweep that has it: pairs of `column` and tier."""
    rows = {(trial.trial_id, *pair) for part, pairs in asked for trial in part.trials for pair in pairs}
    schema = dict.fromkeys(("trial_id", column, "tier"), pl.String)
    of_trials = pl.DataFrame(list(rows), schema=schema, orient="row")
    return expected.join(of_trials, on=list(schema), how="semi", maintain_order="left")
