"""The init regimes: one function each from a resolved encoder spec to the encoder that training starts from.

Their names and what they read are declared in `search_spaces/catalogue/init_regimes.py`; planning has already put
the checkpoint that the regime reads into `spec.weights`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.problems import InputError, Problem
from search_spaces.specs import EncoderSpec, WeightsSpec
from trainers.encoders.backbones import load_backbone, load_tokenizer, random_backbone
from trainers.encoders.encoder import TOWERS, Encoder, Tower
from trainers.randomness import derived_seed
from trainers.weights import content_hash, locate
from trainers.weights.gguf_conversion import converted_folder
from trainers.weights.sentence_transformers_folder import routed_towers

StartingBackbone = Callable[[Path, EncoderSpec, int | None], Any]


def start_encoder(spec: EncoderSpec, seed: int | None) -> Encoder:
    """The encoder before any training, on the CPU, in evaluation mode.

    The same spec (and seed, where the regime is seeded) gives the same weights, and no global random state changes.
    Separate towers read the same weights twice, or each its own where the folder has two towers. A seeded regime draws
    each tower its own, since two encoders that were never trained have no reason to agree; the query's are those that a
    shared tower would have.

    Raises:
        InputError: the weights are not there or cannot be used.
        ValueError: a seeded regime without a seed.
    """
    regime = INIT_REGIMES[spec.init_regime]
    if regime.seeded and seed is None:
        raise ValueError(f"init regime '{regime.name}' draws its weights, and no seed was given")
    folders = _tower_folders(spec)
    backbones = {
        tower: START[regime.name](folder, spec, None if seed is None else _tower_seed(seed, tower))
        for tower, folder in folders.items()
    }
    tokenizer = load_tokenizer(next(iter(folders.values())), remote_code=spec.weights.remote_code)
    return Encoder(backbones, tokenizer, spec).eval()


def model_folder(weights: WeightsSpec) -> Path:
    """The local folder with config, safetensors and tokenizer; a GGUF file is converted on first use."""
    located = locate(weights)
    return converted_folder(located, content_hash(weights)) if located.is_file() else located


def _tower_folders(spec: EncoderSpec) -> dict[Tower, Path]:
    """The folder that each tower is read from: one and the same, unless the weights have two towers themselves."""
    folder = model_folder(spec.weights)
    routed = routed_towers(folder)
    if routed is None:
        return dict.fromkeys(TOWERS[spec.towers], folder)
    if spec.towers == "shared":
        raise _unusable(spec, f"{folder} has a tower for queries and one for documents; write `towers: separate`")
    query, document = routed["query"], routed["document"]
    if _tokenizer(query) != _tokenizer(document):
        raise _unusable(spec, f"the towers of {folder} have different tokenizers, which cannot be trained here")
    return {"query": query, "document": document}


def _tokenizer(folder: Path) -> bytes | None:
    file = folder / "tokenizer.json"
    return file.read_bytes() if file.is_file() else None


def _tower_seed(seed: int, tower: Tower) -> int:
    return derived_seed(seed, tower) if tower == "document" else seed


def _unusable(spec: EncoderSpec, message: str) -> InputError:
    return InputError([Problem(where=f"family '{spec.family}' ({spec.weights.source})", key="", message=message)])


def _checkpoint(folder: Path, spec: EncoderSpec, seed: int | None) -> Any:
    return load_backbone(folder, layers=spec.layers, remote_code=spec.weights.remote_code)


def _random(folder: Path, spec: EncoderSpec, seed: int | None) -> Any:
    assert seed is not None
    return random_backbone(folder, layers=spec.layers, seed=seed, remote_code=spec.weights.remote_code)


START: Mapping[str, StartingBackbone] = {
    "finetune": _checkpoint,
    "from_base": _checkpoint,
    "random": _random,
}
