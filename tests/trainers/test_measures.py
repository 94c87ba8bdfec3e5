"""Measures against hand-computed values, a second implementation written here, and trec_eval on the cut run."""

import math

import numpy as np
import pytest
import pytrec_eval

from trainers.evaluation.measures import depth, faults, parse, per_query

MEASURES = ("nDCG@10", "R@100", "RR@10")


def values(rankings, qrels, measures=MEASURES, **options):
    return {(row.query_id, row.measure): row.value for row in per_query(rankings, qrels, measures, **options)}


def reference(ranking, grades, name: str, threshold: int) -> float:
    """The same measures from their definitions."""
    kind, _, cut = name.partition("@")
    top = ranking[: int(cut)]
    relevant = {document for document, grade in grades.items() if grade >= threshold}
    if kind == "nDCG":
        gains = [max(grades.get(document, 0), 0) for document in top]
        ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[: int(cut)]
        best = sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))
        return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains)) / best if best else 0.0
    if kind == "R":
        return len(relevant.intersection(top)) / len(relevant) if relevant else 0.0
    if kind == "AP":
        hits = [place for place, document in enumerate(top, start=1) if document in relevant]
        return sum((n + 1) / place for n, place in enumerate(hits)) / len(relevant) if relevant else 0.0
    if kind == "P":
        return len(relevant.intersection(top)) / int(cut)
    assert kind == "RR"
    places = [place for place, document in enumerate(top, start=1) if document in relevant]
    return 1 / places[0] if places else 0.0


def test_hand_computed() -> None:
    found = values({"q": ["x", "b", "a", "y"]}, {"q": {"a": 2, "b": 1, "c": 1}})
    dcg = 1 / math.log2(3) + 2 / math.log2(4)  # linear gain; 2^grade - 1 would give 3 / log2(4)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert found["q", "nDCG@10"] == pytest.approx(dcg / ideal, abs=1e-12)
    assert found["q", "R@100"] == pytest.approx(2 / 3)
    assert found["q", "RR@10"] == 0.5


@pytest.mark.parametrize("threshold", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_definitions(seed: int, threshold: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [f"d{number}" for number in range(150)]
    qrels = {
        f"q{query}": {documents[d]: int(rng.integers(0, 4)) for d in rng.choice(150, rng.integers(1, 40), False)}
        for query in range(30)
    }
    rankings = {query: list(rng.permutation(documents)[: rng.integers(0, 150)]) for query in qrels}
    measures = (*MEASURES, "nDCG@3", "AP@50", "P@5", "R@7", "RR@1")
    found = values(rankings, qrels, measures, relevance_threshold=threshold)
    assert len(found) == len(qrels) * len(measures)
    for (query, name), value in found.items():
        expected = reference(rankings[query], qrels[query], name, threshold)
        assert value == pytest.approx(expected, abs=1e-12), (query, name)


def test_rr_at_10_is_rr_of_the_cut_run() -> None:
    rng = np.random.default_rng(0)
    documents = [f"d{number}" for number in range(40)]
    rankings = {f"q{query}": list(rng.permutation(documents)) for query in range(50)}
    qrels = {query: dict.fromkeys(rng.choice(documents, 2, False), 1) for query in rankings}
    at_10 = values(rankings, qrels, ("RR@10",))
    cut = values({query: ranking[:10] for query, ranking in rankings.items()}, qrels, ("RR",))
    assert [at_10[query, "RR@10"] for query in qrels] == [cut[query, "RR"] for query in qrels]
    assert 0 < sum(at_10.values()) < len(qrels)


def test_the_threshold_moves_binary_measures_alone() -> None:
    rankings, qrels = {"q": ["one", "two"]}, {"q": {"one": 1, "two": 2}}
    low, high = (values(rankings, qrels, relevance_threshold=threshold) for threshold in (1, 2))
    assert (low["q", "RR@10"], high["q", "RR@10"]) == (1.0, 0.5)
    assert (low["q", "R@100"], high["q", "R@100"]) == (1.0, 1.0)
    assert low["q", "nDCG@10"] == high["q", "nDCG@10"] < 1
    found = values(rankings, qrels, ("RR@10", "RR(rel=1)@10", "RR(rel=3)@10"), relevance_threshold=2)
    assert list(found.values()) == [0.5, 1.0, 0.0]


def test_queries_without_results_or_relevant_documents_count_as_zero() -> None:
    qrels = {"found": {"a": 1}, "lost": {"a": 1}, "empty": {"a": 1}, "irrelevant": {"a": 0}, "unjudged": {}}
    rankings = {"found": ["a"], "empty": [], "irrelevant": ["a"], "unjudged": ["a"], "no_query_of_ours": ["a"]}
    found = values(rankings, qrels)
    assert list(found) == [(query, name) for query in qrels for name in MEASURES]
    assert {query for (query, _), value in found.items() if value} == {"found"}
    assert all(found["found", name] == 1 for name in MEASURES)


def test_a_query_with_grade_0_alone_is_what_trec_eval_says() -> None:
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {"a": 0}}, {"ndcg_cut_10", "recall_100", "recip_rank"})
    assert evaluator.evaluate({"q": {"a": 1.0}}) == {"q": {"ndcg_cut_10": 0.0, "recall_100": 0.0, "recip_rank": 0.0}}
    assert set(values({"q": ["a"]}, {"q": {"a": 0}}).values()) == {0.0}


