"""What rows of norms take on the disk, as docs/evaluation.md says it."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from results.rows import write_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec, EvaluationSpec
from trainers.evaluation.evaluation_rows import norm_columns

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
NUM_DOCUMENTS = 1_000_000


@pytest.mark.parametrize(
    ("document_id", "place"), [("{:07d}", 0), ("doc-{:016x}", 1)], ids=["7 characters", "20 characters"]
)
def test_a_document_takes_what_the_page_says(tmp_path, document_id, place):
    said = re.search(r"That file takes (\d+) to (\d+) bytes a document", PAGE)
    data = DataSpec(entry=DataSet(name="many", source="path:/nowhere"), split="test", content_hash="0" * 64)
    scattered = np.random.default_rng(0).permutation(NUM_DOCUMENTS)
    ids = [document_id.format(int(number)) for number in (range(NUM_DOCUMENTS) if place == 0 else scattered)]
    norm_N = np.random.default_rng(1).gamma(9, size=NUM_DOCUMENTS).astype(np.float32)
    columns = norm_columns(
        "f" * 64,
        EvaluationSpec(data=data),
        query_ids=["q"],
        query_norm_Q=norm_N[:1],
        document_ids=pa.chunked_array([pa.array(ids)]),
        document_norm_N=norm_N,
    )
    store = open_store(str(tmp_path))
    write_rows(store, "norms.parquet", "norms", columns)
    assert len(store.read("norms.parquet")) / NUM_DOCUMENTS == pytest.approx(int(said[place + 1]), abs=1.5)
