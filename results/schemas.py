"""The row contract: what trials, evaluations and probes write, and what collect reads. Versioned, one schema each.

Every collected row carries the columns of its cell (`CELL_COLUMNS`): stored evaluation rows carry the checkpoint hash
instead, and `results.collect` joins the two. nDCG and other measures are 0 to 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from search_spaces.problems import UnreadableError

SCHEMA_VERSION = 4
QUERY_NORM = "query_norm"  # stands as a measure in a pilot's rows of queries
_VERSION_KEY = b"densesweep.schema"


def _schema(name: str, fields: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema(fields, metadata={_VERSION_KEY: f"{name}/{SCHEMA_VERSION}".encode()})


def _text(name: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False)


def _number(name: str) -> pa.Field:
    return pa.field(name, pa.float64(), nullable=False)


_CELL = [
    _text("kind"),
    _text("task"),
    pa.field("training_data", pa.string()),
    pa.field("training_data_hash", pa.string()),
    pa.field("num_pairs", pa.int64()),
    _text("family"),
    pa.field("layers", pa.int64()),
    _text("init_regime"),
    pa.field("similarity", pa.string()),
    pa.field("scale_mode", pa.string()),
    pa.field("scale_value", pa.float64()),
    pa.field("seed", pa.int64()),
]
CELL_COLUMNS = tuple(field.name for field in _CELL)

TRIALS = _schema(
    "trials",
    [
        _text("trial_id"),
        *_CELL,
        _text("checkpoint_hash"),
        pa.field("gamma_q", pa.float64()),  # at the end of training
        pa.field("gamma_d", pa.float64()),
        pa.field("steps", pa.int64()),
        pa.field("global_batch", pa.int64()),
        pa.field("learning_rate", pa.float64()),
        pa.field("scale_divisor", pa.float64()),  # of a matched scale
        pa.field("num_negatives", pa.int64()),  # per query, masked ones counted
        # of the hard negatives of all planned steps, those that are random documents for lack of others; null: K is 0
        pa.field("num_random_negatives", pa.int64()),
        pa.field("num_queries", pa.int64()),  # different training texts of that side
        pa.field("num_documents", pa.int64()),
        pa.field("num_truncated_queries", pa.int64()),  # how many of them are longer than the maximum length
        pa.field("num_truncated_documents", pa.int64()),
        pa.field("steps_done", pa.int64()),  # fewer than `steps` where the training was stopped early
        pa.field("best_step", pa.int64()),  # of the checkpoint, where the training was validated
        pa.field("validation_score", pa.float64()),  # of that step
        pa.field("final_loss", pa.float64()),
        *(
            pa.field(f"{when}_{name}", pa.float64())
            for when in ("start", "end")
            for name in ("logit_std", "perplexity", "saturated_share")
        ),
        pa.field("train_wall_s", pa.float64()),
        pa.field("pairs_per_s", pa.float64()),
        pa.field("tokens_per_s", pa.float64()),
        pa.field("padding_share", pa.float64()),
        pa.field("peak_memory_bytes", pa.int64()),
        _text("spec_json"),
        _text("provenance_json"),
    ],
)

HISTORY = _schema(
    "history",
    [
        _text("trial_id"),
        pa.field("step", pa.int64(), nullable=False),  # 1 is the first optimiser step
        _number("loss"),
        _number("learning_rate"),
        _number("gradient_norm"),  # before clipping
        *(
            _number(f"{side}_norm_{statistic}")
            for side in ("query", "document")
            for statistic in ("mean", "std", "q05", "median", "q95")
        ),
        _number("gamma_q"),
        _number("gamma_d"),
        pa.field("effective_temperature", pa.float64()),
        pa.field("logit_std", pa.float64()),
        pa.field("perplexity", pa.float64()),
        pa.field("saturated_share", pa.float64()),
        pa.field("score_margin", pa.float64()),
        pa.field("negatives_per_query", pa.float64()),
        _number("pairs_per_s"),
        _number("tokens_per_s"),
        _number("padding_share"),
        pa.field("peak_memory_bytes", pa.int64()),
        pa.field("validation_score", pa.float64()),  # 0 to 1, of the steps that were validated
        pa.field("log10_kappa", pa.float64()),  # of the batch's Fisher information, of the steps that log it
    ],
)

PER_QUERY = _schema(
    "per_query",
    [
        _text("checkpoint_hash"),
        _text("data_set"),
        _text("data_hash"),
        _text("split"),
        _text("tier"),
        _text("score_similarity"),
        _text("query_id"),
        _text("measure"),
        _number("value"),
    ],
)

NORMS = _schema(
    "norms",
    [
        _text("checkpoint_hash"),
        _text("data_set"),
        _text("data_hash"),
        _text("split"),
        _text("side"),  # 'query' or 'document'
        _text("text_id"),
        pa.field("norm", pa.float32(), nullable=False),
    ],
)

JUDGEMENTS = _schema(
    "judgements",
    [
        _text("data_hash"),  # of a split of a data set: its corpus, queries and judgements
        _text("query_id"),
        _text("document_id"),
        pa.field("relevance", pa.int64(), nullable=False),
    ],
)

EMBEDDINGS = _schema(
    "embeddings",
    [
        _text("checkpoint_hash"),
        _text("data_set"),
        _text("data_hash"),
        _text("split"),
        _text("side"),  # 'query' or 'document'
        _text("text_id"),
        pa.field("direction", pa.list_(pa.float16()), nullable=False),  # of length 1
        pa.field("norm", pa.float32(), nullable=False),
    ],
)
"""A stored embedding is a unit direction in fp16 plus a float32 norm, so that norms beyond fp16's range survive."""