def test_ids_may_hold_any_character() -> None:
    odd = ["a b", "ü", "𝔸", "tab\there", "line\nbreak", "a\0b", "a\0c", "", '"quoted"', "x" * 5000, "0", "1", "Q0"]
    qrels = {query: dict.fromkeys(odd[:5], 1) | {"a\0b": 2, "a\0c": 0} for query in odd}
    plain = {document: f"d{number}" for number, document in enumerate(odd)}
    found = values(dict.fromkeys(odd, odd), qrels)
    renamed = values(
        {plain[query]: list(plain.values()) for query in odd},
        {plain[query]: {plain[d]: grade for d, grade in grades.items()} for query, grades in qrels.items()},
    )
    assert list(found.values()) == list(renamed.values())
    assert found["a\0c", "nDCG@10"] == pytest.approx(reference(odd, qrels["ü"], "nDCG@10", 1), abs=1e-12)


def test_a_long_ranking_keeps_its_order() -> None:
    ranking = [str(number) for number in range(30_000)]
    found = values({"q": ranking}, {"q": {"29999": 1, "1": 1}}, ("AP",))
    assert found["q", "AP"] == pytest.approx((1 / 2 + 2 / 30_000) / 2, abs=1e-9)


def test_a_document_twice_in_a_ranking_is_refused() -> None:
    with pytest.raises(ValueError, match="query 'q' names a document twice"):
        per_query({"q": ["a", "b", "a"]}, {"q": {"a": 1}}, MEASURES)


@pytest.mark.parametrize("name", ["nDCG@ten", "ndgc@10", "nDCG@", "R", "", "RR(depth=3)@10", "Compat(p=1, q=2)"])
def test_what_is_no_measure_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="measure"):
        parse(name)


@pytest.mark.parametrize("name", ["nDCG@0", "R@0", "P@0", "nDCG@100000000", "R@10001"])
def test_a_cut_that_would_end_the_process_or_fill_its_memory_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"its cut is \d+, and must be from 1 to 10,000"):
        parse(name)


@pytest.mark.parametrize(("name", "threshold"), [("R@100", 0), ("AP", -1), ("P(rel=0)@5", 1)])
def test_a_threshold_below_1_is_refused(name: str, threshold: int) -> None:
    with pytest.raises(ValueError, match=r"its relevance threshold is -?\d, and must be 1 or higher"):
        parse(name, threshold)


def test_depth_reaches_the_largest_cut() -> None:
    assert depth(("nDCG@10", "RR@10")) == 100
    assert depth(("nDCG@10", "R@250")) == 250
    assert depth(("nDCG@10", "AP")) == 1000
    assert depth(("R@5000", "AP")) == 5000


@pytest.mark.parametrize("name", ["NumRet", "NumRet(rel=1)", "NumRelRet", "NumRel", "NumQ"])
def test_a_count_is_refused_with_what_to_write(name):
    """With the threshold of binary measures NumRet would even be another count: of what is relevant."""
    with pytest.raises(ValueError, match=r"counts instead of measuring from 0 to 1 \(write a share, such as R@100"):
        parse(name)


def test_a_measure_that_is_given_twice_is_told_in_whatever_spelling():
    names = ["nDCG@10", "RR@10", "nDCG(cutoff=10)", "MRR@10", "nDCG@10", "nDCG@20", "nonsense"]
    found = dict(faults(names))
    assert found[2] == "'nDCG(cutoff=10)' is the same measure as 'nDCG@10' before it; leave it out"
    assert found[3] == "'MRR@10' is the same measure as 'RR@10' before it; leave it out"
    assert found[4] == "'nDCG@10' is the same measure as 'nDCG@10' before it; leave it out"
    assert found[6].startswith("'nonsense' is not a measure")
    assert set(found) == {2, 3, 4, 6}


def test_the_threshold_decides_whether_two_are_the_same():
    assert [place for place, _ in faults(["R@100", "R(rel=2)@100"], 2)] == [1]
    assert list(faults(["R@100", "R(rel=2)@100"], 1)) == []


def test_a_lacking_parameter_is_named():
    with pytest.raises(ValueError, match=r"it needs max_rel$"):
        parse("SDCG@10")
