"""What blocks of a sweep file are made of: strictness, names of the catalogue, axes, scales and sizes."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from search_spaces.catalogue.data_sets import DATA_SETS, PARTS, default_groups
from search_spaces.catalogue.families import FAMILIES
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.problems import unknown_name
from search_spaces.sizes import SIZE_PATTERN, parse_size
from search_spaces.specs import ScaleSpec, Towers

_SCALE = re.compile(r"(?P<mode>fixed|matched)\((?P<value>[0-9]+(\.[0-9]+)?)\)")
_MATCHED = "matched(20)"  # the study's scale, where norms are divided out
Item = TypeVar("Item")


class Block(BaseModel):
    """A block of the sweep file: an unknown key is an error, and so is a value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Or:
    """Says to editors that a value may also have another form, which a validator before turns into the first."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON Schema of either form."""
        return {"anyOf": [*self._forms, handler(core_schema)]}


class _OneOrMore:
    """Says to editors that one value stands for a list of it."""

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON Schema of a value, or a list."""
        listed = handler(core_schema)
        return {"anyOf": [listed.get("items", {}), {**listed, "minItems": 1}]}


def parse_scale(text: str) -> ScaleSpec:
    """Read 'fixed(20)', 'matched(20)' or 'matched', which is the same: see `ScaleSpec`."""
    match = _SCALE.fullmatch(_MATCHED if text == "matched" else text)
    if match is None or not 0 < float(match["value"]) < math.inf:
        hint = "write fixed(20), for logits of 20 times the score, or matched, for logits that start alike"
        raise ValueError(f"'{text}' is not a scale ({hint})")
    return ScaleSpec(mode="fixed" if match["mode"] == "fixed" else "matched", value=float(match["value"]))


def _known(kind: str, names: tuple[str, ...]) -> AfterValidator:
    def check(value: str, info: ValidationInfo) -> str:
        declared = tuple((info.context or {}).get(kind, ()))
        name = value.partition("/")[0] if kind == "data set" else value
        if name not in names and name not in declared:
            if kind == "data set" and name in default_groups():
                raise ValueError(
                    f"'{name}' is a default group, not a data set (evaluation.groups takes it: {name}: all)"
                )
            raise ValueError(unknown_name(kind, name, [*names, *declared]))
        return value

    return AfterValidator(check)


def _catalogue_name(name: str) -> str:
    if name not in DATA_SETS:
        whole = f" (name its parts: {', '.join(PARTS[name])})" if name in PARTS else ""
        raise ValueError(unknown_name("data set of the catalogue", name, list(DATA_SETS)) + whole)
    return name


def _scale(text: str) -> str:
    parse_scale(text)
    return text


def _closed(names: Iterable[str]) -> WithJsonSchema:
    return WithJsonSchema({"enum": list(names)})


def _open(names: Iterable[str]) -> WithJsonSchema:
    """Names that an editor offers, where the file may declare others."""
    return WithJsonSchema({"anyOf": [{"enum": list(names)}, {"type": "string"}]})


SimilarityName = Annotated[str, _known("similarity", tuple(SIMILARITIES)), _closed(SIMILARITIES)]
RegimeName = Annotated[str, _known("init regime", tuple(INIT_REGIMES)), _closed(INIT_REGIMES)]
FamilyName = Annotated[str, _known("family", tuple(FAMILIES)), _open(FAMILIES)]
DataSetRef = Annotated[str, _known("data set", tuple(DATA_SETS)), _open(DATA_SETS)]  # NAME or NAME/SPLIT
DataSetName = Annotated[str, AfterValidator(_catalogue_name)]
# Group names stand in paths, MLflow metrics and papers.
GroupName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
ScaleText = Annotated[
    str,
    AfterValidator(_scale),
    WithJsonSchema({"type": "string", "pattern": r"^(matched|(fixed|matched)\([0-9]+(\.[0-9]+)?\))$"}),
]


class FamilyChoice(Block):
    """A family with what this sweep changes of it: the first N layers only, two towers, or shorter texts (tokens)."""

    name: FamilyName
    layers: int | None = Field(default=None, gt=0)
    towers: Towers = "shared"
    max_query_length: int | None = Field(default=None, gt=0)
    max_document_length: int | None = Field(default=None, gt=0)


def _as_choice(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


ChosenFamily = Annotated[
    FamilyChoice, BeforeValidator(_as_choice), Or({"anyOf": [{"enum": list(FAMILIES)}, {"type": "string"}]})
]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _no_duplicates(values: tuple[Item, ...]) -> tuple[Item, ...]:
    seen: list[Item] = []
    for value in values:
        if value in seen:
            raise ValueError(f"{value!r} stands twice")
        seen.append(value)
    return values


def _some(values: tuple[Item, ...]) -> tuple[Item, ...]:
    if not values:
        raise ValueError("an axis without values")
    return values


def _different_unless_zipped(values: tuple[Item, ...], info: ValidationInfo) -> tuple[Item, ...]:
    return values if is_zipped(info.field_name or "", info) else _no_duplicates(values)


def is_zipped(name: str, info: ValidationInfo) -> bool:
    """Whether an axis or hyperparameter varies with others in the file, so that its values may repeat."""
    return name in (info.context or {}).get("zipped", ())


def values_of(item: Any) -> Any:
    """The type of a value or a list of values."""
    return Annotated[tuple[item, ...], BeforeValidator(_as_tuple), AfterValidator(_some), _OneOrMore()]


def axis(item: Any) -> Any:
    """The type of a value or a list of values, different ones unless they vary together with others (`zip`)."""
    return Annotated[values_of(item), AfterValidator(_different_unless_zipped)]


Bytes = Annotated[int, BeforeValidator(parse_size), WithJsonSchema({"type": "string", "pattern": f"^{SIZE_PATTERN}$"})]


def different(values: Sequence[Item]) -> Sequence[Item]:
    """The values, none of which stands twice. Raises ValueError."""
    return _no_duplicates(tuple(values))
