"""How many layers and positions a checkpoint has, read from its config or GGUF metadata. Torch-free."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from search_spaces.problems import InputError, Problem
from search_spaces.specs import WeightsSpec
from trainers.cache import cache_folder, remember
from trainers.weights import locate
from trainers.weights.json_files import read_json, text, whole_number
from trainers.weights.sentence_transformers_folder import routed_towers

_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")  # DistilBERT, GPT-2 and T5 have their own words
_POSITIONS = ("max_position_embeddings", "n_positions")
_SIZES = ("hidden_size", "d_model", "n_embd", "dim")
_ROBERTA_PAD = 1
_FROM_PAD = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "longformer",
        "luke",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a spec of an encoder cannot go beyond, and its embedding size; None where the checkpoint does not say.

    `two_towers`: the checkpoint is an encoder for each side, which no shared one can start from.
    """

    num_layers: int | None
    num_positions: int | None
    two_towers: bool = False
    hidden_size: int | None = None


def limits(weights: WeightsSpec, content_hash: str) -> Limits:
    """The layers and positions of a checkpoint. What a GGUF file says is remembered by the hash of its content.

    Raises:
        InputError: as `locate`, or the config or the GGUF file cannot be read.
    """
    located = locate(weights)
    routed = routed_towers(located)
    file = located if located.is_file() else (routed["query"] if routed else located) / "config.json"
    try:
        found = _of_gguf(file, content_hash) if file == located else _of_config(file)
        return replace(found, two_towers=routed is not None)
    except (OSError, ValueError) as error:
        message = f"{file.name} cannot be read: {error}"
        raise InputError([Problem(where=weights.source, key="", message=message)]) from error


def num_positions(config: Mapping[str, Any]) -> int | None:
    """How many tokens a text may have, special ones counted, by a transformers config; None where it does not say.

    Raises ValueError where what it says is no number.

    RoBERTa and its like number positions from one after the pad token's id, so that the first of them stay empty:
    514 positions are 512 tokens.
    """
    size = _first_stated(config, _POSITIONS)
    first = _first_position(config)
    return size and size - first


def _first_position(config: Mapping[str, Any]) -> int:
    model_type = config.get("model_type")
    if model_type in _FROM_PAD:
        return (whole_number({"pad_token_id": _ROBERTA_PAD, **config}, "pad_token_id") or 0) + 1
    return _ROBERTA_PAD + 1 if model_type == "mpnet" else 0  # MPNet's pad position is fixed


def _of_config(file: Path) -> Limits:
    config = read_json(file)
    text(config, "model_type")
    return Limits(
        num_layers=_first_stated(config, _LAYERS),
        num_positions=num_positions(config),
        hidden_size=_first_stated(config, _SIZES),
    )


def _first_stated(config: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    """The first number of these that is there and not 0. Raises ValueError where one is no number."""
    return next((number for key in keys if (number := whole_number(config, key))), None)


def _of_gguf(file: Path, content_hash: str) -> Limits:
    remembered = cache_folder() / "limits" / f"{content_hash}.json"
    if remembered.is_file():
        return Limits(**json.loads(remembered.read_bytes()))
    from gguf import GGUFReader  # reading a file takes seconds, since its whole vocabulary is read

    fields = GGUFReader(file).fields
    if "general.architecture" not in fields:
        raise ValueError("it names no architecture")
    architecture = fields["general.architecture"].contents()
    layers, positions, size = (
        int(field.contents()) if (field := fields.get(f"{architecture}.{name}")) else None
        for name in ("block_count", "context_length", "embedding_length")
    )
    found = Limits(num_layers=layers, num_positions=positions, hidden_size=size)
    remember(remembered, json.dumps(asdict(found)))
    return found