QA = _schema(
    "qa",
    [
        _text("checkpoint_hash"),
        _text("data_set"),
        _text("data_hash"),
        _text("split"),
        _text("tier"),
        _text("score_similarity"),
        _text("reader"),
        pa.field("num_passages", pa.int64(), nullable=False),  # asked for; fewer where the corpus has no more
        _text("query_id"),
        pa.field("document_ids", pa.list_(pa.string()), nullable=False),  # the passages that were read, best first
        pa.field("num_cut", pa.int64(), nullable=False),  # how many of them were shortened
        _text("prediction"),
        _number("exact_match"),  # 0 or 1
        _number("f1"),  # 0 to 1, never below exact_match
    ],
)

STS = _schema(
    "sts",
    [
        _text("checkpoint_hash"),
        _text("data_set"),
        _text("data_hash"),
        _text("split"),
        _text("score_similarity"),
        _text("pair_id"),
        _text("order"),  # 'forward': s(a, b); 'swapped': s(b, a), the same where the similarity is symmetric
        _number("score"),
        _number("gold"),  # 0 to 1
    ],
)

POOLS = _schema(
    "pools",
    [
        _text("document_id"),
        # 'judged', 'bm25', 'random', 'longest ENCODER', 'top SIMILARITY ENCODER'
        pa.field("reasons", pa.list_(pa.string()), nullable=False),
    ],
)
"""The documents of a pool, or of a part of one, in the corpus's order, with why each is in it."""

PROBES = _schema(
    "probes",
    [
        _text("probe_id"),
        _text("family"),
        pa.field("layers", pa.int64()),
        _text("init_regime"),
        pa.field("seed", pa.int64()),
        _text("task"),
        _text("training_data"),
        _text("training_data_hash"),
        pa.field("num_pairs", pa.int64()),
        _text("scale_mode"),
        _number("scale_value"),
        # 'embedding_query', 'embedding_document', 'embedding', 'gamma', 'head', 'weights', each of them also after
        # 'empirical_'; 'softmax', 'pools', 'subspace', 'norms', 'space'; 'pilot' and
        # 'pilot_norms' in what is read of pilots, which no probe writes
        _text("block"),
        pa.field("similarity", pa.string()),  # 'qnorm', 'dnorm', or 'qnorm-dnorm' for a paired difference
        _text("statistic"),  # 'log10_kappa', 'lambda_max', 'trace', 'effective_rank', ...
        pa.field("rank", pa.int64()),  # dimension of the shared subspace
        # of what is a curve, the other axis: an eigenvalue's number, log10 of one, a ridge, a number of queries
        pa.field("at", pa.float64()),
        _number("value"),
        pa.field("low", pa.float64()),  # the interval, where there is one
        pa.field("high", pa.float64()),
        pa.field("level", pa.float64()),
    ],
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "trials": TRIALS,
    "history": HISTORY,
    "per_query": PER_QUERY,
    "norms": NORMS,
    "judgements": JUDGEMENTS,
    "embeddings": EMBEDDINGS,
    "qa": QA,
    "sts": STS,
    "pools": POOLS,
    "probes": PROBES,
}


class SchemaError(UnreadableError):
    """Rows that do not keep the contract, or that another version of it wrote."""


def make_table(name: str, rows: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> pa.Table:
    """Rows (a list of mappings, or a mapping of columns) as an Arrow table of the named schema.

    Raises:
        SchemaError: a column is missing, unknown, of another type, or null where it must not be.
    """
    schema = SCHEMAS[name]
    columns = dict(rows) if isinstance(rows, Mapping) else {f.name: [r.get(f.name) for r in rows] for f in schema}
    given = set(columns) if isinstance(rows, Mapping) else {key for row in rows for key in row}
    if given - set(schema.names):
        raise SchemaError(f"{name}: unknown columns {sorted(given - set(schema.names))}")
    try:
        table = pa.table(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, KeyError) as error:
        raise SchemaError(f"{name}: {error}") from error
    for field in schema:
        if not field.nullable and table.column(field.name).null_count:
            raise SchemaError(f"{name}: column '{field.name}' has empty values")
    return table


def check_table(name: str, table: pa.Table) -> pa.Table:
    """Return `table` if this version of the named schema wrote it.

    Raises:
        SchemaError: it was written by another version, or has other columns.
    """
    expected = SCHEMAS[name]
    metadata = table.schema.metadata or {}
    found = metadata.get(_VERSION_KEY, b"none").decode()
    if not is_of_version(name, metadata) or not table.schema.equals(expected):
        raise SchemaError(f"rows of '{found}' where '{name}/{SCHEMA_VERSION}' is read")
    return table


def is_of_version(name: str, metadata: Mapping[bytes, bytes]) -> bool:
    """Whether the metadata of a table or file says that this version of the named schema wrote it."""
    return metadata.get(_VERSION_KEY) == f"{name}/{SCHEMA_VERSION}".encode()
