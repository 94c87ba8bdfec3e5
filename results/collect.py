"""Collect a sweep folder: every row its record asks for joined with its cell, and what is missing, with the reason."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from results.asked import AskedRows, asked_answers, asked_encodings, asked_evaluations, asked_norms
from results.bulk import Batch, read_all, read_batches
from results.cells import cell_of, settings_of
from results.compared import Compared, compared
from results.findings import Finding, tier_mixed, version_mixed
from results.layout import PlannedTrial, SweepRecord, history_rows, probe_rows, spec_key, trial_prefix, trial_rows
from results.missing import (
    Missing,
    missing_answers,
    missing_evaluations,
    missing_probes,
    missing_searched,
    missing_sts,
    missing_trials,
)
from results.query_rows import QueryRows, query_rows
from results.query_scores import DataKey, QueryScores, query_scores
from results.rows import provenance_of, read_rows
from results.schemas import CELL_COLUMNS, PER_QUERY, PROBES, QA, STS
from results.scores import data_set_scores
from results.selection import SETTING_COLUMNS
from results.softmax import SOFTMAX_COLUMNS
from results.spearman import spearman
from results.store import Readable
from results.studies import search_notes
from results.versions import Made, mixed_versions
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.specs import DataSpec, TrialSpec, from_json

_DATA_KEY = ["data_set", "data_hash", "split", "tier"]


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """Rows of one file; `title` says for people what they are of."""

    title: str
    schema: Literal["sts", "qa", "probes"]
    table: pa.Table
    trial_id: str


@dataclass(frozen=True, kw_only=True)
class Collected:
    """All rows of a sweep that its record asks for.

    Attributes:
        trials: one row per checkpoint, trained or untrained: the schema TRIALS, and `title`.
        expected: one row per trial, group, data set and score similarity that the sweep must have scored: `trial_id`,
            `title`, the cell, SOFTMAX_COLUMNS, its training settings, `group`, `data_set`, `data_hash`, `split`,
            `tier`, `part_of`, `measure` (the main one) and `score_similarity`. Trials without a checkpoint are in it
            where the folder has their spec.
        expected_sts: the same for data sets of scored pairs, which have no measure per query.
        expected_answers: one row per trial, data set whose questions a reader answers and score similarity: as
            `expected`, with `reader` and `num_passages` in place of `group` and `measure`.
        scored: what the folder has of it, one row per trial, group and stored evaluation: `trial_id`, the cell,
            `group`, `main_measure`, and the columns of `QueryRows.blocks`. A data set in two groups stands in both.
        query_rows: their scores per query.
        data_set_scores: `scores.data_set_scores` of both.
        answers: `trial_id`, the cell and the schema QA, without checkpoint hash.
        correlations: of scored pairs, `trial_id`, the cell, `group`, and what `results.spearman` gives.
        probes: the schema PROBES.
        missing: what the sweep asked for and the folder does not have.
        warnings: what makes the rows comparable only with care, one line each.
        unequal_searches: in what searches for hyperparameters did not treat similarities alike, one line each.
        findings: duplicate, version-mixed and tier-mixed trials, which are in the rows.
    """

    store: Readable
    record: SweepRecord
    trials: pl.DataFrame
    expected: pl.DataFrame
    expected_sts: pl.DataFrame
    expected_answers: pl.DataFrame
    scored: pl.DataFrame
    query_rows: QueryRows
    data_set_scores: pl.DataFrame
    answers: pl.DataFrame
    correlations: pl.DataFrame
    probes: pl.DataFrame
    missing: tuple[Missing, ...]
    warnings: tuple[str, ...]
    unequal_searches: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    _compared: list[tuple[pl.DataFrame, str, list[Compared]]] = field(default_factory=list, repr=False, compare=False)
    _made: dict[Hashable, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: Hashable, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """What `make` gives, made once for each `what`: several tables show it."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def compared(self, chosen: pl.DataFrame, *, reference: str) -> list[Compared]:
        """`results.compared.compared` of some rows of `expected`, made once: several tables show the same cells."""
        for rows, like, cells in self._compared:
            if like == reference and rows.equals(chosen):
                return cells
        cells = compared(self.query_scores, chosen, reference=reference)
        self._compared.append((chosen, reference, cells))
        return cells

    @cached_property
    def per_query(self) -> pl.DataFrame:
        """`trial_id`, the cell, `group`, the schema PER_QUERY, and `is_main`, whether the measure is the main one."""
        rows = self.query_rows.wide(self.scored)
        is_main = (pl.col("measure") == pl.col("main_measure")).alias("is_main")
        return rows.select("trial_id", *CELL_COLUMNS, "group", *PER_QUERY.names, is_main)

    @cached_property
    def query_scores(self) -> dict[DataKey, QueryScores]:
        """The main measures as arrays; made once, since several tables need them."""
        return query_scores(self.scored, self.query_rows)

    def norms(self) -> pl.DataFrame:
        """Norms of the texts, the schema NORMS and `trial_id`; read when asked for, since they are many."""
        asked = dict.fromkeys(k for t in self.trials.iter_rows(named=True) for k in asked_norms(self.store, t))
        rows = read_all(self.store, [key for key in asked if self.store.exists(key)], "norms")
        data = _planned_data(self.record).select("data_set", "data_hash", "split").unique()
        trials = self.trials.select("trial_id", "checkpoint_hash")
        rows = rows.unique(pl.exclude("norm"), keep="first", maintain_order=True)  # of both tiers, once
        return rows.join(data, on=data.columns, how="semi").join(trials, on="checkpoint_hash")

    def history(self) -> pl.DataFrame:
        """What every step of the trainings showed, the schema HISTORY; read when asked for, since it is much."""
        trained = self.trials.filter(pl.col("kind") == "train")["trial_id"]
        keys = [history_rows(trial) for trial in trained if self.store.exists(history_rows(trial))]
        return read_all(self.store, keys, "history")

    def encodings(self) -> Iterator["Encoding"]:
        """Norms with judgements of every trial on every collection that it is ranked on, one at a time.

        Those of which the folder has neither norms nor judgements are left away.
        """
        judged: dict[str, pl.DataFrame] = {}
        for trial in self.trials.iter_rows(named=True):
            for asked in asked_encodings(self.store, trial):
                if not (self.store.exists(asked.norms) and self.store.exists(asked.judgements)):
                    continue
                if asked.judgements not in judged:
                    judged[asked.judgements] = _frame(read_rows(self.store, asked.judgements, "judgements"))
                yield Encoding(
                    trial_id=trial["trial_id"],
                    data=asked.evaluation.data,
                    norms=_frame(read_rows(self.store, asked.norms, "norms")),
                    judgements=judged[asked.judgements],
                )

    def scored_pairs(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """(trial id, rows of the schema STS) of every trial, data set of pairs and score similarity, one at a time."""
        for trial in self.trials.iter_rows(named=True):
            for asked in asked_evaluations(self.store, trial):
                if asked.evaluation.data.entry.is_scored and self.store.exists(asked.key):
                    yield trial["trial_id"], _frame(read_rows(self.store, asked.key, "sts"))


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """What one trial's encoder made of one collection: norms (the schema NORMS) beside JUDGEMENTS."""

    trial_id: str
    data: DataSpec
    norms: pl.DataFrame
    judgements: pl.DataFrame


def collect(
    store: Readable, record: SweepRecord, *, parts: Sequence[SweepRecord] = (), findings: Sequence[Finding] = ()
) -> Collected:
    """Read what the record lists; rows of trials, data sets and versions of them that it does not list are ignored.

    Args:
        store: what holds the rows.
        record: what is asked for.
        parts: the records that `record` joins: a trial is expected on the groups that one with it asks for.
        findings: of joining them.

    Raises:
        SchemaError: another version of the contract wrote the rows.
    """
    trained = [t for t in record.trials if store.exists(trial_rows(t.trial_id))]
    not_trained = [t for t in record.trials if t not in trained]
    probed = {p: _read_probe(store, p) for p in record.probes if store.exists(probe_rows(p.trial_id))}
    trials = _read_trials(store, trained)
    asked = _asked_keys(store, trials)
    others = _read_others(store, asked)
    provenance: dict[str, str | None] = {}
    rows = query_rows(
        _noted(read_batches(store, [k for k, a in asked.items() if a.is_ranked], "per_query"), provenance)
    )
    scored = _scored_blocks(record, trials, rows)
    scores = data_set_scores(scored, rows)
    correlations = _correlations(record, trials, _tables(others, "sts"))
    answers = _answers(record, trials, _concat(QA, _tables(others, "qa")))
    cells, planned_cells = _cells_of(trials), _planned_cells(store, not_trained)
    expected, expected_sts = _expected(record, cells, parts)
    planned, planned_sts = _expected(record, planned_cells, parts)
    expected_answers = _expected_answers(record, cells, parts)
    made = [
        *_made_trials(trials),
        *(
            Made(kind="evaluation", title=asked[key].title, provenance_json=text, trial_id=asked[key].trial_id)
            for key, text in provenance.items()
            if text is not None
        ),
        *_made_stored(others, "evaluation"),
        *_made_stored(probed.values(), "probe"),
    ]
    return Collected(
        store=store,
        record=record,
        trials=trials,
        expected=pl.concat([expected, planned]),
        expected_sts=pl.concat([expected_sts, planned_sts]),
        expected_answers=pl.concat([expected_answers, _expected_answers(record, planned_cells, parts)]),
        scored=scored,
        query_rows=rows,
        data_set_scores=scores,
        answers=answers,
        correlations=correlations,
        probes=_concat(PROBES, (stored.table for stored in probed.values())),
        missing=(
            *missing_trials(store, not_trained),
            *missing_searched(store, record.studies),
            *missing_evaluations(store, expected, scores),
            *missing_sts(store, expected_sts, correlations),
            *missing_answers(store, expected_answers, answers),
            *missing_probes(store, [p for p in record.probes if p not in probed]),
        ),
        warnings=tuple(mixed_versions(made)),
        unequal_searches=search_notes(store, record),
        findings=(*findings, *version_mixed(made), *tier_mixed(scored, trials)),
    )


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
    return frame


def _concat(schema: pa.Schema, tables: Iterable[pa.Table]) -> pl.DataFrame:
    return _frame(pa.concat_tables([_no_rows(schema), *tables]))


def _no_rows(schema: pa.Schema) -> pa.Table:
    # From no batches: `schema.empty_table` would import pandas, a quarter of a second.
    return pa.Table.from_batches([], schema=schema)


def _read_trials(store: Readable, trained: Iterable[PlannedTrial]) -> pl.DataFrame:
    titles = {t.trial_id: t.title for t in trained}
    rows = read_all(store, [trial_rows(key) for key in titles], "trials")
    return rows.with_columns(title=pl.Series(titles.values(), dtype=pl.String))


_TEXTS = ("schedule", "precision", "loss_directions", "towers")
_SETTING_TYPES = {name: pl.String if name in _TEXTS else pl.Float64 for name in SETTING_COLUMNS}


def _cells_of(trials: pl.DataFrame) -> pl.DataFrame:
    """The cells of checkpoints with their settings."""
    settings = [settings_of(from_json(TrialSpec, text)) for text in trials["spec_json"]]
    cells = trials.select("trial_id", "title", *CELL_COLUMNS, *SOFTMAX_COLUMNS)
    return cells.hstack(pl.DataFrame(settings, schema=_SETTING_TYPES))


def _planned_cells(store: Readable, planned: Iterable[PlannedTrial]) -> pl.DataFrame:
    """The cells of trials without a checkpoint, from their specs."""
    cells = []
    for trial in planned:
        key = spec_key(trial_prefix(trial.trial_id))
        if store.exists(key):
            spec = from_json(TrialSpec, store.read(key))
            cells.append({"trial_id": trial.trial_id, "title": trial.title, **cell_of(spec), **settings_of(spec)})
    return pl.DataFrame(cells, schema=_cells_of(_read_trials(store, ())).schema)


def _planned_data(record: SweepRecord) -> pl.DataFrame:
    """One row per data set and group: the data set's key, `part_of`, `measure` (its main one) and `group`."""
    names = [*_DATA_KEY, "part_of", "main_measure"]
    rows = [(*(getattr(e, name) for name in names), group) for e in record.evaluations for group in e.groups]
    planned = pl.DataFrame(rows, schema=dict.fromkeys([*names, "group"], pl.String), orient="row")
    return planned.rename({"main_measure": "measure"})


def _planned_questions(record: SweepRecord) -> pl.DataFrame:
    """One row per data set whose questions a reader answers."""
    names = [*_DATA_KEY, "part_of", "reader"]
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
    expected = _scored(cells).join(_planned_questions(record), how="cross")
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
    expected = _scored(cells).join(_planned_data(record), how="cross")
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


def _read_probe(store: Readable, probe: PlannedTrial) -> _Stored:
    table = read_rows(store, probe_rows(probe.trial_id), "probes")
    return _Stored(title=probe.title, schema="probes", table=table, trial_id=probe.trial_id)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Rows that are there of those that a trial's checkpoint must have."""

    trial_id: str
    title: str
    schema: Literal["per_query", "sts", "qa"]

    @property
    def is_ranked(self) -> bool:
        return self.schema == "per_query"


def _asked_keys(store: Readable, trials: pl.DataFrame) -> dict[str, _Asked]:
    """The evaluations that are there of those that the trials' checkpoints must have, by key."""
    found: dict[str, _Asked] = {}
    for trial in trials.iter_rows(named=True):
        for asked, schema in _asked(store, trial):
            # Two trials can have one checkpoint: the first names its rows.
            if asked.key not in found and store.exists(asked.key):
                title = f"{trial['title']} on {asked.evaluation.data.name} scored with {asked.score_similarity}"
                found[asked.key] = _Asked(trial_id=trial["trial_id"], title=title, schema=schema)
    return found


def _read_others(store: Readable, asked: Mapping[str, _Asked]) -> list[_Stored]:
    """Scored pairs and answers."""
    return [
        _Stored(title=of.title, schema=of.schema, table=read_rows(store, key, of.schema), trial_id=of.trial_id)
        for key, of in asked.items()
        if of.schema != "per_query"
    ]


def _noted(batches: Iterable[Batch], provenance: dict[str, str | None]) -> Iterator[Batch]:
    """The batches, with what made each key noted in `provenance`."""
    for batch in batches:
        provenance.update(zip(batch.keys, batch.provenance, strict=True))
        yield batch


def _asked(store: Readable, trial: Mapping[str, Any]) -> Iterator[tuple[AskedRows, Literal["per_query", "sts", "qa"]]]:
    for asked in asked_evaluations(store, trial):
        yield asked, "sts" if asked.evaluation.data.entry.is_scored else "per_query"
    for asked in asked_answers(store, trial):
        yield asked, "qa"


def _tables(stored: Iterable[_Stored], schema: str) -> list[pa.Table]:
    return [item.table for item in stored if item.schema == schema]


def _made_trials(trials: pl.DataFrame) -> Iterator[Made]:
    """What the trials were made with."""
    for trial_id, title, provenance in trials.select("trial_id", "title", "provenance_json").rows():
        yield Made(kind="trial", title=title, provenance_json=provenance, trial_id=trial_id)


def _made_stored(stored: Iterable[_Stored], kind: str) -> Iterator[Made]:
    """What other rows were made with, where they say so."""
    for item in stored:
        provenance = provenance_of(item.table)
        if provenance is not None:
            yield Made(kind=kind, title=item.title, provenance_json=provenance, trial_id=item.trial_id)


def _scored_blocks(record: SweepRecord, trials: pl.DataFrame, rows: QueryRows) -> pl.DataFrame:
    cells = trials.select("trial_id", *CELL_COLUMNS, "checkpoint_hash")
    planned = _planned_data(record).drop("part_of").rename({"measure": "main_measure"})
    # Two trials can have one checkpoint hash (a setting without effect): each then has these rows.
    joined = rows.blocks.join(planned, on=_DATA_KEY, maintain_order="left_right")
    joined = joined.join(cells, on="checkpoint_hash", maintain_order="left_right")
    return joined.select("trial_id", *CELL_COLUMNS, "group", "main_measure", *rows.blocks.columns)


def _answers(record: SweepRecord, trials: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    cells = trials.select("trial_id", *CELL_COLUMNS, "checkpoint_hash")
    joined = rows.join(_planned_questions(record).select(_DATA_KEY), on=_DATA_KEY).join(cells, on="checkpoint_hash")
    return joined.select("trial_id", *CELL_COLUMNS, pl.col(rows.columns).exclude("checkpoint_hash"))


def _correlations(record: SweepRecord, trials: pl.DataFrame, tables: Iterable[pa.Table]) -> pl.DataFrame:
    """The correlation of each evaluation on scored pairs; of one file at a time, since the pairs are many."""
    rows = pl.concat([spearman(_frame(table)) for table in (_no_rows(STS), *tables)])
    planned = _planned_data(record).drop("tier", "measure", "part_of").unique(maintain_order=True)
    cells = trials.select("trial_id", *CELL_COLUMNS, "checkpoint_hash")
    joined = rows.join(planned, on=["data_set", "data_hash", "split"]).join(cells, on="checkpoint_hash")
    return joined.select("trial_id", *CELL_COLUMNS, "group", *rows.columns)
