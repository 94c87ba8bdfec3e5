"""Run files of a sweep folder that are not the ranking they stand for: cut off, altered, or of something else.

Read in blocks, so that memory does not grow with them. Imports no torch.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from orchestrator.doctor_rows import row_fault
from orchestrator.findings import Finding
from results import layout
from results.asked import asked_runs
from results.rows import read_rows
from results.store import Store
from search_spaces.identity import encoding_id
from trainers.data_sets.collection import strings

_COLUMNS = {
    "query": pa.string(),
    "Q0": pa.string(),
    "document": pa.string(),
    "rank": pa.int64(),
    "score": pa.float64(),
    "tag": pa.string(),
}
_BLOCK_BYTES = 4 * 1024**2
_REMEDY = "is deleted, and made again by the next run, which encodes its data set once more"


def run_findings(store: Store, keys: Iterable[str], trained: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Each run file that cannot be read, is another's, or holds other queries or documents than were evaluated."""
    norms = _norms_of_runs(store, trained)
    there = [key for key in keys if key.startswith("evaluations/") and key.endswith("/run.trec.gz")]
    documents: pa.Array | None = None
    read_from: str | None = None
    for key in sorted(there, key=lambda key: norms.get(key, "")):  # so that norms are read once for all of their runs
        if norms.get(key) != read_from:
            read_from = norms.get(key)
            documents = _documents(store, read_from)
        if fault := _fault(store, key, documents):
            cure = _deletion(store, key)
            yield Finding(severity="broken", where=key, what=fault, remedy=_REMEDY, cure=cure)


def _norms_of_runs(store: Store, trained: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By run file the rows of norms that one encoding gave with it, which name all of its documents."""
    return {
        rows.key: layout.norm_rows(encoding_id(row["checkpoint_hash"], rows.evaluation))
        for row in trained.values()
        for rows in asked_runs(store, row)
    }


def _documents(store: Store, norms: str | None) -> pa.Array | None:
    """The ids of all documents that were encoded; None where no sound rows name them."""
    if norms is None or not store.exists(norms) or row_fault(store, norms, "norms"):
        return None
    rows = read_rows(store, norms, "norms")
    return rows.filter(pc.field("side") == "document")["text_id"].combine_chunks()


def _fault(store: Store, key: str, documents: pa.Array | None) -> str | None:
    """What is wrong with a run file, in one line; None where nothing is."""
    evaluation_id = key.split("/")[1]
    reading = _Reading(evaluation_id, documents)
    try:
        with gzip.open(io.BytesIO(store.read(key))) as unpacked:
            for batch in _blocks(cast(IO[bytes], unpacked)):
                reading.check(batch)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        return f"damaged: {' '.join(str(error).split())[:200]}"
    except ValueError as error:
        return str(error)
    return _lacking_queries(store, layout.per_query_rows(evaluation_id), reading.queries)


def _blocks(unpacked: IO[bytes]) -> Iterator[pa.RecordBatch]:
    try:
        yield from pyarrow.csv.open_csv(
            unpacked,
            read_options=pyarrow.csv.ReadOptions(column_names=list(_COLUMNS), block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(column_types=_COLUMNS, strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):  # a run of queries that find nothing
            raise


class _Reading:
    """What the blocks so far showed; a ranking may go on in the next one."""

    def __init__(self, tag: str, documents: pa.Array | None) -> None:
        self.queries: set[str] = set()
        self._tag = tag
        self._documents = documents
        self._last: tuple[str, int, float] | None = None

    def check(self, block: pa.RecordBatch) -> None:
        """Take the next lines. Raises ValueError where they are not the rankings of this evaluation."""
        if not block.num_rows:
            return
        other = block["tag"].filter(pc.not_equal(block["tag"], pa.scalar(self._tag)))
        if len(other):
            raise ValueError(f"it is the run of '{other[0]}', not of this evaluation")
        if self._documents is not None:
            strange = block["document"].filter(pc.invert(pc.is_in(block["document"], value_set=self._documents)))
            if len(strange):
                raise ValueError(f"document '{strange[0]}' was never encoded for it")
        self._check_order(block)

    def _check_order(self, block: pa.RecordBatch) -> None:
        """Each ranking is one piece, its ranks count from 1, and its scores fall."""
        query = np.asarray(block["query"].to_pylist(), dtype=object)
        rank, score = block["rank"].to_numpy(), block["score"].to_numpy()
        before = self._last or ("", 0, np.inf)
        query_before = np.concatenate([np.asarray([before[0]], dtype=object), query[:-1]])
        rank_before = np.concatenate([[before[1]], rank[:-1]])
        score_before = np.concatenate([[before[2]], score[:-1]])
        begins = query != query_before
        for new in query[begins]:
            if new in self.queries:
                raise ValueError(f"the ranking of query '{new}' stands in two places")
            self.queries.add(new)
        wrong = rank != np.where(begins, 1, rank_before + 1)
        if wrong.any():
            raise ValueError(f"lines of query '{query[wrong][0]}' are missing: rank {rank[wrong][0]} is out of place")
        rises = ~begins & ~(score < score_before)
        if rises.any():
            raise ValueError(f"the scores of query '{query[rises][0]}' do not fall: its ranking was changed")
        self._last = (str(query[-1]), int(rank[-1]), float(score[-1]))


def _lacking_queries(store: Store, key: str, queries: set[str]) -> str | None:
    """That queries which found something are not in the run, or that it ranks others, by the rows beside it."""
    if not store.exists(key) or row_fault(store, key, "per_query"):
        return None
    rows = read_rows(store, key, "per_query")
    found = set(strings(rows.filter(pc.field("value") > 0)["query_id"]))
    if lost := sorted(found - queries):
        return f"{len(lost)} queries that found something are not in it, such as '{lost[0]}'"
    return None


def _deletion(store: Store, key: str) -> Callable[[], None]:
    return lambda: store.delete(key)
