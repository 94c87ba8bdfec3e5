import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from tiny_trials import (
    data_spec,
    hash_of,
    reproducible,
    train_here,
    train_in_process,
    trial_spec,
    write_collection,
)
from transformers import get_linear_schedule_with_warmup

from results.layout import checkpoint_prefix
from results.store import open_store
from search_spaces.identity import trial_id
from search_spaces.specs import Execution, SimilaritySpec
from trainers import data_sets
from trainers.encoders.checkpoints import load_checkpoint
from trainers.encoders.dropout import use_fast_dropout
from trainers.init_regimes import start_encoder
from trainers.randomness import derived_seed
from trainers.threads import set_threads
from trainers.training.batches import false_negatives, plan_batches
from trainers.training.pairs import training_pairs
from trainers.training.resume import CheckpointPolicy
from trainers.training.stepping import NonFiniteLossError

DOT = SimilaritySpec(name="dot", gamma_q=0.0, gamma_d=0.0, trained=False)
LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        set_threads(1)
        yield data_spec(write_collection(folder / "collection"), "train")


@pytest.fixture
def spec(data, tiny_bert, make_spec):
    """Six steps of batch 8 with dropout."""

    def make(**changes):
        return trial_spec(data, make_spec(tiny_bert), **changes)

    return make


def test_training_lowers_the_loss_and_reports_every_step(data, minilm, tmp_path):
    reports = []
    trial = trial_spec(data, replace(minilm, layers=1), steps=20, learning_rate=3e-4)
    result, _ = train_here(trial, tmp_path, report=reports.append)
    assert [report.numbers.step for report in reports] == list(range(1, 21))
    assert [report.numbers for report in reports] == list(result.history)
    losses = [step.loss for step in result.history]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    assert result.final_loss == losses[-1]
    assert result.num_negatives == 7
    assert result.peak_memory_bytes > 50e6
    steps_s = sum(8 / step.pairs_per_s for step in result.history)
    assert 0 < steps_s <= result.wall_s
    assert result.pairs_per_s == pytest.approx(20 * 8 / steps_s)


def _embedded(encoder, queries, documents, seed):
    """Both sides as one padded batch, longest first as training has them, since dropout depends on the place."""
    ids = encoder.tokenise(queries, "query") + encoder.tokenise(documents, "document")
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    torch.manual_seed(seed)
    embedded = encoder(*encoder.pad([ids[i] for i in order]), "query")
    rows = torch.stack([embedded[order.index(i)] for i in range(len(ids))])
    return rows[: len(queries)], rows[len(queries) :]


