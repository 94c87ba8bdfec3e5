"""`densesweep doctor` on pools: damaged ones go as a whole, and what a building goes on from stays."""

from dataclasses import replace

import pytest
from mirrored_sweeps import evaluation_spec

from orchestrator.doctor_rows import record_findings, row_findings
from orchestrator.doctor_trials import leftover_findings
from results import layout
from results.layout import PoolRecord
from results.rows import write_rows
from results.usage import usage
from search_spaces.identity import pool_id
from search_spaces.specs import PoolSettings, PoolSpec, to_json

SPEC = evaluation_spec("zoo", tier="pool", pool=PoolSpec(settings=PoolSettings()))
POOL = pool_id(SPEC)
ROWS = {"document_id": ["d1", "d2"], "reasons": [["judged"], ["random", "bm25"]]}


@pytest.fixture
def built(store):
    """A pool with its parts, as a run leaves them."""
    record = PoolRecord(
        pool_id=POOL,
        data_set="zoo",
        split="test",
        num_corpus_documents=9,
        num_documents=2,
        counts={"judged": 1},
        settings=PoolSettings(),
        encoders=("minilm/finetune",),
        made_by="{}",
    )
    store.write(layout.spec_key(layout.pool_prefix(POOL)), to_json(SPEC).encode())
    store.write(layout.pool_record(POOL), layout.to_bytes(record))
    for key in (layout.pool_rows(POOL), layout.pool_part_rows("part")):
        write_rows(store, key, "pools", ROWS, provenance_json="{}")
    return store


def _found(store):
    keys = store.list("")
    return [*row_findings(store, keys), *record_findings(store, keys), *leftover_findings(store, keys, {}, False)]


def test_a_sound_pool_is_sound(built):
    assert _found(built) == []
    assert usage(built)["pools"] == sum(built.sizes("").values())


@pytest.mark.parametrize(
    ("key", "is_whole_pool"),
    [
        (layout.pool_rows(POOL), True),
        (layout.pool_record(POOL), True),
        (layout.spec_key(layout.pool_prefix(POOL)), True),
        (layout.pool_part_rows("part"), False),
    ],
)
def test_what_is_damaged_is_deleted_and_of_a_pool_all(built, key, is_whole_pool):
    before = built.list("")
    built.write(key, built.read(key)[:-9])
    [finding] = _found(built)
    assert (finding.severity, finding.where) == ("broken", key)
    assert ("by the next run that evaluates on it" in finding.remedy) == is_whole_pool
    finding.cure()
    gone = layout.pool_prefix(POOL) if is_whole_pool else key
    assert built.list("") == [name for name in before if not name.startswith(gone)]
    assert _found(built) == []


def test_the_spec_of_another_pool_is_found(built):
    key = layout.spec_key(layout.pool_prefix(POOL))
    other = replace(SPEC, pool=PoolSpec(settings=PoolSettings(seed=5)))
    built.write(key, to_json(other).encode())
    [finding] = _found(built)
    assert f"this is the spec of {pool_id(other)}" in finding.what


def test_what_a_building_goes_on_from_is_left_over_once_every_pool_is_built(built):
    unfinished = layout.unfinished_prefix(layout.POOLS)
    built.write(f"{unfinished}/0123.npz", b"state")
    [finding] = _found(built)
    assert (finding.severity, finding.where) == ("leftover", unfinished)
    built.write(layout.spec_key(layout.pool_prefix("to-build")), b"{")
    assert [found.severity for found in _found(built)] == ["broken"]  # that spec; the state stays
