"""A reader's weights: that they are a language model's, and the hash of all that decides its answers. Torch-free."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search_spaces.problems import InputError, Problem
from search_spaces.specs import RagSpec, WeightsSpec
from trainers.weights import content_hash, locate
from trainers.weights.limits import limits

# Beside what defines an encoder: the ids that decoding starts and ends with, and the form of a conversation.
_OF_GENERATION = ("generation_config.json", "chat_template.jinja")
_WITH_HEAD = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForSeq2SeqLM")
_RELATIVE = "relative_attention_num_buckets"  # T5's: such positions have no end, whatever `n_positions` says


def reader_hash(weights: WeightsSpec) -> str:
    """SHA-256 (hex) over the files that decide what a reader answers.

    Raises:
        InputError: as `trainers.weights.locate`.
    """
    digest = hashlib.sha256(content_hash(weights).encode())
    located = locate(weights)
    for name in _OF_GENERATION if located.is_dir() else ():
        if (located / name).is_file():
            digest.update(f"\0{name}\0{hashlib.sha256((located / name).read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


def check_reader(rag: RagSpec) -> None:
    """Check what the weights' files say of the reader, before anything is started.

    Raises:
        InputError: as `trainers.weights.locate`, or it has no language model head, no chat template where one is
            asked for, or fewer positions than the prompt may take.
    """
    weights = rag.reader.weights
    located = locate(weights)
    if located.is_file():  # GGUF holds language models alone; its template and positions are read with it
        _check_positions(rag, limits(weights, content_hash(weights)).num_positions, causal=True)
        return
    config = _config(weights, located)
    architectures = [name for name in config.get("architectures") or () if isinstance(name, str)]
    if not any(name.endswith(_WITH_HEAD) for name in architectures):
        found = ", ".join(architectures) or "not named"
        message = f"its architecture ({found}) has no language model head, and a reader writes its answer with one"
        raise _unusable(weights, f"{message} (take a model whose config.json names one of: *{', *'.join(_WITH_HEAD)})")
    if rag.reader.chat_template and not _has_chat_template(located):
        raise _unusable(weights, "it has no chat template (write chat_template: false)")
    num_positions = None if _RELATIVE in config else limits(weights, content_hash(weights)).num_positions
    _check_positions(rag, num_positions, causal=not config.get("is_encoder_decoder"))


def _check_positions(rag: RagSpec, num_positions: int | None, *, causal: bool) -> None:
    needed = rag.max_input_tokens + (rag.max_new_tokens if causal else 0)
    if num_positions is not None and needed > num_positions:
        tokens = "max_input_tokens and max_new_tokens are" if causal else "max_input_tokens is"
        raise _unusable(rag.reader.weights, f"{tokens} {needed}, but it has {num_positions} positions")


def _config(weights: WeightsSpec, folder: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise _unusable(weights, f"config.json cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise _unusable(weights, "config.json is no JSON object")
    return found


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and b'"chat_template"' in settings.read_bytes()


def _unusable(weights: WeightsSpec, message: str) -> InputError:
    return InputError([Problem(where=weights.source, key="", message=message)])
