"""A collection: corpus, queries and graded qrels as Arrow tables, and the check that they belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from trainers.data_sets.faults import Faults
from trainers.data_sets.rows import places_of

Absent = Literal["fault", "reported"]
Side = Literal["query", "document"]
CORPUS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
QUERIES = pa.schema(
    [pa.field("id", pa.string()), pa.field("text", pa.string()), pa.field("excluded_ids", pa.list_(pa.string()))]
)
ANSWERED_QUERIES = pa.schema([*QUERIES, pa.field("answers", pa.list_(pa.string()))])
_QRELS_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("query_id", pa.string()),
    ("document_id", pa.string()),
    ("relevance", pa.int32()),
]
QRELS = pa.schema(_QRELS_COLUMNS)
NEGATIVES = pa.schema(_QRELS_COLUMNS[:2])
SCORED_QRELS = pa.schema([*_QRELS_COLUMNS, ("gold", pa.float64())])


@dataclass(frozen=True, kw_only=True)
class Collection:
    """What is searched, what is asked, and what answers it.

    `corpus`: id, title, text. `queries` (of all splits): id, text, excluded_ids (documents that are taken out of this
    query's ranking; mostly empty). `qrels` by split: query_id, document_id, relevance; a grade of 0 is a judgement too.
    `negatives` by split, where there are any: query_id, document_id; hard negatives to train with, no judgements.

    Questions with gold answers have the schema ANSWERED_QUERIES: a column `answers`, texts any of which answers it
    (empty for a question without one). A split of such questions may be without judgements; see `asked_queries`.

    Scored pairs of texts (STS) are a collection too: a pair's first text is a query, its second a document, and its
    qrels have the schema SCORED_QRELS, with relevance 1 and the raters' score `gold`, 0 to 1.
    """

    name: str
    corpus: pa.Table
    queries: pa.Table
    qrels: Mapping[str, pa.Table]
    negatives: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CollectionReport:
    """What is odd in a collection but no fault.

    `queries_without_relevant` counts by split the judged queries that no document answers; `unjudged_queries` are in
    no split at all, nor questions with an answer. `absent_documents` are judged, but not in the corpus, so that nobody
    can find them. `left_out` counts what the source has and the collection has not.
    """

    empty_documents: int = 0
    empty_queries: int = 0
    unjudged_queries: int = 0
    questions_without_answer: int = 0
    absent_documents: int = 0
    queries_without_relevant: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def warnings(self) -> list[str]:
        """One line for each thing that is there."""
        counts = {
            "documents without title and text": self.empty_documents,
            "queries without text": self.empty_queries,
            "queries without a judgement in any split": self.unjudged_queries,
            "judged questions without an answer": self.questions_without_answer,
            "judged documents are not in the corpus, and count as not found": self.absent_documents,
        }
        for split, count in self.queries_without_relevant.items():
            counts[f"queries of '{split}' without a relevant document"] = count
        counts |= {f"{what} were left out": count for what, count in self.left_out.items()}
        return [f"{count:,} {what}" for what, count in counts.items() if count]


def document_text(title: str, text: str) -> str:
    """Title and text as BEIR joins them: "title text", stripped."""
    return f"{title} {text}".strip()


def strings(column: pa.Array | pa.ChunkedArray) -> list[str]:
    """The values of a column of ids or texts, none of which is null."""
    return cast(list[str], column.to_pylist())


def judged_queries(qrels: pa.Table, threshold: int | None = None) -> pa.Array:
    """The distinct ids of the queries judged, or of those with a document graded `threshold` or higher."""
    if threshold is not None:
        qrels = qrels.filter(pc.field("relevance") >= threshold)
    return cast(pa.Array, qrels["query_id"].unique())


def answered(queries: pa.Table) -> Any:
    """Which queries have a gold answer, as a mask; none where the table has no column of them."""
    if "answers" not in queries.column_names:
        return pa.chunked_array([pa.array([False] * queries.num_rows, pa.bool_())])
    return pc.fill_null(pc.greater(pc.list_value_length(queries["answers"]), pa.scalar(0)), False)


def with_answers_only_if_any(queries: pa.Table) -> pa.Table:
    """Queries of the schema ANSWERED_QUERIES, without that column where none has an answer."""
    return queries if _count(answered(queries)) else queries.drop_columns(["answers"])


def asked_queries(collection: Collection, split: str) -> pa.Table:
    """The queries of a split: those judged in it or, where it has no judgements at all, every one with an answer."""
    if collection.qrels[split].num_rows:
        judged = judged_queries(collection.qrels[split])
        return collection.queries.filter(pc.is_in(collection.queries["id"], value_set=judged))
    return collection.queries.filter(answered(collection.queries))


def check_collection(
    collection: Collection, *, threshold: int, faults: Faults, absent: Absent = "fault"
) -> CollectionReport:
    """Note in `faults` repeated ids, repeated judgements and judgements of what is not there; report what is odd.

    `threshold` is the lowest grade that counts as relevant. `absent` says what judged documents are that the corpus
    does not have: a fault, or known of the benchmark and reported. Files are named as in the BEIR layout.
    """
    if not faults.any:  # else what could not be read is why
        for table, what, file in ((collection.corpus, "document", "corpus"), (collection.queries, "query", "queries")):
            if not table.num_rows:
                faults.add("missing", file=f"{file}.jsonl", key="", message=f"there is no {what} in it")
    _check_ids(collection.corpus, "corpus.jsonl", "document", faults)
    _check_ids(collection.queries, "queries.jsonl", "query", faults)
    sides: tuple[Side, ...] = ("query", "document") if absent == "fault" else ("query",)
    for split, qrels in collection.qrels.items():
        _check_ids_known(collection, f"qrels/{split}.tsv", qrels, "judged", faults, sides)
        _check_judged_once(f"qrels/{split}.tsv", qrels, faults)
    for split, negatives in collection.negatives.items():
        _check_ids_known(collection, f"negatives/{split}.tsv", negatives, "named", faults)
    judged = [judged_queries(qrels) for qrels in collection.qrels.values()]
    known = pc.is_in(collection.queries["id"], value_set=pa.chunked_array(judged, pa.string()).combine_chunks())
    has_answer = answered(collection.queries)
    with_answers = "answers" in collection.queries.column_names
    return CollectionReport(
        empty_documents=_count(pc.and_(_blank(collection.corpus["title"]), _blank(collection.corpus["text"]))),
        empty_queries=_count(_blank(collection.queries["text"])),
        unjudged_queries=_count(pc.invert(pc.or_(known, has_answer))),
        questions_without_answer=_count(pc.and_not(known, has_answer)) if with_answers else 0,
        absent_documents=len(_absent(collection)),
        queries_without_relevant={
            split: len(judged_queries(qrels)) - len(judged_queries(qrels, threshold))
            for split, qrels in collection.qrels.items()
        },
    )


def _check_ids(table: pa.Table, file: str, what: str, faults: Faults) -> None:
    for row in _repeated(table, ["id"]):
        message = f"{row['count_all']} lines have this id; ids are unique"
        faults.add("duplicate id", file=file, key=f"{what} '{row['id']}'", message=message)


def _repeated(table: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    """The values of `columns` that several rows have, with their `count_all`."""
    counts = table.group_by(columns).aggregate([([], "count_all")])
    return counts.filter(pc.field("count_all") > 1).to_pylist()


def _check_ids_known(
    collection: Collection,
    file: str,
    table: pa.Table,
    how: str,
    faults: Faults,
    sides: Sequence[Side] = ("query", "document"),
) -> None:
    for what in sides:
        texts, place = (collection.queries, "queries") if what == "query" else (collection.corpus, "corpus")
        if not texts.num_rows:
            continue  # which is told, and says it of every id
        for lost in _outside(table[f"{what}_id"], texts).to_pylist():
            message = f"it is {how} here, but it is not in {place}.jsonl"
            faults.add("outside the collection", file=file, key=f"{what} '{lost}'", message=message)


def _outside(ids: pa.ChunkedArray, texts: pa.Table) -> pa.Array:
    """The distinct ids that no row of `texts` has."""
    different = cast(pa.Array, ids.unique())
    return different.filter(pa.array(places_of(different, texts["id"]) < 0))


def _absent(collection: Collection) -> set[str]:
    """Documents that are judged in some split, but are not in the corpus."""
    lost = [_outside(qrels["document_id"], collection.corpus) for qrels in collection.qrels.values()]
    return {document for documents in lost for document in strings(documents)}


def _check_judged_once(file: str, qrels: pa.Table, faults: Faults) -> None:
    for row in _repeated(qrels, ["query_id", "document_id"]):
        message = f"document '{row['document_id']}' is judged {row['count_all']} times for it"
        faults.add("duplicate judgement", file=file, key=f"query '{row['query_id']}'", message=message)


def _blank(column: pa.ChunkedArray) -> Any:
    return pc.equal(pc.utf8_trim_whitespace(column), pa.scalar(""))


def _count(mask: Any) -> int:
    return pc.sum(mask).as_py() or 0
