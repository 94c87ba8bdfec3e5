"""The init regimes: one function each from a resolved encoder spec to the encoder that training starts from.

Their names and what they read are declared in `search_spaces/catalogue/init_regimes.py`; planning has already put
the checkpoint that the regime reads into `spec.weights`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.specs import EncoderSpec, WeightsSpec
from trainers.backbones import load_backbone, load_tokenizer, random_backbone
from trainers.encoder import Encoder
from trainers.gguf_conversion import converted_folder
from trainers.weights import content_hash, locate

StartingBackbone = Callable[[Path, EncoderSpec, int | None], Any]


def start_encoder(spec: EncoderSpec, seed: int | None) -> Encoder:
    """The encoder before any training, on the CPU, in evaluation mode.

    The same spec (and seed, where the regime is seeded) gives the same weights, and no global random state changes.

    Raises:
        InputError: the weights are not there or cannot be used.
        ValueError: a seeded regime without a seed.
    """
    regime = INIT_REGIMES[spec.init_regime]
    if regime.seeded and seed is None:
        raise ValueError(f"init regime '{regime.name}' draws its weights, and no seed was given")
    folder = model_folder(spec.weights)
    backbone = START[regime.name](folder, spec, seed)
    return Encoder(backbone, load_tokenizer(folder), spec).eval()


def model_folder(weights: WeightsSpec) -> Path:
    """The local folder with config, safetensors and tokenizer; a GGUF file is converted on first use."""
    located = locate(weights)
    return converted_folder(located, content_hash(weights)) if located.is_file() else located


def _checkpoint(folder: Path, spec: EncoderSpec, seed: int | None) -> Any:
    return load_backbone(folder, layers=spec.layers)


def _random(folder: Path, spec: EncoderSpec, seed: int | None) -> Any:
    assert seed is not None
    return random_backbone(folder, layers=spec.layers, seed=seed)


START: Mapping[str, StartingBackbone] = {
    "finetune": _checkpoint,
    "from_base": _checkpoint,
    "random": _random,
}
