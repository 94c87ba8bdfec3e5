"""Sources of rows (sweep folders, MLflow experiments, collected folders), and several of them read as one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from results.asked import planned_evaluations
from results.bulk import Batch, read_batches
from results.collect import Collected, collect
from results.findings import Finding
from results.layout import SWEEP_FILE, Status, SweepRecord, evaluations_to_bytes, from_bytes, to_bytes
from results.record_union import union
from results.rows import read_rows
from results.same_rows import compare
from results.store import Readable
from search_spaces.problems import InputError

SourceKind = Literal["sweep folder", "MLflow", "collected folder", "several sources"]
_STATES = ("finished", "running", "pruned", "failed")  # of one trial in several sources the first of these counts


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where rows come from.

    Attributes:
        uri: for people, and as it was given.
        store: holds the rows, under the keys of `results.layout`.
        record: what was asked for.
        parts: the sources that it joins; none of a single one.
        findings: of joining them.
        notes: what makes its rows comparable only with care, a line each.
        runs: the MLflow runs by the trials and probes that they hold, where the source knows them.
        origin: of a collected folder's part the sweep folder that it was collected from; it may be gone.
    """

    uri: str
    kind: SourceKind
    store: Readable
    record: SweepRecord
    parts: tuple["Source", ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None

    @property
    def leaves(self) -> tuple["Source", ...]:
        """The single sources."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) if self.parts else (self,)


def collect_source(source: Source) -> Collected:
    """The rows of a source. Raises SchemaError as `results.collect.collect` does."""
    parts = tuple(leaf.record for leaf in source.leaves) if source.parts else ()
    found = collect(source.store, source.record, parts=parts, findings=source.findings)
    return replace(found, warnings=(*source.notes, *found.warnings))


def joined(sources: Sequence[Source]) -> Source:
    """One source of all rows; a trial in several of them counts once.

    Raises:
        InputError: two of them have different rows of one trial, evaluation or probe, or evaluate one data set by
            other rules; every such place is named.
    """
    if len(sources) == 1:
        return sources[0]
    leaves = tuple(leaf for source in sources for leaf in source.leaves)
    record, notes, problems = union([(leaf.uri, leaf.record) for leaf in leaves])
    compared = compare([(leaf.uri, leaf.store, leaf.record) for leaf in leaves])
    if problems or compared.problems:
        raise InputError([*problems, *compared.problems])
    return Source(
        uri=", ".join(source.uri for source in sources),
        kind="several sources",
        store=JoinedRows([leaf.store for leaf in leaves]),
        record=record,
        parts=tuple(sources),
        findings=(*(finding for source in sources for finding in source.findings), *compared.findings),
        notes=tuple(dict.fromkeys((*(note for source in sources for note in source.notes), *notes))),
    )


class JoinedRows:
    """Answers from the first of several stores that holds a key; implements `Readable`, `HoldsRows`, `HoldsBatches`."""

    def __init__(self, stores: Iterable[Readable]) -> None:
        self._stores = tuple(stores)

    def exists(self, key: str) -> bool:
        """Whether some store holds `key`."""
        return any(store.exists(key) for store in self._stores)

    def read(self, key: str) -> bytes:
        """The bytes under `key`; of what several hold differently, what all of it says. Raises KeyError."""
        holders = [store for store in self._stores if store.exists(key)]
        if len(holders) > 1 and key == SWEEP_FILE:
            return b"---\n".join(dict.fromkeys(store.read(key) for store in holders))
        if len(holders) > 1 and key.endswith("/evaluations.json"):
            return _all_evaluations(holders, key)
        if len(holders) > 1 and key.endswith("/status.json"):
            return _furthest([from_bytes(Status, store.read(key)) for store in holders])
        return self._holder(key).read(key)

    def rows(self, key: str, name: str) -> pa.Table:
        """As `results.rows.read_rows`."""
        return read_rows(self._holder(key), key, name)

    def batches(self, keys: Sequence[str], name: str) -> Iterator[Batch]:
        """As `results.bulk.read_batches`, store by store."""
        of_store: dict[int, list[str]] = {}
        for key in keys:
            of_store.setdefault(self._stores.index(self._holder(key)), []).append(key)
        for place, own in of_store.items():
            yield from read_batches(self._stores[place], own, name)

    def _holder(self, key: str) -> Readable:
        for store in self._stores:
            if store.exists(key):
                return store
        raise KeyError(key)


def _all_evaluations(holders: Sequence[Readable], key: str) -> bytes:
    trial_id = key.split("/")[1]
    specs = dict.fromkeys(spec for store in holders for spec in planned_evaluations(store, trial_id))
    return evaluations_to_bytes(tuple(specs))


def _furthest(statuses: Sequence[Status]) -> bytes:
    return to_bytes(min(statuses, key=lambda status: _STATES.index(status.state)))
