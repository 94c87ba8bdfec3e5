"""Low-rank adapters (LoRA, arXiv 2106.09685): W + alpha / rank * B A, where the frozen W is the backbone's weight.

peft is imported only where a training asks for them. Shapes: A [rank, inputs], B [outputs, rank].
"""

import copy
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from search_spaces.problems import InputError, Problem
from trainers.encoders.backbones import block_linear_layers, own_random_state, quiet
from trainers.encoders.checkpoint_files import adapter_folder, write_json
from trainers.encoders.encoder import Encoder
from trainers.randomness import derived_seed


def with_lora(encoder: Encoder, *, rank: int, alpha: float, dropout: float, seed: int) -> Encoder:
    """The encoder with an adapter at every linear layer of its transformer blocks; only adapters have a gradient.

    The backbones are wrapped in place. A is drawn by `seed` for each tower, B is zero: embeddings are what they were.
    No global random state changes.

    Raises:
        InputError: the architecture has no linear layers in blocks.
    """
    training = encoder.training
    for tower, backbone in encoder.backbones.items():
        targets = block_linear_layers(backbone)
        if not targets:
            raise _no_layers(encoder)
        with _silent(), own_random_state(derived_seed(seed, "lora", tower)):
            encoder.backbones[tower] = _wrapped(backbone, targets, rank=rank, alpha=alpha, dropout=dropout)
    return encoder.train(training)  # new modules are in training mode whatever the others are


def adapted(encoder: Encoder) -> bool:
    """Whether the encoder has adapters."""
    peft = sys.modules.get("peft")  # where it was never imported, nothing is adapted
    return peft is not None and any(isinstance(backbone, peft.PeftModel) for backbone in encoder.backbones.values())


def merged(encoder: Encoder) -> Encoder:
    """A copy of an adapted encoder with plain weights, the adapters added to them; the encoder itself stays as it is.

    Its embeddings differ from the encoder's by float32 rounding: by less than 1e-5 of an embedding's norm.
    """
    with _silent():
        copies: Any = {tower: copy.deepcopy(backbone) for tower, backbone in encoder.backbones.items()}
        backbones = {tower: adapted_copy.merge_and_unload() for tower, adapted_copy in copies.items()}
    return Encoder(backbones, encoder.tokenizer, encoder.spec).train(encoder.training)


def save_adapters(folder: Path, encoder: Encoder) -> None:
    """Write each tower's adapter in peft's own format, which `PeftModel.from_pretrained` reads."""
    for tower, backbone in encoder.backbones.items():
        into = adapter_folder(folder, tower)
        into.mkdir(parents=True)
        _save_adapter(into, backbone)


def trainable_state(module: nn.Module) -> dict[str, Tensor]:
    """The tensors that training changes, by name: all that has a gradient. They are the module's own, not copies."""
    return {name: weight.detach() for name, weight in module.named_parameters() if weight.requires_grad}


def load_trainable_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Set what training changes, in place, to the last bit.

    Raises:
        ValueError: `state` is of another module: names or shapes differ.
    """
    own = trainable_state(module)
    if own.keys() != state.keys():
        odd = sorted(own.keys() ^ state.keys())
        raise ValueError(f"a training state of another model: {len(odd)} tensors differ in name, such as {odd[0]}")
    for name, tensor in own.items():
        if tensor.shape != state[name].shape:
            shapes = f"{tuple(state[name].shape)}, where the model has {tuple(tensor.shape)}"
            raise ValueError(f"a training state of another model: {name} has the shape {shapes}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(state[name])


def _wrapped(backbone: Any, targets: list[str], *, rank: int, alpha: float, dropout: float) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=targets, bias="none")
    return get_peft_model(backbone, config)


def _save_adapter(folder: Path, backbone: Any) -> None:
    from peft import get_peft_model_state_dict

    # Not save_pretrained: that writes a model card, and the path of the starting weights on this machine.
    state = get_peft_model_state_dict(backbone, save_embedding_layers=False)
    tensors = {name: tensor.detach().contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = backbone.peft_config["default"].to_dict()
    config |= {"base_model_name_or_path": None, "inference_mode": True}
    write_json(folder / "adapter_config.json", {key: _in_order(value) for key, value in config.items()})


def _in_order(value: Any) -> Any:
    """A set as a list that is the same in every process."""
    return sorted(value) if isinstance(value, set) else value


@contextmanager
def _silent() -> Iterator[None]:
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _no_layers(encoder: Encoder) -> InputError:
    spec = encoder.spec
    message = f"lora_rank needs linear layers in transformer blocks, and a {encoder.config.model_type} has none"
    return InputError([Problem(where=f"family '{spec.family}' ({spec.weights.source})", key="", message=message)])
