"""One study with simulated devices: the same samples and choice for any number of them, in any order, after kills."""

import math
import random
from dataclasses import replace

import pytest

from orchestrator.tuning.drawing import NUM_AHEAD, NUM_RANDOM, draw, num_needed
from orchestrator.tuning.study import Study
from results.studies import Sample, best, budget, found, worth
from search_spaces.specs import ScaleSpec, SimilaritySpec, TrainingSettings, TrialSpec
from search_spaces.tuning import Asha, ChoiceSpace, FloatSpace, IntSpace, TunedCell, TuneSpec
from tests.results.builders import data_spec, encoder_spec

STEPS, EVERY = 12, 3
TRAINED = TrialSpec(
    kind="train",
    task="contrastive",
    training_data=data_spec(),
    encoder=encoder_spec(),
    similarity=SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
    scale=ScaleSpec(mode="fixed", value=20.0),
    seed=9,
    training=TrainingSettings(steps=STEPS, global_batch=32, learning_rate=1e-5),
)
SPACES = (("learning_rate", FloatSpace(low=1e-5, high=1e-3, log=True)), ("warmup_steps", IntSpace(low=0, high=4)))
ASHA = Asha(grace_steps=EVERY, reduction_factor=2)


def cell(sampler="tpe", num_samples=16, asha=ASHA, spaces=SPACES):
    tune = TuneSpec(
        spaces=spaces, num_samples=num_samples, seed=9, sampler=sampler, metric="best_validation", asha=asha
    )
    reporting = tuple(replace(TRAINED, seed=seed) for seed in (0, 1))
    return TunedCell(title="minilm-3l/finetune/cosine", tuning=TRAINED, reporting=reporting, tune=tune)


def curve(values):
    """The validation scores of a whole training: best at a learning rate of 1e-4."""
    height = 1 - 0.2 * abs(math.log10(values.get("learning_rate", 1e-4)) + 4) - 0.01 * values.get("warmup_steps", 0)
    return [
        {"step": step, "validation_score": height * step / STEPS if step % EVERY == 0 else None}
        for step in range(1, STEPS + 1)
    ]


def simulate(cell, *, devices=1, seed=0, kills=0, fails=()):
    """Train a study to its end: at each turn one of the running samples tells of a step, or the driver is killed."""
    rng = random.Random(seed)
    study, running, most = Study(cell, "id", None), {}, 0
    while not study.is_over:
        while len(running) < devices and study.can_draw():
            study.draw()
            running[study.samples[-1].trial_id] = 0
        most = max(most, len(running))
        if kills and rng.random() < 0.05:
            kills -= 1
            study = Study(cell, "id", study.record)
            running = dict.fromkeys(study.under_way, 0)
            continue
        key = rng.choice(sorted(running))
        number = study.number(key)
        step = running[key]
        if step == STEPS or (number in fails and step == 5):
            del running[key]
            study.hear_end(key, "failed" if number in fails else "finished")
            study.settle()
            continue
        study.hear_steps(key, [curve(study.values(number))[step]])
        running[key] += 1
        if study.pruned_at(key) is not None:
            del running[key]
            study.settle(stopped=key)
    return study, most


@pytest.mark.parametrize("sampler", ["tpe", "random"])
@pytest.mark.parametrize("asha", [ASHA, None])
def test_neither_devices_nor_order_nor_kills_change_a_study(sampler, asha):
    one, _ = simulate(cell(sampler, asha=asha))
    states = [sample.state for sample in one.record.samples]
    assert len(states) == 16
    assert set(states) == ({"finished", "pruned"} if asha else {"finished"})
    for devices, seed, kills in ((2, 1, 0), (3, 2, 2), (16, 3, 0), (16, 4, 4)):
        other, _ = simulate(cell(sampler, asha=asha), devices=devices, seed=seed, kills=kills)
        assert other.record == one.record
        assert other.found == one.found


def test_what_was_found_is_the_best_and_tpe_comes_nearer_than_its_random_samples():
    study, _ = simulate(cell(num_samples=40, asha=None))
    samples = study.record.samples
    worths = [worth("best_validation", sample.scores) for sample in samples]
    assert study.found == worths.index(max(worths))
    assert max(worths) > max(worths[:NUM_RANDOM])
    assert found(study.record, study.cell.tune) == study.found


