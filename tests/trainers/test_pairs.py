import numpy as np
import pyarrow as pa
import pytest

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec
from trainers.data_sets.collection import CORPUS, NEGATIVES, QRELS, QUERIES, Collection
from trainers.training.pairs import pair_counts, training_pairs


def collection(corpus, queries, qrels, negatives=()):
    return Collection(
        name="tiny",
        corpus=pa.Table.from_pylist([{"id": i, "title": t, "text": x} for i, t, x in corpus], schema=CORPUS),
        queries=pa.Table.from_pylist([{"id": i, "text": x, "excluded_ids": []} for i, x in queries], schema=QUERIES),
        qrels={
            "train": pa.Table.from_pylist(
                [{"query_id": q, "document_id": d, "relevance": r} for q, d, r in qrels], schema=QRELS
            )
        },
        negatives={
            "train": pa.Table.from_pylist([{"query_id": q, "document_id": d} for q, d in negatives], schema=NEGATIVES)
        }
        if negatives
        else {},
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


def negatives_as_texts(pairs):
    return {
        pairs.query_texts[q]: {pairs.document_texts[d] for d in pairs.negatives[q].tolist()}
        for q in range(len(pairs.query_texts))
    }


def test_negatives_are_what_is_judged_below_the_threshold_and_what_the_collection_names():
    named = [("q1", "d2"), ("q1", "d4"), ("q4", "d1")]  # d2 is relevant to a query of the same text; q4 has no pair
    tiny = collection(CORPUS_ROWS, QUERY_ROWS, QRELS_ROWS, named)
    pairs = training_pairs(tiny, "train", relevance_threshold=1, hard_negatives=1)
    assert negatives_as_texts(pairs) == {"who barks": {"unused"}, "who purrs": {"unused"}}
    assert pairs.num_contradicted == 1
    assert list(pairs.document_texts) == ["bark", "Cats purr", "unused"]  # what is only a negative stands last
    without = training_pairs(tiny, "train", relevance_threshold=1)
    assert as_texts(without) == as_texts(pairs)
    assert list(without.document_texts) == ["bark", "Cats purr"]
    assert not any(negatives_as_texts(without).values())


def test_pairs_with_a_blank_side_are_left_out_and_counted():
    corpus = [*CORPUS_ROWS, ("d5", " ", "\u2003")]
    queries = [*QUERY_ROWS, ("q5", " \n")]
    qrels = [*QRELS_ROWS, ("q1", "d5", 1), ("q5", "d1", 1), ("q2", "d5", 0)]
    pairs = training_pairs(collection(corpus, queries, qrels), "train", relevance_threshold=1)
    assert as_texts(pairs) == [("who barks", "bark"), ("who purrs", "Cats purr"), ("who purrs", "bark")]
    assert pairs.num_blank == 2
    with pytest.raises(ValueError, match="has no pair"):
        training_pairs(collection(corpus, queries, [("q5", "d1", 1)]), "train", relevance_threshold=1)


@pytest.mark.parametrize("seed", range(20))
def test_random_collections_against_sets_of_texts(seed):
    generator = np.random.default_rng(seed)
    letters = ["ä", "z", "Z", "a", "\U0001f600", "\uffee", "b c"]  # code points beyond 16 bits sort last, not by halves
    corpus = [(f"d{i}", str(generator.choice(["", "T"])), str(generator.choice(letters))) for i in range(12)]
    queries = [(f"q{i}", str(generator.choice(letters))) for i in range(9)]
    judged = {(f"q{generator.integers(9)}", f"d{generator.integers(12)}") for _ in range(30)}
    qrels = [(q, d, int(generator.integers(3))) for q, d in sorted(judged)] + [("q0", "d0", 2)] * (
        ("q0", "d0") not in judged
    )
    named = [(f"q{generator.integers(9)}", f"d{generator.integers(12)}") for _ in range(10)]
    pairs = training_pairs(collection(corpus, queries, qrels, named), "train", relevance_threshold=1, hard_negatives=2)
    query = dict(queries)
    document = {i: f"{title} {text}".strip() for i, title, text in corpus}
    expected = sorted({(query[q], document[d]) for q, d, grade in qrels if grade >= 1})
    assert as_texts(pairs) == expected
    assert list(pairs.query_texts) == list(dict.fromkeys(q for q, _ in expected))
    first_documents = list(dict.fromkeys(d for _, d in expected))
    negatives = {(query[q], document[d]) for q, d, grade in qrels if grade < 1}
    negatives |= {(query[q], document[d]) for q, d in named}
    negatives = {(q, d) for q, d in negatives if q in pairs.query_texts}
    kept = negatives - set(expected)
    assert list(pairs.document_texts) == [*first_documents, *sorted({d for _, d in kept} - set(first_documents))]
    assert {(q, d) for q, documents in negatives_as_texts(pairs).items() for d in documents} == kept
    assert len(pairs.negatives.values_V) == len(kept)
    assert pairs.num_contradicted == len(negatives) - len(kept)


def test_a_split_without_a_pair_counts_as_none(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "bark"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "who barks"}\n')
    (tmp_path / "qrels" / "train.tsv").write_text("q1\td1\t0\n")
    data = DataSpec(entry=DataSet(name="mine", source=f"path:{tmp_path}"), split="train")
    found = pair_counts(data, hard_negatives=1)
    assert (found.num_queries, found.most_negatives, found.num_short(1)) == (0, 0, 0)
