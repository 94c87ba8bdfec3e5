"""What a checkpoint says of its own encoder: a trial's record, or a sentence-transformers folder. Torch-free."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from search_spaces.catalogue.families import Pooling
from search_spaces.problems import InputError, Problem
from search_spaces.specs import EncoderSpec, WeightsSpec
from trainers.encoders.checkpoint_files import RECORD
from trainers.weights import source_folder
from trainers.weights.limits import limits
from trainers.weights.sentence_transformers_folder import FolderError, read_settings

_ENCODERS = TypeAdapter(EncoderSpec)


@dataclass(frozen=True, kw_only=True)
class FoundSettings:
    """Settings as a checkpoint states them; None where it does not. Lengths are in tokens, special ones counted.

    `normalizes`: its folder ends in a module that normalises embeddings, which is never applied: the similarity does.
    """

    pooling: Pooling | None = None
    append_eos: bool | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    max_query_length: int | None = None
    max_document_length: int | None = None
    instruction: str | None = None
    normalizes: bool = False


def found_settings(weights: WeightsSpec) -> FoundSettings:
    """The settings that a checkpoint states: none of them where it is a plain model folder or a GGUF file.

    Raises:
        InputError: it is not there, or does what is not done here.
    """
    if weights.gguf_file is not None:
        return FoundSettings()
    folder = source_folder(weights)
    try:
        return _recorded(folder) if (folder / RECORD).is_file() else _of_sentence_transformers(folder, weights)
    except FolderError as error:
        raise InputError([Problem(where=weights.source, key="", message=str(error))]) from error


def _of_sentence_transformers(folder: Path, weights: WeightsSpec) -> FoundSettings:
    found = read_settings(folder)
    if found is None:
        return FoundSettings()
    most = limits(weights, "").num_positions
    return FoundSettings(
        pooling=found.pooling,
        query_prompt=found.query_prompt,
        document_prompt=found.document_prompt,
        max_query_length=_at_most(found.max_query_length, most),
        max_document_length=_at_most(found.max_document_length, most),
        normalizes=found.normalizes,
    )


def _at_most(length: int | None, most: int | None) -> int | None:
    """A length without what the model cannot do: a tokenizer's own limit may be beyond the model's."""
    return length if length is None or most is None else min(length, most)


def _recorded(folder: Path) -> FoundSettings:
    spec = _encoder_of(folder)
    also = read_settings(folder)
    if also is not None and also.pooling not in (None, spec.pooling):
        raise FolderError(f"its {RECORD} says pooling '{spec.pooling}', and its 1_Pooling '{also.pooling}'")
    return FoundSettings(
        pooling=spec.pooling,
        append_eos=spec.append_eos,
        query_prompt=spec.query_prompt,
        instruction=spec.instruction,
        document_prompt=spec.document_prompt,
        max_query_length=spec.max_query_length,
        max_document_length=spec.max_document_length,
    )


def _encoder_of(folder: Path) -> EncoderSpec:
    try:
        return _ENCODERS.validate_python(json.loads((folder / RECORD).read_bytes())["encoder"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise FolderError(f"its {RECORD} is not a checkpoint's record: {error}") from error
