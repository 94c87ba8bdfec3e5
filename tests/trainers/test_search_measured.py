"""Search and measures together: golden values of each benchmark's rule, and trec_eval on whole shared collections."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from tests.trainers.whole_search import search
from trainers.evaluation.measures import depth, per_query


def measured(scores, ids, qrels, measures, *, excluded=None, k=100, threshold=1) -> dict[tuple[str, str], float]:
    """Measures of queries whose scores with each document are given: one-hot queries find them as they are."""
    query_QH = np.eye(len(scores), dtype=np.float32)
    document_NH = np.array(scores, np.float32).T.copy()
    found = search(query_QH, [document_NH], k, document_ids=ids, excluded=excluded)
    names = [f"q{row}" for row in range(len(scores))]
    rankings = {q: [ids[p] for p in row if p >= 0] for q, row in zip(names, found.document_QK, strict=True)}
    values = per_query(rankings, qrels, measures, relevance_threshold=threshold)
    return {(value.query_id, value.measure): value.value for value in values}


def test_arguana_a_query_does_not_find_itself() -> None:
    """The query's own text has the best score of all: left in, each relevant document stands one place lower."""
    scores, ids, qrels = [[9, 3, 5, 1]], ["self", "b", "c", "d"], {"q0": {"b": 1}}
    left_in = measured(scores, ids, qrels, ["nDCG@10", "RR@10"])
    taken_out = measured(scores, ids, qrels, ["nDCG@10", "RR@10"], excluded=[[0]])
    assert left_in == {("q0", "nDCG@10"): pytest.approx(1 / math.log2(4)), ("q0", "RR@10"): pytest.approx(1 / 3)}
    assert taken_out == {("q0", "nDCG@10"): pytest.approx(1 / math.log2(3)), ("q0", "RR@10"): 0.5}


def test_bright_excluded_documents_leave_before_the_cut() -> None:
    """Ten excluded documents fill the first ten places; excluded after the cut to 10, nothing would be left."""
    scores, ids = [[*range(100, 90, -1), 5, 4]], [f"x{n}" for n in range(10)] + ["good", "bad"]
    found = measured(scores, ids, {"q0": {"good": 1}}, ["RR@10", "R@10"], excluded=[list(range(10))], k=10)
    assert found == {("q0", "RR@10"): 1.0, ("q0", "R@10"): 1.0}


def test_trec_dl_binary_measures_start_at_grade_2() -> None:
    scores, ids = [[4, 3, 2, 1]], ["one", "three", "none", "two"]
    qrels = {"q0": {"one": 1, "two": 2, "three": 3, "none": 0}}
    found = measured(scores, ids, qrels, ["RR@10", "AP", "R@2", "nDCG@10"], threshold=2)
    dcg = 1 / math.log2(2) + 3 / math.log2(3) + 2 / math.log2(5)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert found["q0", "RR@10"] == 0.5
    assert found["q0", "AP"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert found["q0", "R@2"] == 0.5
    assert found["q0", "nDCG@10"] == pytest.approx(dcg / ideal)


def test_empty_qrels_corrupt_no_other_query() -> None:
    scores, ids = [[1, 2], [2, 1], [1, 2]], ["a", "b"]
    alone = measured(scores, ids, {"q2": {"a": 1}}, ["RR@10", "nDCG@10"])
    found = measured(scores, ids, {"q0": {}, "q1": {"gone": 1}, "q2": {"a": 1}}, ["RR@10", "nDCG@10"])
    assert found["q2", "RR@10"] == alone["q2", "RR@10"] == 0.5
    assert found["q2", "nDCG@10"] == alone["q2", "nDCG@10"]
    assert [value for (query, _), value in found.items() if query != "q2"] == [0.0] * 4


def test_ties_under_renamed_ids_are_other_runs_with_the_same_rule() -> None:
    """One relevant document among five that tie: it stands where its name stands, from the last to the first."""
    for place, order in [(1, "edcba"), (2, "decba"), (5, "abcde")]:
        found = measured([[1] * 5], list(order), {"q0": {order[0]: 1}}, ["RR@10", "nDCG@10", "RR@1"])
        assert found["q0", "RR@10"] == pytest.approx(1 / place)
        assert found["q0", "nDCG@10"] == pytest.approx(1 / math.log2(1 + place))
        assert found["q0", "RR@1"] == (place == 1)


def word_vectors(texts: list[str], size: int) -> np.ndarray:
    """Words counted in few buckets, with small whole numbers: a real ranking in which very many scores tie."""
    vectors = np.zeros((len(texts), size), np.float32)
    for row, text in enumerate(texts):
        for word in set(re.findall(r"\w{4,}", text.lower())):
            vectors[row, int.from_bytes(word.encode(), "little") % 1_000_003 % size] += 1
    return vectors


@pytest.mark.parametrize(
    ("name", "split", "threshold"),
    [pytest.param("scifact", "test", 1, marks=pytest.mark.slow), ("cranfield", "test", 2)],
)
def test_whole_collections_give_trec_evals_numbers(shared_data, name: str, split: str, threshold: int) -> None:
    folder: Path = shared_data(name)
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open()]
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels" / f"{split}.tsv").open() as file:
        for row in list(csv.reader(file, delimiter="\t"))[1:]:
            qrels.setdefault(row[0], {})[row[1]] = int(row[2])
    queries = [row for row in map(json.loads, (folder / "queries.jsonl").open()) if row["_id"] in qrels]
    ids = [row["_id"] for row in corpus]
    document_NH = word_vectors([f"{row['title']} {row['text']}" for row in corpus], 512)
    query_QH = word_vectors([row["text"] for row in queries], 512)
    measures = ("nDCG@10", "R@100", "AP")
    found = search(query_QH, [document_NH], depth(measures), document_ids=ids)
    rankings = {q["_id"]: [ids[p] for p in row if p >= 0] for q, row in zip(queries, found.document_QK, strict=True)}
    ours = {
        (v.query_id, v.measure): v.value for v in per_query(rankings, qrels, measures, relevance_threshold=threshold)
    }

    score_QN = query_QH @ document_NH.T  # whole numbers: exact
    ties = np.mean([len(np.unique(score_N)) / len(ids) for score_N in score_QN])
    assert ties < 0.05, "the ranking is meant to tie"
    run = {}
    for query, score_N in zip(queries, score_QN.tolist(), strict=True):
        ranked = sorted(zip(score_N, ids, strict=True), key=lambda pair: (pair[0], pair[1].encode()), reverse=True)
        run[query["_id"]] = {document: score for score, document in ranked[:1000]}
    names = {"ndcg_cut_10": "nDCG@10", "recall_100": "R@100", "map": "AP"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, set(names), relevance_level=threshold).evaluate(run)
    assert len(expected) == len(queries)
    for query_id, values in expected.items():
        for theirs, value in values.items():
            assert ours[query_id, names[theirs]] == pytest.approx(value, abs=1e-9), (query_id, theirs)
    assert 0.05 < np.mean([value for (_, measure), value in ours.items() if measure == "nDCG@10"]) < 0.9
