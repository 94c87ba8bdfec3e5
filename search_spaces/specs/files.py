"""Specs as JSON, and read back, so that a trial runs alone from its file."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter

from search_spaces.records import read_json
from search_spaces.specs.evaluations import EvaluationSpec
from search_spaces.specs.trials import ProbeSpec, TrialSpec

Spec = TypeVar("Spec", TrialSpec, ProbeSpec, EvaluationSpec)
# Made once: making one takes longer than what it does.
_SPECS: Mapping[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (TrialSpec, ProbeSpec, EvaluationSpec)}
_NAMES: Mapping[type, str] = {TrialSpec: "a trial's spec", ProbeSpec: "a probe's spec", EvaluationSpec: "a pool's spec"}


def to_json(spec: TrialSpec | ProbeSpec | EvaluationSpec) -> str:
    """The spec as indented JSON."""
    return json.dumps(_SPECS[type(spec)].dump_python(spec, mode="json"), indent=2, sort_keys=True) + "\n"


def from_json(kind: type[Spec], text: str | bytes) -> Spec:
    """Read a spec back.

    Raises:
        UnreadableError: the text is not JSON of that kind.
    """
    return read_json(_SPECS[kind], text, _NAMES[kind])
