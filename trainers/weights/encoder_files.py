"""What the files of a model alone say against an encoder, before any trial reads it. Torch-free."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from search_spaces.problems import unknown_name
from search_spaces.specs import EncoderSpec
from trainers.weights import locate
from trainers.weights.json_files import read_json, whole_number
from trainers.weights.remote_code import known_types
from trainers.weights.sentence_transformers_folder import routed_towers
from trainers.weights.vocabulary import MIN_TEXT_TOKENS, Vocabulary, read_vocabulary

_TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json")
# Of these classes a tokenizer has no special token but those that its files name.
_PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")


def encoder_faults(
    encoder: EncoderSpec, content_hash: str, instructions: Iterable[str | None] = (None,)
) -> Iterator[str]:
    """What keeps every trial of this encoder from starting, a message each; none of it is in a GGUF file.

    `instructions` are those of the data sets whose queries it is to encode; None is a data set without one.

    Raises:
        InputError: as `locate`.
    """
    located = locate(encoder.weights)
    if located.is_file():
        return
    for folder in dict.fromkeys((routed_towers(located) or {"": located}).values()):
        try:
            config = read_json(folder / "config.json")
            yield from _architecture_faults(config, own_code=encoder.weights.remote_code and "auto_map" in config)
            yield from _special_token_faults(encoder, folder)
            prompts = (*_query_prompts(encoder, instructions), encoder.document_prompt)
            if vocabulary := read_vocabulary(folder, content_hash, prompts):
                yield from _vocabulary_faults(config, vocabulary)
                yield from _room_faults(encoder, vocabulary, instructions)
        except ValueError as error:
            yield f"{error} (in {folder}; copy or download it again)"


def _architecture_faults(config: dict[str, Any], *, own_code: bool) -> Iterator[str]:
    """Nothing is said of an architecture whose code is its own, nor where transformers is not installed."""
    model_type, known = config.get("model_type"), known_types()
    if own_code or not known:
        return
    if model_type is None:
        yield "its config.json names no model_type, without which no architecture is known: add it"
    elif model_type not in known:
        near = unknown_name("model_type of the installed transformers", str(model_type), known)
        yield f"its config.json: {near.partition(' (known: ')[0]}"
    elif config.get("is_encoder_decoder") is True:
        yield f"it is an encoder with a decoder ('{model_type}'), and an encoder here is one or the other alone"


def _special_token_faults(encoder: EncoderSpec, folder: Path) -> Iterator[str]:
    """As an encoder asks its tokenizer: it pads by its pad token, or its end-of-sequence token, and appends that."""
    named: dict[str, Any] = {}
    for name in _TOKENIZER_FILES:
        if (folder / name).is_file():
            try:
                named |= {key: value for key, value in read_json(folder / name).items() if value is not None}
            except ValueError as error:
                raise ValueError(f"{name} cannot be read: {error}") from error
    if named.get("tokenizer_class") not in _PLAIN_CLASSES or "eos_token" in named:
        return
    if encoder.append_eos:
        yield "its tokenizer has no end-of-sequence token, and append_eos is true: name its eos_token in its files"
    elif "pad_token" not in named:
        files = " or ".join(_TOKENIZER_FILES)
        yield f"its tokenizer has neither a pad token nor an end-of-sequence token to pad with: name one in {files}"


def _vocabulary_faults(config: dict[str, Any], vocabulary: Vocabulary) -> Iterator[str]:
    size = whole_number(config, "vocab_size")
    if size is not None and vocabulary.num_ids > size:
        more = f"its tokenizer gives ids up to {vocabulary.num_ids - 1}, and it has embeddings of {size} tokens"
        yield f"{more}: the tokenizer is another model's"


def _query_prompts(encoder: EncoderSpec, instructions: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(encoder.query_prompt_for(instruction) for instruction in instructions))


def _room_faults(encoder: EncoderSpec, vocabulary: Vocabulary, instructions: Iterable[str | None]) -> Iterator[str]:
    """Lengths in which prompt and special tokens leave a text no room; one of 0 is not known yet."""
    num_special = vocabulary.num_special + (encoder.append_eos and not vocabulary.ends_texts)
    prompts = {"query": _query_prompts(encoder, instructions), "document": [encoder.document_prompt]}
    for side, of_side in prompts.items():
        key = f"max_{side}_length"
        length, prompt = getattr(encoder, key), max(vocabulary.prompt_tokens[prompt] for prompt in of_side)
        if length and (room := length - num_special - prompt) < MIN_TEXT_TOKENS:
            taken = f"of which special tokens take {num_special} and its {side}_prompt {prompt}"
            least = num_special + prompt + MIN_TEXT_TOKENS
            yield f"{key} is {length}, {taken}: {max(room, 0)} are left of a text (write {least} or more)"
