"""Identity: the hash of what determines a checkpoint, an evaluation or a probe.

Identities hash resolved specs, with the content hashes of weights and data in place of their sources, so that a
moved folder keeps its results and an edited catalogue entry or file does not reuse stale ones.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    EvaluationSpec,
    PoolSpec,
    ProbeSpec,
    SimilaritySpec,
    StartingEncoder,
    TrialSpec,
    WeightsSpec,
)
from search_spaces.tuning import TunedCell

TRAINING_VERSION = 2  # raise by hand when the same spec no longer gives the same checkpoint
EVALUATION_VERSION = 3  # raise by hand when the same checkpoint no longer gives the same rows
PROBE_VERSION = 4  # raise by hand when the same probe no longer gives the same rows
POOL_VERSION = 1  # raise by hand when the same settings no longer give the same pool
READING_VERSION = 1  # raise by hand when the same passages no longer give the same answers or scores of them
_NOT_IDENTITY = frozenset({"execution", "keep_embeddings", "run_files", "memory_budget_bytes", "log_kappa_every"})
_NOT_IDENTITY_IF_NONE = frozenset({"instruction"})  # most encoders read none
# What is done with embeddings changes none of them, and a pool counts by its own identity.
_NOT_ENCODING = frozenset({"score_similarities", "rag", "pool"})
_DIGITS = 16


class UnstableIdentityError(ValueError):
    """A value that has no stable form, or a spec whose content hashes are not known yet."""


def trial_id(spec: TrialSpec) -> str:
    """The trial's identity: 16 hex digits of SHA-256 over its resolved spec and TRAINING_VERSION."""
    return _digest({"training_version": TRAINING_VERSION, "spec": _canonical(spec), **_told_trial(spec)})


def prefix_id(spec: TrialSpec) -> str | None:
    """What trials that differ in their number of steps alone have in common, where the longer begins as the shorter.

    Under a constant schedule no step knows how many come after it. None under any other, where nothing is trained,
    and of a pilot, from which nothing goes on.
    """
    if spec.training is None or spec.training.schedule != "constant" or spec.kind == "pilot":
        return None
    canonical = _canonical(spec)
    canonical["training"] = {name: value for name, value in canonical["training"].items() if name != "steps"}
    return _digest({"training_version": TRAINING_VERSION, "begins": canonical})


def named_meaning(spec: TrialSpec) -> str:
    """As `trial_id`, by names of weights and data in place of their content: what a trial is to its readers."""
    return _digest(_by_name(spec))


def differing_fields(one: TrialSpec, other: TrialSpec) -> tuple[str, ...]:
    """The fields, dotted, in which the identities of two trials differ; `training_data` is one with its content."""
    return tuple(_differing(_canonical(one), _canonical(other), ""))


def probe_id(spec: ProbeSpec) -> str:
    """The probe's identity: 16 hex digits of SHA-256 over its resolved spec and PROBE_VERSION."""
    told = _told(spec.encoder, spec.training_data)
    return _digest({"probe_version": PROBE_VERSION, "spec": _canonical(spec), **told})


def study_id(cell: TunedCell) -> str:
    """The identity of a study: what its samples train, less what is searched, and how, but not how many samples.

    A study that is given more samples goes on.
    """
    searched = {name for name, _ in cell.tune.spaces}
    spec = _canonical(cell.tuning)
    spec["training"] = {name: value for name, value in spec["training"].items() if name not in searched}
    how = {name: value for name, value in _canonical(cell.tune).items() if name != "num_samples"}
    kinds = {name: type(space).__name__ for name, space in cell.tune.spaces}
    return _digest(
        {"training_version": TRAINING_VERSION, "spec": spec, "tune": how, "kinds": kinds, **_told_trial(cell.tuning)}
    )


def encoding_id(checkpoint_hash: str, evaluation: EvaluationSpec) -> str:
    """The identity of one encoding pass (checkpoint x data), under which norms are stored.

    The checkpoint's hash covers its prompts, lengths and gammas.
    """
    spec = _encoded(evaluation)
    return _digest({"evaluation_version": EVALUATION_VERSION, "checkpoint": checkpoint_hash, "spec": spec})


@lru_cache(maxsize=4096)  # every checkpoint of a sweep is evaluated alike
def _encoded(evaluation: EvaluationSpec) -> Mapping[str, Any]:
    """What decides embeddings beside the checkpoint."""
    spec = {key: value for key, value in _canonical(evaluation).items() if key not in _NOT_ENCODING}
    if evaluation.pool is not None:
        spec["pool"] = pool_id(evaluation)
    return spec


def pool_id(evaluation: EvaluationSpec) -> str:
    """The identity of the pool that an evaluation searches, in whatever order its encoders are listed.

    Raises:
        ValueError: it searches the whole corpus.
    """
    pool = _pool_of(evaluation)
    encoders = sorted(_digest(_contributor(encoder, evaluation.data)) for encoder in pool.encoders)
    spec = {"settings": _canonical(pool.settings), "encoders": encoders}
    return _digest({**_pooled(evaluation), "pool": spec})


