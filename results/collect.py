"""Collect a sweep folder: every row its record asks for joined with its cell, and what is missing, with the reason."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl
import pyarrow as pa

from results.asked import asked_encodings, asked_evaluations, asked_norms
from results.bulk import read_all, read_batches
from results.compared import Comparisons
from results.expected_rows import DATA_KEY, cells_of, expected_of, planned_cells, planned_data, planned_questions
from results.findings import Finding, tier_mixed, version_mixed
from results.layout import PlannedTrial, SweepRecord, history_rows, probe_rows, trial_rows
from results.missing import (
    Missing,
    missing_answers,
    missing_evaluations,
    missing_norms,
    missing_pilots,
    missing_probes,
    missing_searched,
    missing_sts,
    missing_trials,
)
from results.pilots import pilot_evidence
from results.query_rows import QueryRows, query_rows
from results.query_scores import DataKey, QueryScores, query_scores
from results.rows import read_rows
from results.schemas import CELL_COLUMNS, PER_QUERY, PROBES, QA, STS
from results.scores import data_set_scores
from results.spearman import spearman
from results.store import Readable
from results.stored_rows import (
    Stored,
    asked_keys,
    frame_of,
    made_with,
    no_rows,
    noted,
    read_others,
    read_probe,
    read_trials,
    rows_of,
    tables_of,
)
from results.studies import search_notes
from results.versions import Made, mixed_versions
from search_spaces.specs import DataSpec


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
        probes: the schema PROBES: what probes wrote, and of their cells what `results.pilots` reads of pilots.
        missing: what the sweep asked for and the folder does not have, but for `missing_norms`.
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
    _compared: list[tuple[pl.DataFrame, Comparisons]] = field(default_factory=list, repr=False, compare=False)
    _made: dict[Hashable, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: Hashable, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """What `make` gives, made once for each `what`: several tables show it."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def comparisons(self, chosen: pl.DataFrame) -> Comparisons:
        """Those of some rows of `expected`, made once: several tables show the same cells."""
        for rows, cells in self._compared:
            if rows.equals(chosen):
                return cells
        cells = Comparisons(self.query_scores, chosen)
        self._compared.append((chosen, cells))
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

    @cached_property
    def missing_norms(self) -> tuple[Missing, ...]:
        """Norms that the folder lacks of what it has scores of; looked for when asked for, since they are many."""
        return tuple(missing_norms(self.store, self.trials, self.data_set_scores))

    @property
    def lacking(self) -> tuple[Missing, ...]:
        """All that the folder lacks of what the sweep asked for."""
        return (*self.missing, *self.missing_norms)

    @cached_property
    def every_trial(self) -> pl.DataFrame:
        """Rows of `expected` and `expected_sts`: every trial, whatever it is evaluated on."""
        return pl.concat([self.expected, self.expected_sts])

    def norms(self) -> pl.DataFrame:
        """Norms of the texts, the schema NORMS and `trial_id`; read when asked for, since they are many."""
        asked = dict.fromkeys(k for t in self.trials.iter_rows(named=True) for k in asked_norms(self.store, t))
        rows = read_all(self.store, [key for key in asked if self.store.exists(key)], "norms")
        data = planned_data(self.record).select("data_set", "data_hash", "split").unique()
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
                    judged[asked.judgements] = frame_of(read_rows(self.store, asked.judgements, "judgements"))
                yield Encoding(
                    trial_id=trial["trial_id"],
                    data=asked.evaluation.data,
                    norms=frame_of(read_rows(self.store, asked.norms, "norms")),
                    judgements=judged[asked.judgements],
                )

    def scored_pairs(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """(trial id, rows of the schema STS) of every trial, data set of pairs and score similarity, one at a time."""
        for trial in self.trials.iter_rows(named=True):
            for asked in asked_evaluations(self.store, trial):
                if asked.evaluation.data.entry.is_scored and self.store.exists(asked.key):
                    yield trial["trial_id"], frame_of(read_rows(self.store, asked.key, "sts"))


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
    probed = {p: read_probe(store, p) for p in record.probes if store.exists(probe_rows(p.trial_id))}
    found = _read(store, record, trained, tuple(probed.values()))
    own = rows_of(PROBES, (stored.table for stored in probed.values())).fill_nan(None)
    here = expected_of(record, cells_of(found.trials), parts)
    every = here.and_also(expected_of(record, planned_cells(store, not_trained), parts))
    return Collected(
        store=store,
        record=record,
        trials=found.trials,
        expected=every.ranked,
        expected_sts=every.pairs,
        expected_answers=every.answers,
        scored=found.scored,
        query_rows=found.query_rows,
        data_set_scores=found.data_set_scores,
        answers=found.answers,
        correlations=found.correlations,
        probes=pl.concat([own, pilot_evidence(store, record, own)]),
        missing=(
            *missing_trials(store, not_trained),
            *missing_searched(store, record.studies),
            *missing_evaluations(store, here.ranked, found.data_set_scores),
            *missing_sts(store, here.pairs, found.correlations),
            *missing_answers(store, here.answers, found.answers),
            *missing_pilots(store, record.pilots),
            *missing_probes(store, [p for p in record.probes if p not in probed]),
        ),
        warnings=tuple(mixed_versions(found.made)),
        unequal_searches=search_notes(store, record),
        findings=(*findings, *version_mixed(found.made), *tier_mixed(found.scored, found.trials)),
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """The rows of checkpoints under their names in `Collected`, and what made each of them."""

    trials: pl.DataFrame
    query_rows: QueryRows
    scored: pl.DataFrame
    data_set_scores: pl.DataFrame
    answers: pl.DataFrame
    correlations: pl.DataFrame
    made: list[Made]


def _read(store: Readable, record: SweepRecord, trained: Sequence[PlannedTrial], probed: Sequence[Stored]) -> _Read:
    trials = read_trials(store, trained)
    asked = asked_keys(store, trials)
    others = read_others(store, asked)
    provenance: dict[str, str | None] = {}
    ranked = [key for key, rows in asked.items() if rows.is_ranked]
    rows = query_rows(noted(read_batches(store, ranked, "per_query"), provenance))
    scored = _scored_blocks(record, trials, rows)
    return _Read(
        trials=trials,
        query_rows=rows,
        scored=scored,
        data_set_scores=data_set_scores(scored, rows),
        answers=_answers(record, trials, rows_of(QA, tables_of(others, "qa"))),
        correlations=_correlations(record, trials, tables_of(others, "sts")),
        made=made_with(trials, asked, provenance, others, probed),
    )


def _scored_blocks(record: SweepRecord, trials: pl.DataFrame, rows: QueryRows) -> pl.DataFrame:
    cells = trials.select("trial_id", *CELL_COLUMNS, "checkpoint_hash")
    planned = planned_data(record).drop("part_of").rename({"measure": "main_measure"})
    # Two trials can have one checkpoint hash (a setting without effect): each then has these rows.
    joined = rows.blocks.join(planned, on=DATA_KEY, maintain_order="left_right")
    joined = joined.join(cells, on="checkpoint_hash", maintain_order="left_right")
    return joined.select("trial_id", *CELL_COLUMNS, "group", "main_measure", *rows.blocks.columns)


def _answers(record: SweepRecord, trials: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Those of evaluations of which every question has its scores: a mean over the rest would be of other questions."""
    is_finite = pl.col("exact_match").is_finite() & pl.col("f1").is_finite()
    rows = rows.filter(is_finite.all().over("checkpoint_hash", *DATA_KEY, "score_similarity", "reader", "num_passages"))
    cells = trials.select("trial_id", *CELL_COLUMNS, "checkpoint_hash")
    joined = rows.join(planned_questions(record).select(DATA_KEY), on=DATA_KEY).join(cells, on="checkpoint_hash")
    return joined.select("trial_id", *CELL_COLUMNS, pl.col(rows.columns).exclude("checkpoint_hash"))


def _correlations(record: SweepRecord, trials: pl.DataFrame, tables: Iterable[pa.Table]) -> pl.DataFrame:
    """The correlation of each evaluation on scored pairs; of one file at a time, since the pairs are many."""
    rows = pl.concat([spearman(frame_of(table)) for table in (no_rows(STS), *tables)])
    planned = planned_data(record).drop("tier", "measure", "part_of").unique(maintain_order=True)
    cells = trials.select("trial_id", *CELL_COLUMNS, "checkpoint_hash")
    joined = rows.join(planned, on=["data_set", "data_hash", "split"]).join(cells, on="checkpoint_hash")
    return joined.select("trial_id", *CELL_COLUMNS, "group", *rows.columns)
