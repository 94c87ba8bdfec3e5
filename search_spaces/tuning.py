"""What tuning is made of: search spaces, how a study searches them, and the cells that one study is of. Frozen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from search_spaces.specs import TrainingSettings, TrialSpec

Value = float | int | str | bool | None
Sampler = Literal["tpe", "random", "grid"]
Metric = Literal["best_validation", "last_validation"]


@dataclass(frozen=True, kw_only=True)
class FloatSpace:
    """Numbers from `low` to `high`, both in it; uniform in their logarithm with `log`, and multiples of `step` with it.

    It is optuna's FloatDistribution(low, high, log=log, step=step); `step` counts from `low`.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def values(self) -> tuple[Value, ...] | None:
        """All values in ascending order; None where there is no end of them."""
        if self.step is None:
            return (self.low,) if self.low == self.high else None
        return tuple(self.low + place * self.step for place in range(_num_steps(self.low, self.high, self.step) + 1))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, float | int) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        found = self.values()
        return found is None or any(math.isclose(value, other, abs_tol=1e-12) for other in map(_number, found))


@dataclass(frozen=True, kw_only=True)
class IntSpace:
    """Whole numbers from `low` to `high`, both in it: optuna's IntDistribution(low, high, log=log, step=step)."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def values(self) -> tuple[Value, ...]:
        """All values in ascending order."""
        return tuple(range(self.low, self.high + 1, self.step))

    def __contains__(self, value: object) -> bool:
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and value in range(self.low, self.high + 1, self.step)
        )


@dataclass(frozen=True, kw_only=True)
class ChoiceSpace:
    """Values without an order: optuna's CategoricalDistribution(choices)."""

    choices: tuple[Value, ...]

    def values(self) -> tuple[Value, ...]:
        """All values, as the file lists them."""
        return self.choices

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in self.choices)


Space = FloatSpace | IntSpace | ChoiceSpace


@dataclass(frozen=True, kw_only=True)
class Asha:
    """Asynchronous successive halving (arXiv 1810.05934) inside one study, never across studies.

    A sample is first compared after `grace_steps` optimiser steps, then after `reduction_factor` times as many, and so
    on; of those that came so far, the best 1 / `reduction_factor` go on.
    """

    grace_steps: int
    reduction_factor: int

    def rungs(self, steps: int) -> tuple[int, ...]:
        """After how many optimiser steps samples of `steps` steps are compared; the last step is no rung."""
        found, rung = [], self.grace_steps
        while rung < steps:
            found.append(rung)
            rung *= self.reduction_factor
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class TuneSpec:
    """How each study searches. `metric` is what a sample is worth: its best validation score, or its last; higher wins.

    `seed` is the sampler's and that of every sample's training; it is none of the seeds that are reported.
    """

    spaces: tuple[tuple[str, Space], ...]
    num_samples: int
    seed: int
    sampler: Sampler
    metric: Metric
    asha: Asha | None

    def grid(self) -> tuple[Mapping[str, Value], ...]:
        """Every combination, for spaces that have an end. Raises ValueError where one has none."""
        names = [name for name, _ in self.spaces]
        found = {name: space.values() for name, space in self.spaces}
        if endless := [name for name, values in found.items() if values is None]:
            raise ValueError(f"{endless[0]} has no end of values")
        return tuple(dict(zip(names, values, strict=True)) for values in product(*(found[n] or () for n in names)))


@dataclass(frozen=True, kw_only=True)
class TunedCell:
    """One study: what its samples train, and which trials then run with the hyperparameters that it found.

    Attributes:
        title: a short name for people: 'minilm/finetune/cosine', or without the similarity where all use one study's.
        tuning: a sample's spec, under the tuning seed; tuned settings hold their space's first value until `sample`.
        reporting: the trials to run with what was found, in the same way: every seed of the file and, where the study
            is of one similarity, every similarity.
        tune: how it is searched.
    """

    title: str
    tuning: TrialSpec
    reporting: tuple[TrialSpec, ...]
    tune: TuneSpec

    def sample(self, values: Mapping[str, Value]) -> TrialSpec:
        """The training of one sample. Raises ValueError where `values` are not one of each space."""
        return self._with(self.tuning, values)

    def chosen(self, values: Mapping[str, Value]) -> tuple[TrialSpec, ...]:
        """The trials that the study's result is run as. Raises ValueError as `sample`."""
        return tuple(self._with(spec, values) for spec in self.reporting)

    def extremes(self) -> tuple[TrialSpec, ...]:
        """Samples with each number at its lowest and at its highest: what holds for both holds between them."""
        low = {name: ends(space)[0] for name, space in self.tune.spaces}
        high = {name: ends(space)[1] for name, space in self.tune.spaces}
        return self.sample(low), self.sample(high)

    def _with(self, spec: TrialSpec, values: Mapping[str, Value]) -> TrialSpec:
        assert spec.training is not None, "what is tuned is trained"
        spaces = dict(self.tune.spaces)
        if values.keys() != spaces.keys():
            raise ValueError(f"{sorted(values)} was given, and {sorted(spaces)} is tuned")
        for name, value in values.items():
            if value not in spaces[name]:
                raise ValueError(f"{name}: {value!r} is not in {spaces[name]}")
        return replace(spec, training=with_values(spec.training, values))


def with_values(settings: TrainingSettings, values: Mapping[str, Value]) -> TrainingSettings:
    """The settings with some values in place of theirs."""
    changed: dict[str, Any] = dict(values)
    return replace(settings, **changed)


def first_values(spaces: Sequence[tuple[str, Space]]) -> dict[str, Value]:
    """One value of each space, to stand in a spec until a sample's stands there."""
    return {name: ends(space)[0] for name, space in spaces}


def ends(space: Space) -> tuple[Value, Value]:
    """The lowest and the highest value; of choices that are no numbers, the first and the last."""
    if isinstance(space, ChoiceSpace):
        numbers = all(isinstance(choice, float | int) for choice in space.choices)
        ordered = sorted(space.choices, key=_number) if numbers else space.choices
        return ordered[0], ordered[-1]
    values = space.values() if space.step is not None else None
    return (values[0], values[-1]) if values else (space.low, space.high)


def _num_steps(low: float, high: float, step: float) -> int:
    return math.floor((high - low) / step + 1e-9)


def _number(value: Value) -> float:
    assert isinstance(value, float | int), "numbers are compared"
    return float(value)
