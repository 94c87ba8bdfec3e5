"""The axes of a sweep file: what is crossed, added, left away, and what varies together."""

from typing import Annotated, Any, Optional

from pydantic import AfterValidator, Field, WithJsonSchema, create_model

from search_spaces.blocks import (
    Block,
    ChosenFamily,
    DataSetRef,
    FamilyName,
    RegimeName,
    ScaleText,
    SimilarityName,
    axis,
)
from search_spaces.hyperparameters import HINTS, HyperparameterAxes
from search_spaces.problems import unknown_name
from search_spaces.specs import MAX_SEED, Task

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class Axes(Block):
    """The axes that are crossed. Each is one value or a list; `hyperparameters` adds any of the training settings."""

    task: axis(Task)  # type: ignore[valid-type]
    training_data: axis(DataSetRef)  # type: ignore[valid-type]
    family: axis(ChosenFamily)  # type: ignore[valid-type]
    similarity: axis(SimilarityName)  # type: ignore[valid-type]
    init_regime: axis(RegimeName)  # type: ignore[valid-type]
    seed: axis(Seed)  # type: ignore[valid-type]
    scale: axis(ScaleText)  # type: ignore[valid-type]
    hyperparameters: HyperparameterAxes = Field(default={})


AXES = tuple(name for name in Axes.model_fields if name != "hyperparameters")
_OPTIONAL_AXES: dict[str, Any] = {
    name: (Annotated[Optional[field.annotation], *field.metadata], None)  # noqa: UP045 - a type known at run time only
    for name, field in Axes.model_fields.items()
    if name != "hyperparameters"
}
IncludeBlock: type[Block] = create_model(
    "IncludeBlock", __base__=Block, **_OPTIONAL_AXES, hyperparameters=(HyperparameterAxes, {})
)


class ExcludeBlock(Block):
    """Cells to leave away: those that match every axis named here."""

    task: axis(Task) | None = None  # type: ignore[valid-type]
    training_data: axis(DataSetRef) | None = None  # type: ignore[valid-type]
    family: axis(FamilyName) | None = None  # type: ignore[valid-type]
    similarity: axis(SimilarityName) | None = None  # type: ignore[valid-type]
    init_regime: axis(RegimeName) | None = None  # type: ignore[valid-type]
    seed: axis(Seed) | None = None  # type: ignore[valid-type]
    scale: axis(ScaleText) | None = None  # type: ignore[valid-type]
    hyperparameters: HyperparameterAxes = Field(default={})


def _axis_or_hyperparameter(name: str) -> str:
    if name not in AXES and name not in HINTS:
        raise ValueError(unknown_name("axis or hyperparameter", name, [*AXES, *HINTS]))
    return name


def _several(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names) or len(names) < 2:
        raise ValueError(f"[{', '.join(names)}] names no two different axes or hyperparameters to vary together")
    return names


ZippedName = Annotated[
    str, AfterValidator(_axis_or_hyperparameter), WithJsonSchema({"enum": [*AXES, *HINTS]})
]  # fmt: skip
Zip = Annotated[tuple[ZippedName, ...], AfterValidator(_several)]
