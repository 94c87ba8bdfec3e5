"""Whatever an evaluation would be made anew for is taken over from another folder."""

import pytest
from mirrored_sweeps import COSINE, evaluation_spec

from orchestrator.reuse import files_of
from results.schemas import SCHEMAS
from search_spaces.specs import PoolSettings, PoolSpec, RagSpec, ReaderSpec, WeightsSpec
from trainers.evaluation.evaluations import missing_evaluations

RAG = RagSpec(
    reader=ReaderSpec(weights=WeightsSpec(source="path:/reader", content_hash="hash-of-reader")),
    num_passages=3,
    prompt="{question} {passages}",
    max_input_tokens=200,
    max_new_tokens=6,
)


class Asked:
    """Says that everything is there, and knows what it was asked for."""

    def __init__(self):
        self.keys = []

    def read(self, key):
        raise KeyError(key)

    def exists(self, key):
        self.keys.append(key)
        return True


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"keep_embeddings": True},
        {"run_files": True},
        {"rag": RAG},
        {"tier": "pool", "pool": PoolSpec(settings=PoolSettings()), "run_files": True, "keep_embeddings": True},
    ],
    ids=["plain", "embeddings", "runs", "answers", "pool"],
)
def test_all_that_is_looked_for_is_copied(store, more):
    asked, evaluation = Asked(), evaluation_spec("zoo", **more)
    assert missing_evaluations("hash", COSINE.similarity, evaluation, asked) == []
    for key in asked.keys:
        store.write(key, b"rows")
    copied = dict(files_of("hash", COSINE.similarity, evaluation, store))
    assert set(asked.keys) <= copied.keys()
    assert set(copied.values()) - {None} <= SCHEMAS.keys()
