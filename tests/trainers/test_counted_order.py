"""Rows in another order: what an earlier pass left, and what helpers do, counts no more; equal content or not."""

import numpy as np
import pyarrow as pa
import pytest

from results.store import open_store
from tests.trainers.small_beir import write_small_beir
from trainers.evaluation.counted_order import order_digest
from trainers.evaluation.evaluated_group import EvaluatedGroup
from trainers.evaluation.found_documents import keep_found, kept_found

CHECKPOINT = "0" * 64


def digest(queries=("q1", "q2"), documents=(["d1", "d2"], ["d3"]), hashes=((1, 2), (3, 4), (5, 6))) -> str:
    return order_digest(queries, pa.chunked_array(list(documents), pa.string()), np.array(hashes, dtype=np.uint64))


def test_the_digest_is_of_rows_in_their_order_wherever_chunks_end():
    assert digest(documents=(["d1"], [], ["d2", "d3"])) == digest()
    others = [
        digest(queries=("q2", "q1")),
        digest(documents=(["d2", "d1"], ["d3"])),
        digest(documents=(["d1d", "2"], ["d3"])),
        digest(hashes=((3, 4), (1, 2), (5, 6))),
    ]
    assert len({digest(), *others}) == 5


def test_another_format_is_another_digest(monkeypatch: pytest.MonkeyPatch):
    before = digest()
    monkeypatch.setattr("trainers.evaluation.counted_order.FORMAT_VERSION", 2)
    assert digest() != before


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl"])
def test_a_collection_in_another_order_has_its_content_hash_and_no_snapshot(tmp_path, file: str):
    store = open_store(str(tmp_path / "sweep"))
    groups = []
    for name in ("one", "other"):
        evaluation = write_small_beir(tmp_path / name / "reports", range(40))
        if name == "other":
            lines = (tmp_path / name / "reports" / file).read_text().splitlines(keepends=True)
            (tmp_path / name / "reports" / file).write_text("".join(reversed(lines)))
        groups.append((evaluation, EvaluatedGroup(CHECKPOINT, {evaluation: []}, store=store, verify=lambda: None)))
    (one, first), (other, second) = groups
    assert one.data.content_hash == other.data.content_hash
    assert first.order_digest != second.order_digest
    assert first._snapshot_key() != second._snapshot_key()
    again = EvaluatedGroup(CHECKPOINT, {one: []}, store=store, verify=lambda: None)
    assert (again.order_digest, again._snapshot_key()) == (first.order_digest, first._snapshot_key())


def test_rankings_are_kept_for_one_order(tmp_path):
    store = open_store(str(tmp_path / "sweep"))
    evaluation = write_small_beir(tmp_path / "reports", range(20))
    document_QK = np.array([[3, 1], [0, -1]])
    keep_found(store, CHECKPOINT, evaluation, "an order", {0.5: document_QK})
    found = kept_found(store, CHECKPOINT, evaluation, "an order", [0.5])
    assert found is not None
    np.testing.assert_array_equal(found[0.5], document_QK)
    assert kept_found(store, CHECKPOINT, evaluation, "another order", [0.5]) is None
