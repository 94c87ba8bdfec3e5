"""The `tune` block of a sweep file: which hyperparameters are searched, from what, and how."""

from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from search_spaces.axes import Seed
from search_spaces.blocks import Block, Or, different
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.hyperparameters import HINTS, checked_value
from search_spaces.problems import unknown_name
from search_spaces.tuning import Asha, ChoiceSpace, FloatSpace, IntSpace, Metric, Sampler, Space, TuneSpec, ends

Number = Annotated[float, Field(allow_inf_nan=False)]
_MOST = 2**53  # above it not every whole number is a float, which samplers reckon with
WholeNumber = Annotated[int, Field(ge=-_MOST, le=_MOST)]
_Whole = tuple[WholeNumber, WholeNumber] | None
_Stepped = tuple[WholeNumber, WholeNumber, WholeNumber] | None
_CELL = "cell"
_OF_SIMILARITY = "similarity="


class SpaceBlock(Block):
    """What one hyperparameter is searched in: exactly one of these keys.

    `uniform` and `loguniform` are [low, high], `quniform` is [low, high, step]; `int` and `logint` are whole numbers
    from low to high, `qint` is [low, high, step]; both ends are in it. `choice` lists values without an order.
    """

    uniform: tuple[Number, Number] | None = None
    loguniform: tuple[Number, Number] | None = None
    quniform: tuple[Number, Number, Number] | None = None
    int: _Whole = None
    logint: _Whole = None
    qint: _Stepped = None
    choice: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> "SpaceBlock":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            one_of = ", ".join(type(self).model_fields)
            raise ValueError(f"{' and '.join(given) or 'nothing'} is given, and exactly one of {one_of} is a space")
        kind, numbers = given[0], getattr(self, given[0])
        if kind == "choice":
            different(numbers)
        elif numbers[0] > numbers[1]:
            raise ValueError(f"{kind}: low ({numbers[0]:g}) is above high ({numbers[1]:g})")
        elif kind.startswith("log") and numbers[0] <= 0:
            raise ValueError(f"{kind}: low is {numbers[0]:g}, and only positive numbers have a logarithm")
        elif kind.startswith("q") and not 0 < numbers[2] <= numbers[1] - numbers[0]:
            raise ValueError(
                f"{kind}: step {numbers[2]:g} is not between 0 and high - low, {numbers[1] - numbers[0]:g}"
            )
        return self

    def space(self) -> Space:
        """The space as a value."""
        if self.choice is not None:
            return ChoiceSpace(choices=self.choice)
        if whole := self.int or self.logint or self.qint:
            step = whole[2] if len(whole) == 3 else 1
            return IntSpace(low=whole[0], high=whole[1], log=self.logint is not None, step=step)
        of_floats = self.uniform or self.loguniform or self.quniform
        assert of_floats is not None, "exactly one is given"
        step_size = of_floats[2] if len(of_floats) == 3 else None
        return FloatSpace(low=of_floats[0], high=of_floats[1], log=self.loguniform is not None, step=step_size)

    def largest(self) -> Any:
        """Its largest number; of choices that are no numbers, the last."""
        return ends(self.space())[1]


class AshaBlock(Block):
    """Stops samples early; see `search_spaces.tuning.Asha`. `grace_steps`: default, the first validation."""

    name: Literal["asha"] = "asha"
    grace_steps: int | None = Field(default=None, gt=0)
    reduction_factor: int = Field(default=3, ge=2)


def _as_scheduler(value: Any) -> Any:
    return {"name": value} if value == "asha" else None if value == "none" else value


Scheduler = Annotated[AshaBlock | None, BeforeValidator(_as_scheduler), Or({"enum": ["none", "asha"]})]


def _checked_per(text: str) -> str:
    if text == _CELL:
        return text
    if not text.startswith(_OF_SIMILARITY):
        raise ValueError(
            f"'{text}' is not what a study is of (write cell, or similarity=NAME, such as similarity=cosine)"
        )
    if (name := text.removeprefix(_OF_SIMILARITY)) not in SIMILARITIES:
        raise ValueError(unknown_name("similarity", name, list(SIMILARITIES)))
    return text


