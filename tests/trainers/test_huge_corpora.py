"""Corpora of more text than 32-bit offsets reach: who takes some rows of one copies those alone.

A chunk that a column has many times takes its memory once, so 2.2 GiB of text are 32 MiB here.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from orchestrator import text_lengths
from results.schemas import make_table
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec, EvaluationSpec
from trainers.data_sets.collection import ANSWERED_QUERIES, QRELS, Collection
from trainers.data_sets.hashing import split_hashes
from trainers.evaluation.evaluation_rows import norm_columns
from trainers.evaluation.judged_queries import split_queries
from trainers.evaluation.qa import asked_questions
from trainers.evaluation.ranked_ids import ranked_ids
from trainers.evaluation.shared_texts import TextOrder
from trainers.training.pairs import training_pairs

CHUNK_BYTES, CHUNK_ROWS, NUM_CHUNKS = 32 << 20, 4096, 70
NUM_ROWS = CHUNK_ROWS * NUM_CHUNKS
DATA = DataSpec(entry=DataSet(name="huge", source="path:/nowhere"), split="test", content_hash="0" * 64)
JUDGED = [NUM_ROWS - 1, 0, CHUNK_ROWS + 3]  # documents, in no order


@pytest.fixture(scope="module")
def collection() -> Collection:
    rows = [f"{row:08d}" * (CHUNK_BYTES // CHUNK_ROWS // 8) for row in range(CHUNK_ROWS)]
    ids = pa.chunked_array([[f"d{row}" for row in range(n, n + CHUNK_ROWS)] for n in range(0, NUM_ROWS, CHUNK_ROWS)])
    text = pa.chunked_array([pa.array(rows, pa.string())] * NUM_CHUNKS)
    queries = [
        {"id": f"q{n}", "text": f"question {n}", "excluded_ids": [f"d{n}"], "answers": ["yes"]} for n in range(3)
    ]
    qrels = [{"query_id": f"q{n}", "document_id": f"d{row}", "relevance": 1} for n, row in enumerate(JUDGED)]
    return Collection(
        name="huge",
        corpus=pa.table({"id": ids, "title": pa.repeat("", NUM_ROWS), "text": text}),
        queries=pa.Table.from_pylist(queries, ANSWERED_QUERIES),
        qrels={"test": pa.Table.from_pylist(qrels, QRELS)},
    )


def starts(texts: list[str]) -> list[str]:
    return [text[:8] for text in texts]


def test_questions_are_asked_with_passages_of_a_huge_corpus(collection):
    queries = split_queries(collection, "test", "excluded_ids")
    assert queries.excluded == [[0], [1], [2]]
    document_QK = np.array([[NUM_ROWS - 1, 2], [2, 0], [CHUNK_ROWS, -1]])
    questions = list(asked_questions(collection, queries, document_QK))
    assert [q.document_ids for q in questions] == [[f"d{NUM_ROWS - 1}", "d2"], ["d2", "d0"], [f"d{CHUNK_ROWS}"]]
    expected = [["00004095", "00000002"], ["00000002", "00000000"], ["00000000"]]
    assert [starts(q.passages) for q in questions] == expected


def test_texts_of_a_shard_of_a_huge_corpus(collection):
    order = TextOrder(different=[0], begin=[0], first_U=np.array([1, CHUNK_ROWS, NUM_ROWS - 1]), text_SN=[])
    assert starts(order.texts([collection.corpus], 0, 3)) == ["00000001", "00000000", "00004095"]


def test_training_pairs_of_a_huge_corpus(collection):
    pairs = training_pairs(collection, "test", relevance_threshold=1)
    found = {
        pairs.query_texts[q]: pairs.document_texts[d][:8]
        for q, d in zip(pairs.query_index, pairs.document_index, strict=True)
    }
    assert found == {"question 0": "00004095", "question 1": "00000000", "question 2": "00000003"}


def test_lengths_are_sampled_over_a_huge_corpus(collection, monkeypatch):
    monkeypatch.setattr(text_lengths.data_sets, "load", lambda _: collection)
    lengths = text_lengths._characters.__wrapped__(DATA, "corpus")
    assert 2000 <= len(lengths) < 2100
    assert set(lengths) == {CHUNK_BYTES // CHUNK_ROWS}


@pytest.mark.slow
def test_a_huge_corpus_has_the_content_hash_of_its_rows_in_any_order(collection):
    other = replace(collection, corpus=pa.Table.from_batches(collection.corpus.to_batches()[::-1]))
    assert split_hashes(other) == split_hashes(collection)


def test_ids_of_rankings_by_blocks_of_queries(monkeypatch):
    monkeypatch.setattr("trainers.evaluation.ranked_ids._QUERIES_AT_ONCE", 3)
    ids = pa.chunked_array([["a", "b"], ["c"], ["d", "e"]])
    document_QK = np.random.default_rng(0).integers(-1, 5, (8, 4))
    expected = [["abcde"[place] for place in document_K if place >= 0] for document_K in document_QK]
    assert list(ranked_ids(ids, document_QK)) == expected


def test_rows_of_norms_take_no_memory_beyond_norms_and_ids():
    num_rows = 1_000_000
    ids = pa.chunked_array([pa.array([f"d{row}" for row in range(num_rows)])])
    norm_N, norm_Q = np.ones(num_rows, dtype=np.float32), np.zeros(2, dtype=np.float32)
    before = pa.total_allocated_bytes()
    columns = norm_columns(
        "c" * 64,
        EvaluationSpec(data=DATA),
        query_ids=["q1", "q2"],
        query_norm_Q=norm_Q,
        document_ids=ids,
        document_norm_N=norm_N,
    )
    table = make_table("norms", columns)
    assert pa.total_allocated_bytes() - before < 32 * num_rows
    assert table.num_rows == num_rows + 2
    assert table["side"].to_pylist()[:3] == ["query", "query", "document"]
    assert table["side"].value_counts().to_pylist()[1] == {"values": "document", "counts": num_rows}
    for name, value in (("checkpoint_hash", "c" * 64), ("data_set", "huge"), ("split", "test")):
        assert table[name].unique().to_pylist() == [value]