def test_training_is_the_plain_loop_written_out(spec, data, make_spec, tiny_bert, tmp_path):
    """The same steps without accelerate or this project's loss, optimiser groups and schedule; dropout on."""
    trial = spec(steps=5, similarity=LEARNABLE, schedule="linear", warmup_steps=1, weight_decay=0.1, clip_norm=0.5)
    result, _ = train_here(trial, tmp_path)

    settings = trial.training
    encoder = start_encoder(trial.encoder, trial.seed).train()
    use_fast_dropout(encoder)  # the same masks
    g = torch.zeros(2, requires_grad=True)  # sigmoid(0) = 0.5
    weights = [weight for name, weight in encoder.named_parameters() if ".pooler." not in name]
    optimizer = torch.optim.AdamW(
        [
            {"params": weights, "weight_decay": 0.1},
            {"params": [g], "lr": settings.gamma_learning_rate, "weight_decay": 0},
        ],
        lr=settings.learning_rate,
        betas=(0.9, 0.98),
        eps=1e-8,
    )
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, 5)
    pairs = training_pairs(data_sets.load(data.entry), "train", relevance_threshold=1)
    plan = plan_batches(pairs, global_batch=8, steps=5, seed=trial.seed)
    for step, (batch, negatives) in enumerate(zip(plan.pair_SB, plan.negative_SBK, strict=True)):
        query, document = _embedded(
            encoder,
            [pairs.query_texts[i] for i in pairs.query_index[batch]],
            [pairs.document_texts[i] for i in pairs.document_index[batch]],
            derived_seed(trial.seed, "dropout", step + 1, 0),
        )
        gamma_q, gamma_d = g.sigmoid()
        logits = 20 * query @ document.T / query.norm(dim=1)[:, None] ** gamma_q / document.norm(dim=1) ** gamma_d
        logits[torch.from_numpy(false_negatives(pairs, batch, negatives))] = -torch.inf
        loss = -logits.log_softmax(dim=1).diagonal().mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([*weights, g], 0.5)
        seen = result.history[step]
        assert seen.loss == pytest.approx(loss.item(), rel=1e-4)
        assert seen.gradient_norm == pytest.approx(norm.item(), rel=1e-3)
        assert seen.learning_rate == pytest.approx(optimizer.param_groups[0]["lr"])
        assert (seen.gamma_q, seen.gamma_d) == pytest.approx((gamma_q.item(), gamma_d.item()), abs=1e-5)
        assert seen.query_norm_mean == pytest.approx(query.norm(dim=1).mean().item(), rel=1e-4)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    assert result.gammas == pytest.approx(tuple(g.sigmoid().tolist()), abs=1e-5)
    assert abs(result.gammas[0] - 0.5) > 0.01  # they move with their own rate
    with open_store(str(tmp_path)).get_folder(checkpoint_prefix(trial_id(trial))) as folder:
        saved = load_checkpoint(folder)
    assert (saved.similarity.gamma_q, saved.similarity.gamma_d) == result.gammas
    assert saved.scale == trial.scale
    start = dict(start_encoder(trial.encoder, None).named_parameters())
    ours = dict(saved.encoder.named_parameters())
    for name, theirs in encoder.named_parameters():
        # Attention does not depend on the bias of its keys: Adam turns the rounding of their gradient into steps.
        if not name.endswith("key.bias"):
            assert torch.dist(ours[name], theirs) <= 0.01 * torch.dist(start[name], theirs), name


def test_weights_without_a_gradient_stay_as_they_were(spec, tmp_path):
    trial = spec()
    train_here(trial, tmp_path)
    before = dict(start_encoder(trial.encoder, None).named_parameters())
    with open_store(str(tmp_path)).get_folder(checkpoint_prefix(trial_id(trial))) as folder:
        after = dict(load_checkpoint(folder).encoder.named_parameters())
    unchanged = {name for name, weight in after.items() if torch.equal(weight, before[name])}
    assert unchanged == {name for name in after if ".pooler." in name}


@pytest.mark.slow
def test_a_used_process_gives_what_a_fresh_one_gives(spec, tmp_path, monkeypatch):
    trial = spec(similarity=LEARNABLE)
    fresh = tmp_path / "fresh"
    assert train_in_process(trial, fresh) == 0
    # Another trial before, of another precision, seed and similarity, and settings of accelerate in the environment.
    train_here(spec(similarity=DOT, precision="bf16", seed=3, global_batch=5), tmp_path / "before")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    result, used_hash = train_here(trial, tmp_path / "used")
    again, again_hash = train_here(trial, tmp_path / "again")
    assert used_hash == again_hash == hash_of(trial, fresh)
    assert reproducible(result.history) == reproducible(again.history)


def test_seed_and_precision_reach_the_training(spec, tmp_path):
    trials = [spec(), spec(seed=8), spec(precision="bf16")]
    trained = [train_here(trial, tmp_path / str(i)) for i, trial in enumerate(trials)]
    assert len({digest for _, digest in trained}) == 3
    first, _, low = (result.history[0].loss for result, _ in trained)
    assert low != first  # bf16 really was used
    assert low == pytest.approx(first, rel=0.05)


def test_a_loss_that_is_not_finite_ends_the_training_before_the_step(spec, tmp_path):
    trial = spec(similarity=DOT, scale=3e38)
    with pytest.raises(NonFiniteLossError, match=r"loss became (nan|inf) at step 1"):
        train_here(trial, tmp_path, policy=CheckpointPolicy(every_steps=1))
    assert open_store(str(tmp_path)).list("trials") == []