def pool_part_id(evaluation: EvaluationSpec, encoder: StartingEncoder) -> str:
    """The identity of what one starting encoder gives to a pool, whoever else contributes to it.

    Raises:
        ValueError: the evaluation searches the whole corpus.
    """
    settings = _pool_of(evaluation).settings
    taken = {"per_similarity_top": settings.per_similarity_top, "longest": settings.longest}
    return _digest({**_pooled(evaluation), "part": taken, "encoder": _contributor(encoder, evaluation.data)})


def _contributor(encoder: StartingEncoder, data: DataSpec) -> dict[str, Any]:
    return {**_canonical(encoder), **_told(encoder.encoder, data)}


def _pool_of(evaluation: EvaluationSpec) -> PoolSpec:
    if evaluation.pool is None:
        raise ValueError(f"'{evaluation.data.name}' is evaluated on its whole corpus: it has no pool")
    return evaluation.pool


def _pooled(evaluation: EvaluationSpec) -> dict[str, Any]:
    """What decides a pool beside its settings and encoders."""
    data = _canonical(evaluation.data)
    exclusion, precision = evaluation.data.entry.exclusion, evaluation.precision
    return {"pool_version": POOL_VERSION, "data": data, "exclusion": exclusion, "precision": precision}


def evaluation_id(checkpoint_hash: str, evaluation: EvaluationSpec, score_similarity: SimilaritySpec) -> str:
    """The identity of one set of per query rows: an encoding ranked by one score similarity and measured."""
    entry = evaluation.data.entry
    scoring = {
        "similarity": _canonical(score_similarity),
        "measures": list(entry.measures),
        "exclusion": entry.exclusion,
    }
    return _digest({"encoding": encoding_id(checkpoint_hash, evaluation), "scoring": scoring})


def answers_id(checkpoint_hash: str, evaluation: EvaluationSpec, score_similarity: SimilaritySpec) -> str:
    """The identity of one set of answers: an encoding ranked by one score similarity, and read as `rag` says.

    Raises:
        ValueError: the evaluation asks for no answers.
    """
    if evaluation.rag is None:
        raise ValueError(f"'{evaluation.data.name}' is evaluated without a reader: it has no answers")
    reading = {
        "reading_version": READING_VERSION,
        "similarity": _canonical(score_similarity),
        "exclusion": evaluation.data.entry.exclusion,
        "rag": _canonical(evaluation.rag),
    }
    return _digest({"encoding": encoding_id(checkpoint_hash, evaluation), "reading": reading})


def _told_trial(spec: TrialSpec) -> dict[str, Any]:
    return _told(spec.encoder, spec.training_data, spec.validation.data if spec.validation else None)


def _told(encoder: EncoderSpec, *data: DataSpec | None) -> dict[str, Any]:
    """What data sets tell an instructed encoder of their queries."""
    if not encoder.is_instructed:
        return {}
    return {"instructions": [spec.entry.instruction if spec else None for spec in data]}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _canonical(value: Any) -> Any:
    """Plain values with sources replaced by content hashes."""
    if isinstance(value, WeightsSpec):
        return {"content_hash": _required(value.content_hash, value.source)}
    if isinstance(value, DataSpec):
        return _canonical_data(value)
    if is_dataclass(value):
        return {f.name: _canonical(getattr(value, f.name)) for f in fields(value) if _identifies(f.name, value)}
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnstableIdentityError(f"{value} cannot be part of an identity")
        return float(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    raise UnstableIdentityError(f"a {type(value).__name__} cannot be part of an identity: {value!r}")


def _identifies(field: str, value: Any) -> bool:
    if field in _NOT_IDENTITY_IF_NONE and getattr(value, field) is None:
        return False
    return field not in _NOT_IDENTITY


def _canonical_data(data: DataSpec) -> dict[str, Any]:
    return {
        "name": data.name,
        "split": data.split,
        "content_hash": _required(data.content_hash, data.name),
        "relevance_threshold": data.entry.relevance_threshold,  # decides which judgements are training pairs
    }


def _by_name(value: Any) -> Any:
    """Plain values, with data by its name and weights left to their family's."""
    if isinstance(value, DataSpec):
        return {"name": value.name, "split": value.split}
    if is_dataclass(value):
        named = [f.name for f in fields(value) if f.name not in (*_NOT_IDENTITY, "weights")]
        return {name: _by_name(getattr(value, name)) for name in named}
    return _canonical(value)


def _differing(one: Any, other: Any, place: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys((*one, *other)):
            yield from _differing(one.get(name), other.get(name), f"{place}.{name}" if place else name)
    elif one != other:
        yield place


def _required(content_hash: str | None, what: str) -> str:
    if content_hash is None:
        raise UnstableIdentityError(f"the content hash of {what} is not known yet")
    return content_hash
