"""What an API server with KubeRay's definitions would say of an object, without one: defaults, schema, CEL rules.

`schema_faults` is what a server of any version refuses (its verdicts are compared with a real one's); `cel_faults` what
those from 1.25 on refuse too; `unknown_fields` what `kubectl apply` warns of and drops.
"""

import copy
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import celpy
import jsonschema
import pytest
import yaml
from celpy.adapter import json_to_cel

FOLDER = Path(__file__).parents[3] / "shared" / "kuberay"
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9][-a-z0-9.]{0,251}[a-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@cache
def definition(kind):
    """The schema of version v1 of RayJob or RayCluster."""
    path = FOLDER / f"ray.io_{kind.lower()}s.yaml"
    if not path.is_file():
        pytest.skip(f"needs ../shared/kuberay/{path.name} beside the repository")
    versions = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]["versions"]
    return next(v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == "v1")


@cache
def _validator(kind):
    return jsonschema.Draft7Validator(_as_json_schema(definition(kind)))


def _as_json_schema(node):
    """Kubernetes' structural schemas in JSON Schema's words: either of both for int-or-string."""
    if isinstance(node, list):
        return [_as_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _as_json_schema(value) for key, value in node.items() if not key.startswith("x-kubernetes")}
    if node.get("nullable") is True and isinstance(node.get("type"), str):
        made["type"] = [node["type"], "null"]
    return made


def defaulted(manifest):
    """The object as a server keeps it: nulls are dropped where there may be none, defaults filled in."""
    made = copy.deepcopy(manifest)
    _fill(definition(manifest["kind"]), made)
    return made


def _fill(schema, value):
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, below in properties.items():
            if value.get(name, 0) is None and not below.get("nullable"):
                del value[name]
            if "default" in below:
                value.setdefault(name, copy.deepcopy(below["default"]))
        free = schema.get("additionalProperties")
        for name, item in value.items():
            below = properties.get(name, free if isinstance(free, dict) else {})
            _fill(below, item)
    elif isinstance(value, list):
        for item in value:
            _fill(schema.get("items", {}), item)


def schema_faults(manifest):
    """What a server refuses by metadata, schema and keys of lists, as lines; none where it accepts."""
    made = defaulted(manifest)
    errors = _validator(manifest["kind"]).iter_errors(made)
    lines = [f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}" for error in errors]
    return [*_metadata_faults(made.get("metadata", {})), *lines, *_key_faults(definition(manifest["kind"]), made, "")]


def _metadata_faults(metadata):
    if not _SUBDOMAIN.fullmatch(str(metadata.get("name", ""))):
        yield f"metadata.name: {metadata.get('name')!r}"
    for key, value in (metadata.get("labels") or {}).items():
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value) or not _LABEL_KEY.fullmatch(key):
            yield f"metadata.labels: {key}={value!r}"


def _key_faults(schema, value, path) -> Iterator[str]:
    if isinstance(value, dict):
        free = schema.get("additionalProperties")
        for name, item in value.items():
            below = schema.get("properties", {}).get(name, free if isinstance(free, dict) else {})
            yield from _key_faults(below, item, f"{path}.{name}")
    elif isinstance(value, list):
        if keys := schema.get("x-kubernetes-list-map-keys"):
            counted = Counter(tuple(str(item.get(key)) for key in keys) for item in value if isinstance(item, dict))
            for found, number in counted.items():
                if number > 1:
                    yield f"{path}: {found} stands {number} times"
        for index, item in enumerate(value):
            yield from _key_faults(schema.get("items", {}), item, f"{path}[{index}]")


def cel_faults(manifest, before=None):
    """The messages of the CEL rules that it breaks: on creation, or as a change of what was there before."""
    old = None if before is None else defaulted(before)
    return list(_broken(definition(manifest["kind"]), defaulted(manifest), old))


def _broken(schema, value, old):
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"] and old is None:
            continue
        if not _holds(rule["rule"], value, old):
            yield rule["message"]
    if isinstance(value, dict):
        free = schema.get("additionalProperties")
        for name, item in value.items():
            below = schema.get("properties", {}).get(name, free if isinstance(free, dict) else {})
            yield from _broken(below, item, old.get(name) if isinstance(old, dict) else None)
    elif isinstance(value, list):
        for item in value:  # items of lists without keys have no former selves
            yield from _broken(schema.get("items", {}), item, None)


@cache
def _program(rule):
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))


def _holds(rule, value, old):
    given = {"self": json_to_cel(value)} | ({} if old is None else {"oldSelf": json_to_cel(old)})
    return bool(_program(rule).evaluate(given))


def num_rules(kind):
    """How many CEL rules the definition has."""

    def count(node):
        below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return len(node.get("x-kubernetes-validations", ()) if isinstance(node, dict) else ()) + sum(map(count, below))

    return count(definition(kind))


def unknown_fields(manifest):
    """Fields that the definition does not have, and a server drops."""
    return list(_unknown(definition(manifest["kind"]), manifest, ""))


def _unknown(schema, value, path):
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(schema.get("items", {}), item, f"{path}[{index}]")
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields") or path == ".metadata":
        return
    free = schema.get("additionalProperties")
    for name, item in value.items():
        if name in schema.get("properties", {}):
            yield from _unknown(schema["properties"][name], item, f"{path}.{name}")
        elif isinstance(free, dict):
            yield from _unknown(free, item, f"{path}.{name}")
        else:
            yield f"{path}.{name}"
