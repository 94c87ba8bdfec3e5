"""Which evaluations a checkpoint is due, and under which similarities; no framework is read for it."""

import subprocess
import sys
from dataclasses import replace

from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.scoring import score_similarities, trained_similarity
from search_spaces.specs import DataSpec, EvaluationSpec, SimilaritySpec
from tests.trainers.evaluating import evaluate

LEARNED = SimilaritySpec(name="learnable", gamma_q=0.46, gamma_d=0.54, trained=True)
FIXED = [
    SimilaritySpec(name=s.name, gamma_q=s.gamma_q, gamma_d=s.gamma_d, trained=False)
    for s in SIMILARITIES.values()
    if not s.trained
]


def test_without_score_similarities_nothing_is_read(tmp_path) -> None:
    nothing = DataSet(name="absent", source=f"path:{tmp_path}/absent")
    evaluation = EvaluationSpec(data=DataSpec(entry=nothing, split="test", content_hash="0"))
    store = open_store(str(tmp_path / "sweep"))
    evaluate(tmp_path / "no checkpoint", evaluation, [], store=store)
    assert store.list("") == []


def test_which_similarities_score_which_checkpoint() -> None:
    evaluation = EvaluationSpec(data=DataSpec(entry=DataSet(name="x", source="path:x"), split="test"))
    every = replace(evaluation, score_similarities="all")
    cosine = next(s for s in FIXED if s.name == "cosine")
    assert score_similarities(cosine, evaluation) == (cosine,)
    assert score_similarities(LEARNED, evaluation) == (LEARNED,)
    assert score_similarities(None, evaluation) == tuple(FIXED)
    assert sorted(s.name for s in score_similarities(cosine, every)) == sorted(s.name for s in FIXED)
    assert score_similarities(LEARNED, every) == (LEARNED, *FIXED)
    start = replace(LEARNED, gamma_q=0.5, gamma_d=0.5)
    assert trained_similarity(start, 0.46, 0.54) == LEARNED
    assert trained_similarity(None, None, None) is None


def test_planning_needs_no_torch() -> None:
    code = (
        "import sys; from trainers.evaluation import evaluations, judged_queries, evaluation_rows, measures, "
        "shared_texts, text_hashes; print(*sys.modules)"
    )
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "trainers.evaluation.evaluations" in modules
    assert not {"torch", "transformers", "faiss", "ray", "mlflow"}.intersection(modules)
