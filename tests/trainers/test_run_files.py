"""Run files read back by ir-measures and trec_eval, whose numbers are those of the rankings."""

import gzip
import re
from pathlib import Path

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval

from tests.trainers.whole_search import search
from trainers.evaluation.measures import per_query
from trainers.evaluation.run_files import packed_run, strictly_decreasing
from trainers.search import Rankings

MEASURES = ("nDCG@10", "R@100", "RR@10", "AP")


def tied_search(num_queries: int = 20, num_documents: int = 400, k: int = 150) -> tuple[list[str], list[str], Rankings]:
    """Rankings of few different scores, positive, negative and zero."""
    rng = np.random.default_rng(7)
    query_QH, document_NH = (rng.integers(-2, 3, (n, 4)).astype(np.float32) for n in (num_queries, num_documents))
    query_QH[0] = 0
    document_ids = [f"d{number}" for number in rng.permutation(num_documents)]
    found = search(query_QH, [document_NH], k, document_ids=document_ids)
    return [f"q{number}" for number in range(num_queries)], document_ids, found


def test_every_reader_finds_the_numbers_of_the_ranking(tmp_path: Path) -> None:
    query_ids, document_ids, found = tied_search()
    rng = np.random.default_rng(8)
    qrels = {q: {d: int(rng.integers(0, 3)) for d in rng.choice(document_ids, 25, False)} for q in query_ids}
    packed = packed_run(
        query_ids=query_ids,
        document_ids=pa.array(document_ids),
        document_QK=found.document_QK,
        score_QK=found.score_QK,
        tag="tied",
    )
    file = tmp_path / "run.txt"
    file.write_bytes(gzip.decompress(packed))
    rankings = {q: [document_ids[p] for p in row] for q, row in zip(query_ids, found.document_QK, strict=True)}
    ours = {(v.query_id, v.measure): v.value for v in per_query(rankings, qrels, MEASURES)}
    parsed = [ir_measures.parse_measure(name) for name in MEASURES]
    theirs = ir_measures.iter_calc(parsed, qrels, ir_measures.read_trec_run(str(file)))
    assert {(v.query_id, str(v.measure)): v.value for v in theirs} == pytest.approx(ours, abs=1e-12)
    with file.open() as lines:
        run = pytrec_eval.parse_run(lines)
    names = {"ndcg_cut_10": "nDCG@10", "recall_100": "R@100", "map": "AP"}
    for query, values in pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run).items():
        for name, value in values.items():
            assert value == pytest.approx(ours[query, names[name]], abs=1e-9)


def test_the_columns_are_those_of_trec() -> None:
    document_QK, score_QK = np.array([[1, 0, -1]]), np.array([[0.5, 0.1, -np.inf]], np.float32)
    packed = packed_run(
        query_ids=["q"], document_ids=pa.array(["a", "b"]), document_QK=document_QK, score_QK=score_QK, tag="x"
    )
    assert gzip.decompress(packed).decode() == "q Q0 b 1 0.5 x\nq Q0 a 2 0.100000001 x\n"


def test_scores_are_those_found_but_for_the_last_digits_of_ties() -> None:
    score_QK = np.array([[2, 1, 1, 1, 0, 0, -0.0, -1, -1, -np.inf]], np.float32)
    apart_QK = strictly_decreasing(score_QK)
    assert (np.diff(apart_QK[0, :-1]) < 0).all()
    np.testing.assert_allclose(apart_QK, score_QK, rtol=1e-6, atol=1e-29)
    assert apart_QK[0, -1] == -np.inf
    distinct = np.array([[3.0, 2.5, -1.0]], np.float32)
    np.testing.assert_array_equal(strictly_decreasing(distinct), distinct)
    with pytest.raises(ValueError, match="scores of a ranking rise"):
        strictly_decreasing(distinct[:, ::-1])


@pytest.mark.parametrize(
    ("query", "document", "tag", "message"),
    [
        ("a b", "d", "t", "query id 'a b'"),
        ("q", "d\te", "t", r"document id 'd\te'"),
        ("q", "", "t", "document id ''"),
        ("q", "d", "my run", "tag 'my run'"),
    ],
)
def test_what_would_break_the_columns_is_refused(query, document, tag, message) -> None:
    ones = np.ones((1, 1), np.float32)
    with pytest.raises(ValueError, match=re.escape(message)):
        packed_run(
            query_ids=[query],
            document_ids=pa.array([document]),
            document_QK=np.zeros((1, 1), np.int64),
            score_QK=ones,
            tag=tag,
        )
