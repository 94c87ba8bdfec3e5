"""Successive halving: Optuna's own pruner as the oracle, and the same verdicts in whatever order scores arrive."""

import random

import optuna
import pytest

from orchestrator.tuning.halving import Course, Verdict, verdicts
from search_spaces.tuning import Asha

STEPS, EVERY = 27, 1


def _scores(rng, count):
    """Scores of full trainings, some of them equal."""
    return [
        tuple((step, rng.choice([0.1, 0.2, 0.3, rng.random()])) for step in range(1, STEPS + 1)) for _ in range(count)
    ]


def _optunas(asha, samples):
    """The step after which Optuna's pruner ends each sample, one after the other; None where it lets it end."""
    pruner = optuna.pruners.SuccessiveHalvingPruner(
        min_resource=asha.grace_steps, reduction_factor=asha.reduction_factor, min_early_stopping_rate=0
    )
    study = optuna.create_study(direction="maximize", pruner=pruner)
    ended = []
    for scores in samples:
        trial, pruned_at = study.ask(), None
        for step, score in scores[:-1]:  # the last step is no rung: nothing would be saved
            trial.report(score, step)
            if trial.should_prune():
                pruned_at = step
                break
        ended.append(pruned_at)
        state = optuna.trial.TrialState.PRUNED if pruned_at else optuna.trial.TrialState.COMPLETE
        study.tell(trial, None if pruned_at else scores[-1][1], state=state)
    return ended


@pytest.mark.parametrize("reduction_factor", [2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_it_prunes_what_optunas_pruner_does(seed, reduction_factor):
    samples = _scores(random.Random(seed), 30)
    asha = Asha(grace_steps=1, reduction_factor=reduction_factor)
    courses = [Course(scores=scores, step=STEPS, is_over=True) for scores in samples]
    found = [verdict.pruned_at for verdict in verdicts(asha, "last_validation", STEPS, courses)]
    assert found == _optunas(asha, samples)
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_decided_early_is_never_taken_back(seed):
    rng = random.Random(seed)
    samples, asha = _scores(rng, 12), Asha(grace_steps=2, reduction_factor=3)
    failing = {3: 5, 7: 1}  # sample -> its last step
    last = [failing.get(number, STEPS) for number in range(len(samples))]
    whole = [Course(scores=s[:end], step=end, is_over=True) for s, end in zip(samples, last, strict=True)]
    final = verdicts(asha, "best_validation", STEPS, whole)
    assert not any(verdict.is_open for verdict in final)
    steps = [0] * len(samples)
    while any(step < end for step, end in zip(steps, last, strict=True)):
        number = rng.choice([n for n, step in enumerate(steps) if step < last[n]])
        steps[number] += 1
        courses = [
            Course(scores=scores[:step], step=step, is_over=step == end)
            for scores, step, end in zip(samples, steps, last, strict=True)
        ]
        for known, then in zip(verdicts(asha, "best_validation", STEPS, courses), final, strict=True):
            assert known.pruned_at in (None, then.pruned_at)
            assert known.is_open or known == then


def test_the_best_score_so_far_counts_or_the_last():
    courses = [
        Course(scores=((1, 0.5), (2, 0.1)), step=2),
        Course(scores=((1, 0.2), (2, 0.3)), step=2),
    ]
    asha = Asha(grace_steps=2, reduction_factor=2)
    assert [v.pruned_at for v in verdicts(asha, "best_validation", 8, courses)] == [None, 2]
    assert [v.pruned_at for v in verdicts(asha, "last_validation", 8, courses)] == [None, None]


def test_without_a_scheduler_nothing_is_pruned_and_a_running_sample_is_open():
    courses = [Course(scores=((1, 0.5),), step=8, is_over=True), Course(scores=((1, 0.1),), step=1)]
    assert verdicts(None, "best_validation", 8, courses) == (Verdict(), Verdict(is_open=True))
