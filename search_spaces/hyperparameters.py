"""The hyperparameters that a sweep file may set, cross or tune; types and ranges stand in TrainingSettings."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
)
from pydantic_core import CoreSchema

from search_spaces.blocks import Block, different, is_zipped, values_of
from search_spaces.problems import fault_of, unknown_name
from search_spaces.specs import TrainingSettings

HINTS: Mapping[str, Any] = get_type_hints(TrainingSettings, include_extras=True)
_PARTIAL: dict[str, Any] = {field.name: (HINTS[field.name] | None, None) for field in fields(TrainingSettings)}
# What is logged of a training is none of its hyperparameters, though it stands beside them in the file.
_LOGGED: dict[str, Any] = {"log_kappa_every": (Annotated[int, Field(gt=0)] | None, None)}
TrainingBlock: type[Block] = create_model("TrainingBlock", __base__=Block, **_PARTIAL, **_LOGGED)


def checked_value(name: str, value: Any) -> Any:
    """The value of a hyperparameter as it is kept: 1 for a float is 1.0, and has one identity.

    Raises:
        ValueError: there is no such hyperparameter, or it cannot have this value.
    """
    if name not in HINTS:
        raise ValueError(unknown_name("hyperparameter", name, list(HINTS)))
    try:
        return TypeAdapter(HINTS[name]).validate_python(value, strict=True)
    except ValidationError as error:
        raise ValueError(f"{name}: {fault_of(error.errors()[0])}") from error


def _checked(axes: dict[str, tuple[Any, ...]], info: ValidationInfo) -> dict[str, tuple[Any, ...]]:
    faults: list[str] = []
    checked: dict[str, tuple[Any, ...]] = {}
    for name, values in axes.items():
        for value in values:
            try:
                checked[name] = (*checked.get(name, ()), checked_value(name, value))
            except ValueError as error:
                faults.append(str(error))
        try:
            if not is_zipped(name, info):
                different(checked.get(name, ()))
        except ValueError as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise ValueError("; ".join(dict.fromkeys(faults)))
    return checked


class _ByName:
    """Says to editors which hyperparameters there are, each one value or a list."""

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON Schema of an object with these keys alone."""
        one = {name: TypeAdapter(hint).json_schema() for name, hint in HINTS.items()}
        either = {name: {"anyOf": [form, {"type": "array", "items": form}]} for name, form in one.items()}
        return {"type": "object", "properties": either, "additionalProperties": False}


HyperparameterAxes: Any = Annotated[dict[str, values_of(Any)], AfterValidator(_checked), _ByName()]  # type: ignore[misc]
