import signal
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

from results.layout import checkpoint_prefix, step_prefix
from results.store import open_store
from search_spaces.identity import trial_id
from search_spaces.specs import ScaleSpec, SimilaritySpec
from trainers.init_regimes import start_encoder
from trainers.similarity import Gammas
from trainers.threads import set_threads
from trainers.training.history import StepNumbers
from trainers.training.optimizer import make_optimizer
from trainers.training.resume import CheckpointPolicy, Progress, load_training, save_training, steps_with_checkpoints
from trainers.training.retriever import Retriever

SCALE = ScaleSpec(mode="matched", value=20.0, divisor=3.7)
LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)


@pytest.fixture(scope="module")
def trial(tmp_path_factory, tiny_bert, make_spec):
    """Ten steps with dropout and trained gammas."""
    folder = tmp_path_factory.mktemp("resume_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        set_threads(1)
        data = data_spec(write_collection(folder / "collection"), "train")
        yield trial_spec(data, make_spec(tiny_bert), similarity=LEARNABLE, steps=10)


@pytest.fixture(scope="module")
def undisturbed(trial, tmp_path_factory):
    return train_here(trial, tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize(
    ("killed", "resumed_steps"),
    [
        ("step 8", [7, 8, 9, 10]),  # two steps after a checkpoint
        # Before the first; inside one, so that the one before stands; inside the final one.
        pytest.param("step 2", list(range(1, 11)), marks=pytest.mark.slow),
        pytest.param("writing steps/00000006", [4, 5, 6, 7, 8, 9, 10], marks=pytest.mark.slow),
        pytest.param("writing checkpoint", [10], marks=pytest.mark.slow),
    ],
)
def test_a_killed_training_goes_on_to_the_last_bit(trial, undisturbed, killed, resumed_steps, tmp_path):
    folder = tmp_path / "sweep"
    assert train_in_process(trial, folder, killed=killed) == -signal.SIGKILL
    seen = []
    policy = CheckpointPolicy(every_steps=3)
    result, digest = train_here(trial, folder, report=lambda r: seen.append(r.numbers.step), policy=policy)
    assert seen == resumed_steps
    assert digest == undisturbed[1]
    assert reproducible(result.history) == reproducible(undisturbed[0].history)
    assert steps_with_checkpoints(open_store(str(folder)), trial_id(trial)) == [9]


def test_the_time_of_earlier_attempts_counts(trial, tmp_path):
    first, _ = train_here(trial, tmp_path / "a", policy=CheckpointPolicy(every_steps=9))
    again, _ = train_here(trial, tmp_path / "a")  # goes on from step 9
    assert again.wall_s > sum(8 / step.pairs_per_s for step in first.history[:9])
    assert [step.pairs_per_s for step in again.history[:9]] == [step.pairs_per_s for step in first.history[:9]]
    assert again.history[9] != first.history[9]  # done again, in its own time


def test_checkpoints_by_time(trial, tmp_path):
    train_here(trial, tmp_path, policy=CheckpointPolicy(every_s=0.0))
    assert steps_with_checkpoints(open_store(str(tmp_path)), trial_id(trial)) == [9]


def test_a_checkpoint_left_by_a_dead_attempt_is_replaced(trial, undisturbed, tmp_path):
    other = trial_checkpoint_of_another_seed(trial, tmp_path)
    assert other != undisturbed[1]
    _, digest = train_here(trial, tmp_path)
    assert digest == undisturbed[1] == hash_of(trial, tmp_path)


def trial_checkpoint_of_another_seed(trial, folder):
    """Put another training's final checkpoint where this trial's belongs."""
    other = replace(trial, seed=99)
    _, digest = train_here(other, folder)
    source, target = (folder / checkpoint_prefix(trial_id(t)) for t in (other, trial))
    target.parent.mkdir(parents=True)
    source.rename(target)
    return digest


def a_training(trial):
    retriever = Retriever(start_encoder(trial.encoder, trial.seed), Gammas.from_spec(trial.similarity))
    return retriever, make_optimizer(retriever, trial.training)


def numbers_of(step):
    names = [name for name in StepNumbers.__dataclass_fields__ if name not in ("step", "peak_memory_bytes")]
    values = {name: 1 / (step + place) for place, name in enumerate(names, start=1)}
    return StepNumbers(step=step, peak_memory_bytes=77, **values)


def test_all_states_come_back_from_files_without_pickle(trial, tmp_path):
    retriever, optimizer = a_training(trial)
    sum(weight.sum() for weight in retriever.parameters() if weight.requires_grad).backward()
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.step()
    progress = Progress(scale=SCALE, history=[numbers_of(1), numbers_of(2)], wall_s=12.5)
    save_training(tmp_path, "abc", retriever, optimizer, progress)

    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".json", ".parquet"}
    again, again_optimizer = a_training(trial)
    assert load_training(tmp_path, again, again_optimizer) == progress
    for (name, old), (_, new) in zip(retriever.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(old, new), name
        before, after = optimizer.state.get(old, {}), again_optimizer.state.get(new, {})
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before)
    assert len(again_optimizer.state) == sum(weight.requires_grad for weight in again.parameters())


def test_another_versions_checkpoint_is_refused(trial, tmp_path):
    retriever, optimizer = a_training(trial)
    save_training(tmp_path, "abc", retriever, optimizer, Progress(scale=SCALE, history=[numbers_of(1)]))
    state = tmp_path / "training_state.json"
    state.write_text(state.read_text().replace('"format_version":1', '"format_version":9'))
    with pytest.raises(ValueError, match="format version 9, where 1 is read"):
        load_training(tmp_path, retriever, optimizer)


def test_only_the_newest_is_kept(trial, tmp_path):
    kept = []

    def look(report):
        kept.append(steps_with_checkpoints(open_store(str(tmp_path)), trial_id(trial)))

    train_here(trial, tmp_path, report=look, policy=CheckpointPolicy(every_steps=2))
    assert kept == [[], [], [2], [2], [4], [4], [6], [6], [8], [8]]
    assert (tmp_path / step_prefix(trial_id(trial), 8)).is_dir()
