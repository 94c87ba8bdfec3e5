"""The data sets that went into a trial or probe, as inputs of its run: name, split, content hash, source."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec, ProbeSpec, TrialSpec

_MAX_DIGEST = 36  # MLflow's limit: the beginning of the content hash
Context = Literal["training", "validation", "evaluation"]


@dataclass(frozen=True, kw_only=True)
class DataInput:
    """One split of a data set, and what it was for. `source` is JSON in the form of MLflow's `source_type`."""

    name: str
    digest: str
    context: Context
    source_type: str
    source: str
    profile: str


def data_inputs(spec: TrialSpec | ProbeSpec, evaluated: Iterable[DataSpec]) -> tuple[DataInput, ...]:
    """What a trial or probe was trained and validated on, and what its checkpoint is `evaluated` on."""
    return tuple(dict.fromkeys(_inputs(spec, evaluated)))


def _inputs(spec: TrialSpec | ProbeSpec, evaluated: Iterable[DataSpec]) -> Iterator[DataInput]:
    if spec.training_data:
        yield _input(spec.training_data, "training")
    if isinstance(spec, TrialSpec) and spec.validation:
        yield _input(spec.validation.data, "validation")
    for data in evaluated:
        yield _input(data, "evaluation")


def _input(data: DataSpec, context: Context) -> DataInput:
    source_type, source = _source(data.entry, data.split)
    profile = {"num_pairs": data.num_pairs, "content_hash": data.content_hash}
    return DataInput(
        name=f"{data.name}/{data.split}",
        digest=(data.content_hash or "")[:_MAX_DIGEST],
        context=context,
        source_type=source_type,
        source=source,
        profile=json.dumps(profile, sort_keys=True),
    )


def _source(entry: DataSet, split: str) -> tuple[str, str]:
    """Where the data comes from, revision included, so that the UI links to the hub."""
    scheme, _, location = entry.source.partition(":")
    if scheme == "hf":
        path, _, revision = location.partition("@")
        named = {"path": path, "revision": revision or None, "config_name": entry.config, "split": split}
        return "hugging_face", json.dumps(named, sort_keys=True)
    return ("local" if scheme == "path" else scheme), json.dumps({"uri": location}, sort_keys=True)
