"""The rows that a sweep asks for as they are stored: read file by file, with what made each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from results.asked import AskedRows, asked_answers, asked_evaluations
from results.bulk import Batch, read_all
from results.layout import PlannedTrial, probe_rows, trial_rows
from results.rows import provenance_of, read_rows
from results.schemas import SchemaError
from results.store import Readable
from results.versions import Made


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Rows of one file; `title` says for people what they are of."""

    title: str
    schema: Literal["sts", "qa", "probes"]
    table: pa.Table
    trial_id: str


def frame_of(table: pa.Table) -> pl.DataFrame:
    """The table as a frame."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
    return frame


def rows_of(schema: pa.Schema, tables: Iterable[pa.Table]) -> pl.DataFrame:
    """The rows of all tables as one frame, which has the schema's columns where there is none."""
    return frame_of(pa.concat_tables([no_rows(schema), *tables]))


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table of that schema without rows."""
    # From no batches: `schema.empty_table` would import pandas, a quarter of a second.
    return pa.Table.from_batches([], schema=schema)


def read_trials(store: Readable, trained: Iterable[PlannedTrial]) -> pl.DataFrame:
    """`Collected.trials`, of those that have rows.

    Raises:
        SchemaError: a damaged file, or trained gammas that are no numbers.
    """
    titles = {t.trial_id: t.title for t in trained}
    rows = read_all(store, [trial_rows(key) for key in titles], "trials")
    for gammas in rows.filter(pl.any_horizontal(pl.col("gamma_q", "gamma_d").is_finite().not_())).iter_rows(named=True):
        raise SchemaError(
            f"{trial_rows(gammas['trial_id'])} has gamma_q {gammas['gamma_q']} and gamma_d {gammas['gamma_d']}: its "
            "checkpoint cannot be scored"
        )
    return rows.with_columns(title=pl.Series(titles.values(), dtype=pl.String))


def read_probe(store: Readable, probe: PlannedTrial) -> Stored:
    """The rows of a probe that is there."""
    table = read_rows(store, probe_rows(probe.trial_id), "probes")
    return Stored(title=probe.title, schema="probes", table=table, trial_id=probe.trial_id)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Rows that are there of those that a trial's checkpoint must have."""

    trial_id: str
    title: str
    schema: Literal["per_query", "sts", "qa"]

    @property
    def is_ranked(self) -> bool:
        """Whether they are scores of queries."""
        return self.schema == "per_query"


def asked_keys(store: Readable, trials: pl.DataFrame) -> dict[str, Asked]:
    """The evaluations that are there of those that the trials' checkpoints must have, by key."""
    found: dict[str, Asked] = {}
    for trial in trials.iter_rows(named=True):
        for asked, schema in _asked(store, trial):
            # Two trials can have one checkpoint: the first names its rows.
            if asked.key not in found and store.exists(asked.key):
                title = f"{trial['title']} on {asked.evaluation.data.name} scored with {asked.score_similarity}"
                found[asked.key] = Asked(trial_id=trial["trial_id"], title=title, schema=schema)
    return found


def read_others(store: Readable, asked: Mapping[str, Asked]) -> list[Stored]:
    """Scored pairs and answers."""
    return [
        Stored(title=of.title, schema=of.schema, table=read_rows(store, key, of.schema), trial_id=of.trial_id)
        for key, of in asked.items()
        if of.schema != "per_query"
    ]


def noted(batches: Iterable[Batch], provenance: dict[str, str | None]) -> Iterator[Batch]:
    """The batches, with what made each key noted in `provenance`."""
    for batch in batches:
        provenance.update(zip(batch.keys, batch.provenance, strict=True))
        yield batch


def _asked(store: Readable, trial: Mapping[str, Any]) -> Iterator[tuple[AskedRows, Literal["per_query", "sts", "qa"]]]:
    for asked in asked_evaluations(store, trial):
        yield asked, "sts" if asked.evaluation.data.entry.is_scored else "per_query"
    for asked in asked_answers(store, trial):
        yield asked, "qa"


def tables_of(stored: Iterable[Stored], schema: str) -> list[pa.Table]:
    """The tables of one schema."""
    return [item.table for item in stored if item.schema == schema]


def made_with(
    trials: pl.DataFrame,
    asked: Mapping[str, Asked],
    provenance: Mapping[str, str | None],
    others: Iterable[Stored],
    probes: Iterable[Stored],
) -> list[Made]:
    """What made each of the rows, where they say so; `provenance` is that of the keys of `asked` (`noted`)."""
    of_queries = (
        Made(kind="evaluation", title=asked[key].title, provenance_json=text, trial_id=asked[key].trial_id)
        for key, text in provenance.items()
        if text is not None
    )
    return [
        *_made_trials(trials),
        *of_queries,
        *_made_stored(others, "evaluation"),
        *_made_stored(probes, "probe"),
    ]


def _made_trials(trials: pl.DataFrame) -> Iterator[Made]:
    """What the trials were made with."""
    for trial_id, title, provenance in trials.select("trial_id", "title", "provenance_json").rows():
        yield Made(kind="trial", title=title, provenance_json=provenance, trial_id=trial_id)


def _made_stored(stored: Iterable[Stored], kind: str) -> Iterator[Made]:
    """What other rows were made with, where they say so."""
    for item in stored:
        provenance = provenance_of(item.table)
        if provenance is not None:
            yield Made(kind=kind, title=item.title, provenance_json=provenance, trial_id=item.trial_id)
