"""Which hyperparameters a study tries next: Optuna's samplers, made to depend on nothing but what has been told.

Sample number k is drawn by a sampler of its own seed, from what the samples before it scored: of the last few only that
they were drawn, whether they have ended or not. So it is the same on one device and on a hundred, and after a kill; and
all studies of a sweep begin with the same random samples, which makes them comparable.
"""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from results.studies import Sample, worth
from search_spaces.tuning import ChoiceSpace, IntSpace, Metric, Space, TuneSpec, Value

NUM_RANDOM = 5  # samples of `tpe` before the first that learns from others
NUM_AHEAD = 4  # samples of one study that `tpe` has under way at once: what one draws from lies so many behind it
_NUM_TRIES = 10  # of drawing what has not been drawn yet

STATES: Mapping[str, TrialState] = {
    "drawn": TrialState.RUNNING,
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}


def num_needed(tune: TuneSpec, number: int) -> int:
    """How many of the first samples must have ended before sample `number` can be drawn."""
    return max(0, number - NUM_AHEAD + 1) if tune.sampler == "tpe" and number >= NUM_RANDOM else 0


def draw(tune: TuneSpec, samples: Sequence[Sample]) -> dict[str, Value]:
    """The hyperparameters of the sample that follows `samples`, others than theirs where there are others."""
    number = len(samples)
    if tune.sampler == "grid":
        return dict(tune.grid()[number])
    num_told = num_needed(tune, number)
    told = [s if place < num_told else replace(s, state="drawn", scores=()) for place, s in enumerate(samples)]
    for attempt in range(_NUM_TRIES):
        values = _suggested(tune, told, _seed(tune.seed, number, attempt))
        if all(values != sample.values for sample in samples):
            return values
    return _first_new(tune, samples) or values


def distributions(tune: TuneSpec) -> dict[str, BaseDistribution]:
    """The search spaces as Optuna's."""
    return {name: _distribution(space) for name, space in tune.spaces}


def as_trial(sample: Sample, metric: Metric, spaces: Mapping[str, BaseDistribution]) -> FrozenTrial:
    """A sample as Optuna's trial."""
    value = worth(metric, sample.scores)
    state = STATES[sample.state]
    if state == TrialState.COMPLETE and value is None:
        state = TrialState.FAIL
    return create_trial(
        state=state,
        value=value if state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
        params={name: _within(value, spaces[name]) for name, value in sample.values.items()},
        distributions=dict(spaces),
        intermediate_values=dict(sample.scores),
        user_attrs={"trial_id": sample.trial_id},
    )


def _within(value: Value, space: BaseDistribution) -> Value:
    """A multiple of a step may be above Optuna's `high` in its last bit."""
    return min(value, space.high) if isinstance(space, FloatDistribution) and isinstance(value, float) else value


def _suggested(tune: TuneSpec, told: Sequence[Sample], seed: int) -> dict[str, Value]:
    spaces = distributions(tune)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=_sampler(tune, len(told), seed))
    study.add_trials([as_trial(sample, tune.metric, spaces) for sample in told])
    params = study.ask(spaces).params
    return {name: _kept(params[name], space) for name, space in tune.spaces}


def _sampler(tune: TuneSpec, number: int, seed: int) -> BaseSampler:
    if tune.sampler == "random" or number < NUM_RANDOM:
        return RandomSampler(seed=seed)
    return TPESampler(seed=seed, n_startup_trials=NUM_RANDOM)


def _distribution(space: Space) -> BaseDistribution:
    if isinstance(space, ChoiceSpace):
        return CategoricalDistribution(space.choices)
    if isinstance(space, IntSpace):
        return IntDistribution(space.low, space.high, log=space.log, step=space.step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that `high` is no multiple of `step` is what the file says
        return FloatDistribution(space.low, space.high, log=space.log, step=space.step)


def _kept(value: Value, space: Space) -> Value:
    """A multiple of a step as the space has it, to the last bit: it is part of an identity."""
    if isinstance(space, ChoiceSpace | IntSpace) or space.step is None:
        return value
    multiples = space.values()
    assert multiples is not None, "a space with steps has an end"
    return min(multiples, key=lambda multiple: abs(float(multiple or 0) - float(value or 0)))


def _first_new(tune: TuneSpec, samples: Sequence[Sample]) -> dict[str, Value] | None:
    """The first combination that was not drawn; None where there is no end of them."""
    drawn = [sample.values for sample in samples]
    all_values = [space.values() for _, space in tune.spaces]
    if any(values is None for values in all_values):
        return None
    names = [name for name, _ in tune.spaces]
    combinations = (dict(zip(names, one, strict=True)) for one in product(*(values or () for values in all_values)))
    return next((values for values in combinations if values not in drawn), None)


def _seed(seed: int, number: int, attempt: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}/{attempt}".encode()).digest()[:4])
