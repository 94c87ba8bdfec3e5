"""How many parameters a checkpoint has, by the headers of its files: nothing of its weights is read. Torch-free."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path

from search_spaces.catalogue.model_sizes import ModelSize
from search_spaces.specs import WeightsSpec
from trainers.cache import cache_folder, remember
from trainers.weights import locate
from trainers.weights.sentence_transformers_folder import routed_towers

_LAYER = re.compile(r"(?:^|\.)(?:layers?|blk|h|block)\.(?P<index>\d+)\.")
_WORDS = re.compile(r"(word_embeddings|embed_tokens|token_embd|wte|shared)\.weight$")
_LENGTH_BYTES = 8


def model_size(weights: WeightsSpec, content_hash: str) -> ModelSize | None:
    """The size of a checkpoint, of one tower where it has two; None where its tensors are in no numbered layers.

    Raises:
        InputError: as `locate`.
    """
    remembered = cache_folder() / "model_sizes" / f"{content_hash}.json"
    if remembered.is_file():
        return ModelSize(**json.loads(remembered.read_bytes()))
    located = locate(weights)
    routed = routed_towers(located)
    shapes = _of_gguf(located) if located.is_file() else _of_folder(routed["query"] if routed else located)
    found = size_of(shapes)
    if found:
        remember(remembered, json.dumps(asdict(found)))
    return found


def size_of(shapes: Mapping[str, Sequence[int]]) -> ModelSize | None:
    """The size of a model with tensors of these names and shapes; a head of a language model is not counted."""
    layers: dict[int, int] = {}
    others = 0
    for name, shape in shapes.items():
        if match := _LAYER.search(name):
            layers[int(match["index"])] = layers.get(int(match["index"]), 0) + prod(shape)
        elif not re.search(r"(^|\.)(lm_head|cls|output)\.", name):
            others += prod(shape)
    words = [shape for name, shape in shapes.items() if _WORDS.search(name)]
    if not layers or not words:
        return None
    return ModelSize(
        num_layers=len(layers),
        parameters_per_layer=round(sum(layers.values()) / len(layers)),
        other_parameters=others,
        hidden_size=min(words[0]),
    )


def _of_folder(folder: Path) -> dict[str, Sequence[int]]:
    shapes: dict[str, Sequence[int]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            header = json.loads(stream.read(size))
        shapes |= {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}
    return shapes


def _of_gguf(file: Path) -> dict[str, Sequence[int]]:
    from gguf import GGUFReader  # reading a file takes seconds

    tensors: Iterable = GGUFReader(file).tensors
    return {tensor.name: [int(size) for size in tensor.shape] for tensor in tensors}
