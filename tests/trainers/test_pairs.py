import pyarrow as pa
import pytest

from trainers.data_sets.collection import CORPUS, QRELS, QUERIES, Collection
from trainers.pairs import training_pairs


def collection(corpus, queries, qrels):
    return Collection(
        name="tiny",
        corpus=pa.Table.from_pylist([{"id": i, "title": t, "text": x} for i, t, x in corpus], schema=CORPUS),
        queries=pa.Table.from_pylist([{"id": i, "text": x, "excluded_ids": []} for i, x in queries], schema=QUERIES),
        qrels={
            "train": pa.Table.from_pylist(
                [{"query_id": q, "document_id": d, "relevance": r} for q, d, r in qrels], schema=QRELS
            )
        },
    )


CORPUS_ROWS = [("d1", "Cats", "purr"), ("d2", "", "bark"), ("d3", "Cats", "purr"), ("d4", "", "unused")]
QUERY_ROWS = [("q1", "who purrs"), ("q2", "who barks"), ("q3", "who purrs"), ("q4", "unused")]
QRELS_ROWS = [("q1", "d1", 1), ("q2", "d2", 2), ("q3", "d3", 1), ("q3", "d2", 1), ("q2", "d4", 0)]


def as_texts(pairs):
    return [
        (pairs.query_texts[q], pairs.document_texts[d])
        for q, d in zip(pairs.query_index, pairs.document_index, strict=True)
    ]


def test_equal_texts_are_one_text_whatever_their_ids():
    pairs = training_pairs(collection(CORPUS_ROWS, QUERY_ROWS, QRELS_ROWS), "train", relevance_threshold=1)
    assert as_texts(pairs) == [("who barks", "bark"), ("who purrs", "Cats purr"), ("who purrs", "bark")]
    assert len(pairs) == 3
    purrs = pairs.query_texts.index("who purrs")
    assert {pairs.document_texts[d] for d in pairs.relevant_documents[purrs]} == {"Cats purr", "bark"}


def test_a_pair_has_at_least_the_asked_relevance():
    pairs = training_pairs(collection(CORPUS_ROWS, QUERY_ROWS, QRELS_ROWS), "train", relevance_threshold=2)
    assert as_texts(pairs) == [("who barks", "bark")]


def test_pairs_do_not_depend_on_the_order_of_lines_or_on_ids():
    renamed = collection(
        [(f"x{i}", t, x) for i, t, x in reversed(CORPUS_ROWS)],
        [(f"z{i}", x) for i, x in QUERY_ROWS[2:] + QUERY_ROWS[:2]],
        [(f"z{q}", f"x{d}", r) for q, d, r in reversed(QRELS_ROWS)],
    )
    first = training_pairs(collection(CORPUS_ROWS, QUERY_ROWS, QRELS_ROWS), "train", relevance_threshold=1)
    second = training_pairs(renamed, "train", relevance_threshold=1)
    assert as_texts(first) == as_texts(second)


def test_a_split_without_pairs_is_refused_by_name():
    tiny = collection(CORPUS_ROWS, QUERY_ROWS, QRELS_ROWS)
    with pytest.raises(ValueError, match="split 'train' of data set 'tiny' has no pair with a relevance of at least 3"):
        training_pairs(tiny, "train", relevance_threshold=3)
    with pytest.raises(ValueError, match=r"data set 'tiny' has no split 'dev' \(it has train\)"):
        training_pairs(tiny, "dev", relevance_threshold=1)
