"""What benchmarks ask of an evaluation, by hand: self-matches, excluded documents, thresholds, empty judgements.

The whole way is gone from files to values: collection, exact search before the cut to k, measures. Embeddings are laid
down, so that each ranking is known.
"""

import json

import numpy as np
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from trainers import data_sets
from trainers.evaluation.judged_queries import split_queries
from trainers.evaluation.measures import per_query
from trainers.search import Searcher, tie_ranks


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def write(folder, documents, queries, judgements):
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": d, "text": d}) + "\n" for d in documents))
    rows = [{"_id": q, "text": q, "metadata": {"excluded_ids": excluded}} for q, excluded in queries.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{q}\t{d}\t{g}\n" for q, d, g in judgements))


def values(name, folder, scores, measures, k=2):
    """By query and measure the values of the catalogue's entry `name` over a folder; `scores` of each document."""
    entry = DATA_SETS[name].read_from(f"path:{folder}").model_copy(update={"counts": None})
    collection = data_sets.load(entry)
    queries = split_queries(collection, "test", entry.exclusion)
    document_ids = collection.corpus["id"].to_pylist()
    document_DH = np.array([[scores[document]] for document in document_ids], dtype=np.float32)
    query_QH = np.ones((len(queries.ids), 1), dtype=np.float32)
    searcher = Searcher(query_QH, k, tie_rank_N=tie_ranks(document_ids), excluded=queries.excluded)
    searcher.add(document_DH)
    [found] = searcher.rankings().values()
    rankings = {
        query: [document_ids[position] for position in row if position >= 0]
        for query, row in zip(queries.ids, found.document_QK, strict=True)
    }
    found_values = per_query(rankings, queries.qrels, measures, relevance_threshold=entry.relevance_threshold)
    return {(row.query_id, row.measure): pytest.approx(row.value) for row in found_values}


def test_the_argument_itself_is_not_its_counterargument(tmp_path):
    """ArguAna: each query is a document of its own id, which would be first in its ranking."""
    write(tmp_path / "hub", ["a", "b", "c"], {"a": [], "b": []}, [("a", "c", 1), ("b", "c", 1)])
    scores = {"a": 3.0, "b": 2.0, "c": 1.0}
    # Of a's ranking b, c are left, of b's a, c: c is second. Had the query stood in it, k = 2 would have cut c off.
    assert values("arguana", tmp_path / "hub", scores, ["RR", "nDCG@10"]) == {
        ("a", "RR"): 1 / 2,
        ("b", "RR"): 1 / 2,
        ("a", "nDCG@10"): 1 / np.log2(3),
        ("b", "nDCG@10"): 1 / np.log2(3),
    }
    # FiQA has numbers for ids of both kinds: there an equal id says nothing, and nothing is taken out.
    assert values("fiqa", tmp_path / "hub", scores, ["RR"]) == {("a", "RR"): 0, ("b", "RR"): 0}


def test_excluded_documents_are_taken_out_before_the_cut(tmp_path):
    """BRIGHT: the documents a question was made from are excluded, each query's own."""
    documents, queries = ["a", "b", "c", "d"], {"q1": ["a", "b"], "q2": ["N/A"], "q3": ["unknown"]}
    write(tmp_path / "hub", documents, queries, [("q1", "d", 1), ("q2", "a", 1), ("q3", "c", 1)])
    scores = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}
    assert values("bright_biology", tmp_path / "hub", scores, ["RR"]) == {
        ("q1", "RR"): 1 / 2,  # c, d
        ("q2", "RR"): 1,  # a, b
        ("q3", "RR"): 0,  # a, b: c is third
    }


def test_deep_learning_tracks_count_grades_from_two_on(tmp_path):
    """nDCG takes grades as gains; recall, RR and AP know relevant documents alone, and a grade of 1 is none."""
    write(tmp_path / "hub", ["a", "b", "c"], {"q": []}, [("q", "a", 1), ("q", "b", 2), ("q", "c", 3)])
    scores = {"a": 3.0, "b": 2.0, "c": 1.0}
    ideal = 3 + 2 / np.log2(3) + 1 / np.log2(4)
    for name in ("trec_dl_2019", "trec_dl_2020"):
        assert values(name, tmp_path / "hub", scores, DATA_SETS[name].measures, k=3) == {
            ("q", "nDCG@10"): (1 + 2 / np.log2(3) + 3 / np.log2(4)) / ideal,
            ("q", "R@100"): 1,
            ("q", "RR@10"): 1 / 2,
            ("q", "AP@1000"): (1 / 2 + 2 / 3) / 2,
        }
    # Elsewhere a grade of 1 is relevant.
    assert values("nfcorpus", tmp_path / "hub", scores, ["RR@10"], k=3) == {("q", "RR@10"): 1}


def test_queries_without_relevant_documents_count_as_zero_and_change_no_other(tmp_path):
    write(
        tmp_path / "hub", ["a", "b"], {"q1": [], "q2": [], "q3": []}, [("q1", "a", 0), ("q2", "a", 1), ("q3", "b", 0)]
    )
    scores = {"a": 2.0, "b": 1.0}
    assert values("scidocs", tmp_path / "hub", scores, ["nDCG@10"]) == {
        ("q1", "nDCG@10"): 0,
        ("q2", "nDCG@10"): 1,
        ("q3", "nDCG@10"): 0,
    }


def test_a_judged_document_that_is_not_there_still_counts(tmp_path):
    """As trec_eval has it, and as ArguAna's published figures count its five: the ideal ranking would have it."""
    write(tmp_path / "hub", ["a", "b"], {"q": []}, [("q", "a", 1), ("q", "gone", 1)])
    found = values("scidocs", tmp_path / "hub", {"a": 2.0, "b": 1.0}, ["R@100", "nDCG@10"])
    assert found == {("q", "R@100"): 1 / 2, ("q", "nDCG@10"): 1 / (1 + 1 / np.log2(3))}


def test_a_folder_without_any_judgement_has_no_queries(tmp_path):
    write(tmp_path / "hub", ["a"], {"q": []}, [])
    entry = DataSet(name="mine", source=f"path:{tmp_path / 'hub'}", reader="hub_retrieval")
    assert data_sets.fingerprint(entry, "test").num_queries == 0
    assert data_sets.report(entry).warnings() == ["1 queries without a judgement in any split"]
