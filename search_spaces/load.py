"""Read a sweep file: YAML, then the schema; every problem of the file is reported together."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from search_spaces.catalogue.data_sets import DATA_SETS, PARTS
from search_spaces.catalogue.families import FAMILIES
from search_spaces.cluster_block import ClusterBlock
from search_spaces.problems import InputError, Problem, fault_of, unknown_name
from search_spaces.schema import SweepFile

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's numbers (`1e-4` is one), and an error where a key stands twice."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def _mapping_without_duplicates(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise yaml.YAMLError(f"line {line}: key {key!r} is not a text")
        if key in seen:
            raise yaml.YAMLError(f"line {line}: key '{key}' stands twice (first on line {seen[key]})")
        seen[key] = line
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping_without_duplicates)


def load_sweep(path: Path) -> SweepFile:
    """Read and check a sweep file. Relative `path:` and `trial:` sources are taken from the file's folder.

    Raises:
        InputError: with every problem found in the file, each naming the file and the key.
    """
    return parse_sweep(read_text(path), where=str(path), folder=path.parent)


def parse_sweep(text: str, *, where: str, folder: Path) -> SweepFile:
    """Check the text of a sweep file; `where` names it in problems, `folder` is what relative paths start from."""
    return checked_sweep(_parse_yaml(text, where), where=where, folder=folder)


def checked_sweep(raw: dict[str, Any], *, where: str, folder: Path) -> SweepFile:
    """Check what a sweep file holds; relative paths in it are made absolute, in place."""
    problems = [*_resolve_paths(raw, where, folder), *_shadowed_names(raw, where), *_wholes_of_their_own(raw, where)]
    try:
        sweep = SweepFile.model_validate_json(json.dumps(raw, default=str), strict=True, context=_declared_names(raw))
    except ValidationError as error:
        # A default that is made of other keys cannot be made when one of those is wrong, which is told itself.
        details = [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
        problems += [_as_problem(detail, where) for detail in details]
    if problems:
        raise InputError(problems)
    return sweep


def load_profile(path: Path) -> ClusterBlock:
    """Read and check a profile: the keys of a sweep file's block `cluster`, in a file of their own.

    Raises:
        InputError: with every problem found in the file.
    """
    raw = _parse_yaml(read_text(path), str(path), what="profile")
    try:
        return ClusterBlock.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        problems = [_as_problem(detail, str(path), ClusterBlock, "profile") for detail in error.errors()]
        raise InputError(problems) from error


def read_text(path: Path) -> str:
    """The text of a file that a user named. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a UTF-8 text file"
        raise InputError([Problem(where=str(path), key="", message=f"cannot be read ({reason})")]) from error


def _parse_yaml(text: str, where: str, *, what: str = "sweep file") -> dict[str, Any]:
    try:
        raw = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise InputError([Problem(where=where, key="", message=f"not valid YAML: {error}")]) from error
    if not isinstance(raw, dict):
        raise InputError([Problem(where=where, key="", message=f"not a {what}: a mapping of keys is expected")])
    return raw


def _declarations(raw: dict[str, Any], block: str) -> list[dict[str, Any]]:
    declared = raw.get(block)
    return [entry for entry in declared if isinstance(entry, dict)] if isinstance(declared, list) else []


