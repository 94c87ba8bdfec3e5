"""What the run of a trial or probe is labelled with: its name, parameters, tags, and what it was made with."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from results.studies import sample_title
from search_spaces.specs import ProbeSpec, TrialSpec, to_json

_MAX_PARAMETER = 500
_MAX_DIFFERENCES = 3  # in a name


@dataclass(frozen=True, kw_only=True)
class RunLabels:
    """What is known of a run before it starts. `key` is the trial's or probe's identity."""

    key: str
    name: str
    tags: Mapping[str, str]
    parameters: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class SampleLabel:
    """Which sample of which search a trial is."""

    study_id: str
    study_title: str
    number: int


def labels(
    key: str,
    spec: TrialSpec | ProbeSpec,
    *,
    name: str | None = None,
    groups: Iterable[str] = (),
    sample: SampleLabel | None = None,
) -> RunLabels:
    """The labels of a trial or probe, under its title unless it has a `name`; `groups` are what it is evaluated on.

    A `sample` of a search is of kind 'sample': a search for `tags.kind = 'train'` finds what is reported alone.
    """
    if sample is not None:
        own = {"kind": "sample", "study": sample.study_title, "study_id": sample.study_id, "sample": str(sample.number)}
        named = sample_title(sample.study_title, sample.number)
        return RunLabels(key=key, name=named, tags=tags(key, spec) | own, parameters=parameters(spec))
    group = {"group": ", ".join(groups)} if groups and isinstance(spec, TrialSpec) else {}
    return RunLabels(key=key, name=name or spec.title, tags=tags(key, spec) | group, parameters=parameters(spec))


def names(specs: Mapping[str, TrialSpec | ProbeSpec]) -> dict[str, str]:
    """A name for each identity: its title, and where several have one title, what tells them apart."""
    sharing: dict[str, list[str]] = {}
    for key, spec in specs.items():
        sharing.setdefault(spec.title, []).append(key)
    found = {}
    for title, keys in sharing.items():
        flat = {key: parameters(specs[key]) for key in keys}
        differing = [n for n in flat[keys[0]] if len({own.get(n) for own in flat.values()}) > 1]
        for key in keys:
            told = [f"{_short(n)}={flat[key][n]}" for n in _telling(differing) if n in flat[key]]
            found[key] = " ".join([title, *told])
    return found


def _telling(differing: Iterable[str]) -> list[str]:
    """The first few parameters that differ, without hashes and paths, which a reader cannot read."""
    readable = [name for name in differing if not name.endswith(("_hash", ".source", "num_pairs"))]
    return readable[:_MAX_DIFFERENCES]


def _short(parameter: str) -> str:
    """'training.learning_rate' as 'learning_rate', and whose name 'training_data.name' is, 'training_data'."""
    owner, _, last = parameter.rpartition(".")
    return owner.rpartition(".")[2] if owner and last == "name" else last


def parameters(spec: TrialSpec | ProbeSpec) -> dict[str, str]:
    """The spec as flat parameters with dotted names, each at most 500 characters; what is unset is left away."""
    plain = json.loads(to_json(spec))
    for data in (plain.get("training_data"), (plain.get("validation") or {}).get("data")):
        if data:
            data["name"] = data.pop("entry")["name"]
    return {name: str(value)[:_MAX_PARAMETER] for name, value in _flat(plain) if value not in (None, "")}


def tags(key: str, spec: TrialSpec | ProbeSpec) -> dict[str, str]:
    """What runs are filtered by in the UI; `spec_hash` is the identity, as are `trial_id` and `probe_id`."""
    own = _trial_tags(key, spec) if isinstance(spec, TrialSpec) else {"probe_id": key, "kind": "probe"}
    named = {
        **own,
        "spec_hash": key,
        "family": spec.encoder.family,
        "init_regime": spec.encoder.init_regime,
        "weights": spec.encoder.weights.source,
        "training_data": spec.training_data.name if spec.training_data else None,
        "scale": spec.scale,
        "scale_mode": spec.scale.mode if spec.scale else None,
        "towers": spec.encoder.towers,
        "seed": spec.seed,
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def _trial_tags(key: str, spec: TrialSpec) -> dict[str, Any]:
    named = {"trial_id": key, "kind": spec.kind, "similarity": spec.similarity.name if spec.similarity else None}
    if spec.training is None:
        return named
    trained = "all weights" if spec.training.lora_rank is None else f"LoRA, rank {spec.training.lora_rank}"
    return named | {
        "trained": trained,
        "hard_negatives": spec.training.hard_negatives,
        "negatives_per_query": spec.num_negatives,
    }


def provenance_tags(provenance_json: str) -> dict[str, str]:
    """What a run was made with, from `Provenance.to_json`: commit, dirty flag, Python, package versions, hardware."""
    made: Mapping[str, Any] = json.loads(provenance_json)
    packages = ", ".join(f"{name} {version}" for name, version in sorted(made.get("packages", {}).items()))
    named = {
        "git_commit": made.get("commit"),
        "git_dirty": None if made.get("dirty") is None else str(made["dirty"]).lower(),
        "python": made.get("python"),
        "platform": made.get("platform"),
        "packages": packages,
        "hardware": _hardware(made),
    }
    return {name: str(value) for name, value in named.items() if value}


def _hardware(made: Mapping[str, Any]) -> str:
    memory = made.get("memory_bytes")
    parts = [
        *made.get("accelerators", ()),
        f"{made['num_cores']} cores of {made.get('cpu_model') or 'an unknown CPU'}" if made.get("num_cores") else "",
        f"{memory / 2**30:.0f} GiB" if memory else "",
    ]
    return ", ".join(part for part in parts if part)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item
