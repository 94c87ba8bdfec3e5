"""Under a constant schedule a training of more steps goes on from a finished shorter one, to the same last bit."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_trials import (
    data_spec,
    hash_of,
    reproducible,
    train_here,
    train_in_process,
    trial_spec,
    write_collection,
)

from results.layout import last_checkpoint_prefix
from results.store import open_store
from search_spaces.identity import prefix_id, trial_id
from search_spaces.specs import SimilaritySpec, ValidationSpec
from trainers.encoders.checkpoints import checkpoint_hash
from trainers.threads import set_threads
from trainers.training.resume import CheckpointPolicy, remove_training_checkpoints

# Rates so low that weights change in their last bits and rankings do not: the first validation stays the best.
STILL = {"learning_rate": 1e-12, "gamma_learning_rate": 1e-12, "warmup_steps": 0}
LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)


@pytest.fixture(scope="module")
def trial(tmp_path_factory, tiny_bert, make_spec):
    """Twenty steps with dropout, trained gammas and a warm-up; `longer` is the same with more."""
    folder = tmp_path_factory.mktemp("continuing_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        set_threads(1)
        data = data_spec(write_collection(folder / "collection"), "train")
        yield trial_spec(
            data, make_spec(tiny_bert), similarity=LEARNABLE, steps=20, warmup_steps=3, schedule="constant"
        )


def longer(trial, steps=40, **settings):
    return replace(trial, training=replace(trial.training, steps=steps, **settings))


def validated(trial, **settings):
    data = data_spec_of_tests(trial)
    return replace(trial, validation=ValidationSpec(data=data, every_steps=5, **settings))


def data_spec_of_tests(trial):
    return data_spec(Path(trial.training_data.entry.source.removeprefix("path:")), "test")


def steps_of(spec, folder, **more):
    seen = []
    result, digest = train_here(spec, folder, report=lambda report: seen.append(report.numbers.step), **more)
    return seen, result, digest


@pytest.fixture(scope="module")
def direct(trial, tmp_path_factory):
    """Forty steps at once."""
    return train_here(longer(trial), tmp_path_factory.mktemp("direct"))


def test_twenty_steps_and_then_forty_are_forty_at_once(trial, direct, tmp_path):
    train_here(trial, tmp_path)
    seen, result, digest = steps_of(longer(trial), tmp_path)
    assert seen == list(range(21, 41))
    assert digest == direct[1]
    assert digest != hash_of(trial, tmp_path)
    assert reproducible(result.history) == reproducible(direct[0].history)


def test_a_longer_one_goes_on_from_the_longest_and_a_shorter_one_from_none_beyond_it(trial, direct, tmp_path):
    train_here(trial, tmp_path)
    train_here(longer(trial, 30), tmp_path)
    assert steps_of(longer(trial), tmp_path)[0] == list(range(31, 41))
    assert steps_of(longer(trial, 25), tmp_path)[0] == list(range(21, 26))
    assert steps_of(longer(trial, 10), tmp_path)[0] == list(range(1, 11))
    assert hash_of(longer(trial), tmp_path) == direct[1]


@pytest.mark.parametrize(
    "change",
    [{"learning_rate": 2e-3}, {"warmup_steps": 4}, {"schedule": "linear"}, {"weight_decay": 0.1}],
    ids=lambda change: next(iter(change)),
)
def test_another_setting_starts_anew(trial, tmp_path, change):
    train_here(trial, tmp_path)
    assert steps_of(longer(trial, 22, **change), tmp_path)[0][0] == 1
    assert prefix_id(longer(trial, **change)) != prefix_id(trial)


def test_only_a_constant_schedule_leaves_an_end(trial, tmp_path):
    train_here(longer(trial, 3, schedule="cosine", warmup_steps=0), tmp_path)
    assert open_store(str(tmp_path)).list("continuations") == []
    assert prefix_id(longer(trial, schedule="cosine")) is None


def test_seeds_and_similarities_have_ends_of_their_own(trial):
    others = [replace(trial, seed=8), replace(trial, similarity=replace(LEARNABLE, name="half", trained=False))]
    assert len({prefix_id(spec) for spec in (trial, *others)}) == 3
    assert prefix_id(longer(trial)) == prefix_id(trial)
    assert trial_id(longer(trial)) != trial_id(trial)


@pytest.mark.slow
def test_the_best_checkpoint_may_be_one_of_the_shorter_training(trial, tmp_path):
    short = validated(longer(trial, 20, **STILL))
    train_here(short, tmp_path / "both")
    remove_training_checkpoints(open_store(str(tmp_path / "both")), trial_id(short))  # as a finished trial does
    seen, result, digest = steps_of(longer(short), tmp_path / "both")
    at_once, direct_digest = train_here(longer(short), tmp_path / "direct")
    assert seen == list(range(21, 41))
    assert result.best_step == at_once.best_step
    assert result.best_step <= 20, "else this shows nothing"
    assert digest == direct_digest
    last = last_checkpoint_prefix(trial_id(longer(short)))
    hashes = [checkpoint_hash(tmp_path / place / last) for place in ("both", "direct")]
    assert hashes[0] == hashes[1] != digest


@pytest.mark.slow
def test_a_chain_keeps_the_best_of_its_first_part(trial, tmp_path):
    short = validated(longer(trial, 10, learning_rate=0.3, warmup_steps=0))
    for steps in (10, 20, 30):
        spec = longer(short, steps)
        _, result, digest = steps_of(spec, tmp_path / "chain")
        remove_training_checkpoints(open_store(str(tmp_path / "chain")), trial_id(spec))
    at_once, direct_digest = train_here(longer(short, 30), tmp_path / "direct")
    assert (result.best_step, digest) == (at_once.best_step, direct_digest)


def test_patience_that_ran_out_stays_run_out(trial, tmp_path):
    short = validated(longer(trial, 20, **STILL), patience=1)
    first, _ = train_here(short, tmp_path / "both")
    assert len(first.history) < 20, "else this shows nothing"
    seen, result, digest = steps_of(longer(short), tmp_path / "both")
    at_once, direct_digest = train_here(longer(short), tmp_path / "direct")
    assert seen == []
    assert (len(result.history), digest) == (len(at_once.history), direct_digest)


@pytest.mark.slow
def test_a_continuation_killed_on_the_way_goes_on(trial, direct, tmp_path):
    folder = tmp_path / "sweep"
    train_here(trial, folder)
    assert train_in_process(longer(trial), folder, killed="step 26") == -signal.SIGKILL
    seen, result, digest = steps_of(longer(trial), folder, policy=CheckpointPolicy(every_steps=3))
    assert seen == list(range(25, 41))  # a checkpoint was written after step 24
    assert digest == direct[1]
    assert reproducible(result.history) == reproducible(direct[0].history)


@pytest.mark.slow
def test_a_training_killed_after_its_last_step_does_none_again(trial, tmp_path):
    folder = tmp_path / "sweep"
    assert train_in_process(trial, folder, killed="writing checkpoint") == -signal.SIGKILL
    seen, result, digest = steps_of(trial, folder)
    at_once, direct_digest = train_here(trial, tmp_path / "direct")
    assert seen == []
    assert digest == direct_digest
    assert reproducible(result.history) == reproducible(at_once.history)