def _readers(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """The declared reader, if there is one."""
    found: Any = raw
    for key in ("evaluation", "rag", "reader"):
        found = found.get(key) if isinstance(found, dict) else None
    return [found] if isinstance(found, dict) else []


def _declared_names(raw: dict[str, Any]) -> dict[str, Any]:
    """What the schema must know of the rest of the file: declared names, those of groups and wholes, what is zipped."""
    groups: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    for entry in _declarations(raw, "data_sets"):
        if isinstance(whole := entry.get("part_of"), str):
            parts.setdefault(whole, []).append(str(entry.get("name")))
        for group in entry["groups"] if isinstance(entry.get("groups"), list) else []:
            groups.setdefault(str(group), []).append(str(entry.get("name")))
    return {
        "family": [str(entry.get("name")) for entry in _declarations(raw, "families")],
        "data set": [str(entry.get("name")) for entry in _declarations(raw, "data_sets")],
        "groups": groups,
        "zipped": [name for group in _lists(raw.get("zip")) for name in group],
        "parts": parts,
    }


def _lists(value: Any) -> list[list[Any]]:
    """The lists that are in a list; what is of another form is left for the schema to refuse."""
    return [item if isinstance(item, list) else [] for item in value] if isinstance(value, list) else []


def _shadowed_names(raw: dict[str, Any], where: str) -> Iterator[Problem]:
    for block, catalogue in (("families", FAMILIES), ("data_sets", DATA_SETS)):
        seen = {*catalogue, *(PARTS if block == "data_sets" else ())}
        for index, entry in enumerate(_declarations(raw, block)):
            name = str(entry.get("name"))
            if not _NAME.fullmatch(name):
                message = f"'{name}' is not a name (lower-case letters, digits, '-' and '_', since it stands in paths)"
                yield Problem(where=where, key=f"{block}[{index}].name", message=message)
            if name in seen:
                message = f"'{name}' is taken already, by the catalogue or an entry above"
                yield Problem(where=where, key=f"{block}[{index}].name", message=message)
            seen.add(name)


def _wholes_of_their_own(raw: dict[str, Any], where: str) -> Iterator[Problem]:
    """A data set that others are parts of is the mean over them, and has no queries."""
    names = {*DATA_SETS, *(str(entry.get("name")) for entry in _declarations(raw, "data_sets"))}
    for index, entry in enumerate(_declarations(raw, "data_sets")):
        if isinstance(whole := entry.get("part_of"), str) and whole in names:
            message = f"'{whole}' is a data set itself; what is the mean over its parts needs a name of its own"
            yield Problem(where=where, key=f"data_sets[{index}].part_of", message=message)


def _resolve_paths(raw: dict[str, Any], where: str, folder: Path) -> Iterator[Problem]:
    """Make `path:` and `trial:` sources absolute, in place, and report files and folders that are not there.

    Files of references are made absolute too; what their names may be followed by stays as it is.
    """
    if isinstance(references := raw.get("references"), list):
        raw["references"] = [_from_folder(text, folder) for text in references]
    places = [(f"data_sets[{i}]", entry) for i, entry in enumerate(_declarations(raw, "data_sets"))]
    for i, entry in enumerate(_declarations(raw, "families")):
        places += [
            (f"families[{i}].{key}", entry[key]) for key in ("retriever", "base") if isinstance(entry.get(key), dict)
        ]
    places += [("evaluation.rag.reader", reader) for reader in _readers(raw)]
    fields = [(f"{key}.source", holder, "source") for key, holder in places]
    if isinstance(sources := raw.get("data_sources"), dict):
        fields += [(f"data_sources.{name}", sources, name) for name in sources]
    for key, holder, field in fields:
        source = holder.get(field)
        scheme, _, rest = source.partition(":") if isinstance(source, str) else ("", "", "")
        if scheme not in ("path", "trial") or not rest or (scheme == "trial" and "://" in rest):
            continue
        try:
            location = (folder / Path(rest).expanduser()).resolve()
            # A trial that is not there has more to say of its sweep.
            message = "" if scheme == "trial" or location.exists() else f"there is no file or folder {location}"
            holder[field] = f"{scheme}:{location}"
        except (OSError, ValueError, RuntimeError) as error:  # too long, with a NUL byte, ~ of nobody
            message = f"{rest[:80]!r} cannot be a path ({getattr(error, 'strerror', None) or error})"
        if message:
            hint = " (the path begins or ends with a space)" if rest != rest.strip() else ""
            yield Problem(where=where, key=key, message=message + hint)


def _from_folder(text: Any, folder: Path) -> Any:
    """Made absolute up to the first comma: a Path would take `//` out of an address that stands after it."""
    if not isinstance(text, str):
        return text  # which the schema refuses
    path, comma, rest = text.partition(",")
    try:
        return f"{folder.absolute() / Path(path).expanduser()}{comma}{rest}"
    except (OSError, ValueError, RuntimeError):  # ~ of nobody: reading it will say so
        return text


def _as_problem(
    detail: ErrorDetails, where: str, model: type[BaseModel] = SweepFile, what: str = "sweep file"
) -> Problem:
    key = ""
    for part in detail["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    return Problem(where=where, key=key, message=_message(detail, model, what))


def _message(detail: ErrorDetails, model: type[BaseModel], what: str) -> str:
    if detail["type"] == "extra_forbidden":
        parents = [str(part) for part in detail["loc"][:-1] if not isinstance(part, int)]
        return unknown_name(f"key of the {what}", str(detail["loc"][-1]), _keys_at(model, parents))
    if detail["type"] == "missing":
        return "is required, and has no default"
    return fault_of(detail)


def _keys_at(model: type[BaseModel], parents: list[str]) -> list[str]:
    """The keys allowed below a path of the file, read from the schema; names of a mapping are free."""
    schema = _schema(model)
    node = schema
    for parent in parents:
        node = _follow(schema, node.get("properties", {}).get(parent) or node.get("additionalProperties") or {})
    return list(node.get("properties", {}))


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _follow(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return schema["$defs"][node["$ref"].rpartition("/")[2]]
    for option in [node.get("items", {}), *node.get("anyOf", []), *node.get("allOf", [])]:
        found = _follow(schema, option) if option else {}
        if "properties" in found:
            return found
    return node