def test_so_many_samples_are_under_way_as_what_they_are_drawn_from_allows():
    assert simulate(cell("tpe", asha=None), devices=16)[1] <= NUM_RANDOM + NUM_AHEAD
    assert simulate(cell("random", asha=None), devices=16)[1] == 16
    assert [num_needed(cell("tpe").tune, n) for n in (NUM_RANDOM - 1, NUM_RANDOM, 9)] == [0, NUM_RANDOM - 3, 6]


def test_a_sample_is_drawn_from_what_the_last_ones_before_it_do_not_say():
    study, _ = simulate(cell(asha=None))
    samples = list(study.record.samples[:12])
    assert draw(study.cell.tune, samples) == study.record.samples[12].values
    unknown = [replace(s, scores=((1, 9.0),)) if n >= 12 - NUM_AHEAD + 1 else s for n, s in enumerate(samples)]
    assert draw(study.cell.tune, unknown) == study.record.samples[12].values
    told = [replace(s, scores=((1, -s.scores[-1][1]),)) if n <= 12 - NUM_AHEAD else s for n, s in enumerate(samples)]
    assert draw(study.cell.tune, told) != study.record.samples[12].values


def test_a_larger_study_goes_on():
    small, _ = simulate(cell(num_samples=9))
    large, _ = simulate(cell(num_samples=16))
    assert large.record.samples[:9] == small.record.samples
    assert found(small.record, cell(num_samples=16).tune) is None
    assert found(large.record, cell(num_samples=9).tune) == small.found
    assert [s.state for s in Study(cell(num_samples=16), "id", small.record).samples] == [
        s.state for s in small.record.samples
    ]


def test_a_failed_sample_is_told_and_trained_again_by_the_next_run_of_a_study_that_is_not_over():
    study, _ = simulate(cell(asha=None), fails=(2,))
    assert study.record.samples[2].state == "failed"
    assert study.found is not None
    assert study.found != 2
    again = Study(study.cell, "id", study.record)
    assert again.under_way == (study.record.samples[2].trial_id,)


def test_a_study_without_a_good_sample_finds_nothing():
    study, _ = simulate(cell("random", num_samples=3, asha=None), fails=(0, 1, 2))
    assert study.found is None
    assert found(study.record, study.cell.tune) is None


def test_a_grid_is_every_combination_once():
    spaces = (("learning_rate", ChoiceSpace(choices=(1e-5, 1e-4))), ("warmup_steps", IntSpace(low=0, high=4, step=2)))
    study, _ = simulate(cell("grid", num_samples=6, spaces=spaces), devices=4)
    assert [dict(sample.values) for sample in study.record.samples] == [
        {"learning_rate": rate, "warmup_steps": steps} for rate in (1e-5, 1e-4) for steps in (0, 2, 4)
    ]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_no_combination_is_trained_twice_and_a_small_space_ends_a_study(sampler):
    spaces = (("weight_decay", FloatSpace(low=0.0, high=0.35, step=0.1)), ("precision", ChoiceSpace(choices=("fp32",))))
    study, _ = simulate(cell(sampler, num_samples=9, spaces=spaces), devices=3)
    assert budget(study.cell.tune) == 4
    assert sorted(sample.values["weight_decay"] for sample in study.record.samples) == list(spaces[0][1].values())


def test_random_samples_are_the_same_in_all_cells():
    other = replace(cell(), tuning=replace(TRAINED, similarity=replace(TRAINED.similarity, name="dot", gamma_q=0.0)))
    first, second = (simulate(one)[0].record.samples for one in (cell(), other))
    assert [s.values for s in first[:NUM_RANDOM]] == [s.values for s in second[:NUM_RANDOM]]
    assert not {s.trial_id for s in first} & {s.trial_id for s in second}


def test_the_first_of_equal_samples_is_taken_and_pruned_ones_never():
    scores = ((3, 0.5),)
    samples = [
        Sample(trial_id="a", values={}, state="pruned", scores=((3, 0.9),)),
        Sample(trial_id="b", values={}, state="finished", scores=scores),
        Sample(trial_id="c", values={}, state="finished", scores=scores),
    ]
    assert best(samples, "best_validation") == 1