def _checked_space(name: str, block: SpaceBlock) -> SpaceBlock:
    """The space of values as the hyperparameter keeps them. Raises ValueError where it cannot have one of them."""
    if name == "steps":
        raise ValueError("steps: is the budget of every sample, and not searched (write it under training)")
    if name not in HINTS:
        raise ValueError(unknown_name("hyperparameter", name, list(HINTS)))
    space = block.space()
    if isinstance(space, ChoiceSpace):
        return block.model_copy(update={"choice": tuple(checked_value(name, value) for value in space.choices)})
    for end in (space.low, space.high):
        checked_value(name, end)
    if isinstance(checked_value(name, space.low), float) != isinstance(space, FloatSpace):
        kinds = "uniform, loguniform or quniform" if isinstance(space, IntSpace) else "int, logint or qint"
        raise ValueError(f"{name}: a space of the other kind of numbers (write {kinds})")
    return block


class TuneBlock(Block):
    """Search for hyperparameters in every cell, with an equal budget, then run all seeds with what was found.

    `seed` draws and trains the samples; it must be none of the seeds that are reported. `per`: a study for each cell,
    or (`similarity=cosine`) one under that similarity, whose result all similarities of the cell are run with.
    """

    spaces: Annotated[dict[str, SpaceBlock], Field(min_length=1)]
    seed: Seed
    num_samples: Annotated[int, Field(gt=0)] | None = None
    sampler: Annotated[Sampler, Field(validate_default=True)] = "tpe"
    metric: Metric = "best_validation"
    scheduler: Scheduler = None
    per: Annotated[str, AfterValidator(_checked_per)] = _CELL

    @field_validator("spaces")
    @classmethod
    def _are_of_hyperparameters(cls, value: dict[str, SpaceBlock]) -> dict[str, SpaceBlock]:
        faults, checked = [], {}
        for name, block in value.items():
            try:
                checked[name] = _checked_space(name, block)
            except ValueError as error:
                faults.append(str(error))
        if faults:
            raise ValueError("; ".join(faults))
        return checked

    @field_validator("sampler")
    @classmethod
    def _can_search(cls, value: Sampler, info: ValidationInfo) -> Sampler:
        spaces = info.data.get("spaces", {})
        endless = [name for name, block in spaces.items() if block.space().values() is None]
        if value == "grid" and endless:
            others = ", ".join(name for name in get_args(Sampler) if name != "grid")
            raise ValueError(
                f"'grid' needs an end of values, and {endless[0]} has none (write quniform or choice; or {others})"
            )
        given = info.data.get("num_samples")
        if value == "grid" and given is not None:
            raise ValueError(f"'grid' trains every combination: leave num_samples ({given}) out")
        if value != "grid" and given is None and "num_samples" in info.data:
            raise ValueError(f"'{value}' needs num_samples, how many samples each study trains")
        return value

    @property
    def of_similarity(self) -> str | None:
        """The one similarity that studies are made under; None where each cell has its own."""
        return None if self.per == _CELL else self.per.removeprefix(_OF_SIMILARITY)

    def spec(self, first_validation: int) -> TuneSpec:
        """The block as a frozen spec, with what it leaves out filled in.

        Args:
            first_validation: after how many steps a sample is first validated.
        """
        spaces = tuple((name, block.space()) for name, block in self.spaces.items())
        asha = self.scheduler and Asha(
            grace_steps=self.scheduler.grace_steps or first_validation,
            reduction_factor=self.scheduler.reduction_factor,
        )
        spec = TuneSpec(
            spaces=spaces, num_samples=0, seed=self.seed, sampler=self.sampler, metric=self.metric, asha=asha or None
        )
        return _with_samples(spec, self.num_samples)


def _with_samples(spec: TuneSpec, num_samples: int | None) -> TuneSpec:
    return replace(spec, num_samples=len(spec.grid()) if num_samples is None else num_samples)
