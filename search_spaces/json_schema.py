"""The sweep file's schema as JSON Schema, for editors; and every key that it has, by the block it stands in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from search_spaces.schema import SweepFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
REQUIRED = object()  # in place of a default


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of a block; `default` is as JSON has it, or REQUIRED."""

    name: str
    default: Any


def json_schema() -> dict[str, Any]:
    """The whole schema. It knows forms, ranges and names; what keys mean together, `densesweep validate` checks."""
    schema = SweepFile.model_json_schema()
    return {"$schema": _DIALECT, "$comment": "densesweep schema > sweep.schema.json", **schema, "title": "Sweep file"}


def keys_by_block() -> Mapping[str, tuple[Key, ...]]:
    """By the place of each block in the file ('' for the file itself) its keys.

    A list is its items ('include'), a mapping with free names its values ('tune.spaces'), and a block that stands in
    several places is at each of them.
    """
    schema = SweepFile.model_json_schema()
    found: dict[str, tuple[Key, ...]] = {}
    for place, block in _blocks(schema, "", schema):
        required = block.get("required", ())
        found[place] = tuple(
            Key(name=name, default=REQUIRED if name in required else entry.get("default"))
            for name, entry in block["properties"].items()
        )
    return found


def _blocks(schema: Mapping[str, Any], place: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object with keys of its own below a node, with its place."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    if "properties" in node:
        yield place, node
        for name, entry in node["properties"].items():
            yield from _blocks(schema, f"{place}.{name}" if place else name, entry)
    below = [node.get("items"), node.get("additionalProperties"), *node.get("anyOf", ()), *node.get("prefixItems", ())]
    seen: set[str] = set()
    for option in below:
        for found, block in _blocks(schema, place, option) if isinstance(option, dict) else ():
            if found not in seen:
                seen.add(found)
                yield found, block