def test_a_report_can_stop_the_training(spec, tmp_path):
    def stop(report):
        if report.numbers.step == 4:
            raise KeyboardInterrupt

    trial = spec()
    with pytest.raises(KeyboardInterrupt):
        train_here(trial, tmp_path / "stopped", report=stop, policy=CheckpointPolicy(every_steps=2))
    steps = []
    resumed, resumed_hash = train_here(trial, tmp_path / "stopped", report=lambda r: steps.append(r.numbers.step))
    whole, whole_hash = train_here(trial, tmp_path / "whole")
    assert steps == [3, 4, 5, 6]  # step 4 was reported, but its checkpoint was not written
    assert resumed_hash == whole_hash
    assert reproducible(resumed.history) == reproducible(whole.history)


def test_what_may_write_no_more_writes_nothing(spec, tmp_path):
    from results.store import LostLockError
    from trainers.training.train import train

    def lost():
        raise LostLockError("another owner")

    store = open_store(str(tmp_path))
    for policy in (CheckpointPolicy(every_steps=1), CheckpointPolicy()):
        with pytest.raises(LostLockError):
            train(spec(), store=store, report=lambda _: None, verify=lost, checkpoint_policy=policy)
    assert store.list("trials") == []


def test_a_spec_that_is_no_training_is_refused(spec, tmp_path):
    with pytest.raises(ValueError, match="kind 'untrained' is no training"):
        train_here(replace(spec(), kind="untrained"), tmp_path)
    with pytest.raises(ValueError, match="lacks training data, similarity, scale, seed or settings"):
        train_here(replace(spec(), seed=None), tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has an accelerator")
def test_a_device_that_is_not_there_is_refused(spec, tmp_path):
    with pytest.raises(ValueError, match="the trial's device is 'gpu', but torch finds only cpu here"):
        train_here(replace(spec(), execution=Execution(device="gpu")), tmp_path)


def test_time_policies():
    policy = CheckpointPolicy(every_steps=None, every_s=5.0)
    assert not policy.is_due(100, 4.9)
    assert policy.is_due(1, 5.0)
    assert CheckpointPolicy(every_steps=3).is_due(6, 0.0)
    assert not CheckpointPolicy(every_steps=3).is_due(7, math.inf)


@pytest.mark.slow
def test_what_is_held_of_the_graphs_changes_no_bit(spec, tmp_path, monkeypatch):
    """Whatever `chunk_size` says, and whatever memory is free, in another attempt too."""
    monkeypatch.setattr("trainers.training.train.CHUNK_TOKENS", {"cpu": 32})  # several chunks of a tiny batch
    trial = spec()
    seen = {}
    for chunk_size in (None, 1, 4, "auto"):
        made = replace(trial, execution=Execution(chunk_size=chunk_size))
        assert trial_id(made) == trial_id(trial)
        seen[chunk_size] = train_here(made, tmp_path / str(chunk_size))
    stop = tmp_path / "interrupted"
    with monkeypatch.context() as patch:
        patch.setattr("trainers.training.held_graphs.free_bytes", lambda device: 0)

        def leave(report):
            if report.numbers.step == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_here(trial, stop, report=leave, policy=CheckpointPolicy(every_steps=1))
    seen["resumed"] = train_here(trial, stop)
    assert len({digest for _, digest in seen.values()}) == 1
    histories = [reproducible(result.history) for result, _ in seen.values()]
    assert all(history == histories[0] for history in histories)


@pytest.mark.slow
def test_a_compiled_training_is_the_plain_one(data, make_spec, tiny_bert, tmp_path):
    """Of a model without dropout, which a compiler draws in another order; to the rounding of fused kernels."""
    folder = shutil.copytree(tiny_bert, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    trial = trial_spec(data, make_spec(folder), steps=3)
    compiled = replace(trial, execution=Execution(torch_compile=True))
    assert trial_id(compiled) == trial_id(trial)
    plain, _ = train_here(trial, tmp_path / "plain")
    found, _ = train_here(compiled, tmp_path / "compiled")
    assert [step.loss for step in found.history] == pytest.approx([step.loss for step in plain.history], rel=1e-4)
