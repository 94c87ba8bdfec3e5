"""Read a transformer and its tokenizer from a local folder: safetensors only, nothing printed.

Code that comes with a model runs only where `remote_code` says so.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging as transformers_logging

from search_spaces.problems import InputError, Problem

_IN_BLOCK = re.compile(r"(^|\.)\d+\.")  # 'encoder.layer.0.output.dense': blocks are numbered, a pooler is not


def load_backbone(folder: Path, *, layers: int | None = None, remote_code: bool = False) -> Any:
    """The folder's transformer without a language model head, float32 on the CPU; its first `layers` layers only.

    Raises:
        InputError: it cannot be read without running remote code or unpickling, or lacks weights it needs.
    """
    config = load_config(folder, layers=layers, remote_code=remote_code)
    # Weights that the file lacks (a pooler that is not used) are drawn at random: the same on every machine.
    with quiet(), own_random_state(0), readable(folder):
        backbone, info = AutoModel.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=remote_code,
            output_loading_info=True,
        )
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise _unusable(folder, f"its weights lack {len(missing)} that {config.model_type} needs, such as {missing[0]}")
    return backbone


def random_backbone(folder: Path, *, layers: int | None, seed: int, remote_code: bool = False) -> Any:
    """The folder's architecture with weights from its own initialiser, by seed; torch's global state is not touched."""
    config = load_config(folder, layers=layers, remote_code=remote_code)
    with quiet(), own_random_state(seed), readable(folder):
        return AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=remote_code)


def load_tokenizer(folder: Path, *, remote_code: bool = False) -> Any:
    """The folder's tokenizer. Raises InputError where there is none."""
    with quiet(), readable(folder):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=remote_code)


def load_config(folder: Path, *, layers: int | None, remote_code: bool = False) -> Any:
    """The folder's architecture, cut to its first `layers` layers.

    Raises:
        InputError: the folder has no readable config, or fewer layers.
    """
    with quiet(), readable(folder):
        config: Any = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=remote_code)
    if layers is None:
        return config
    if layers > config.num_hidden_layers:
        raise _unusable(folder, f"layers is {layers}, and it has {config.num_hidden_layers}")
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):  # Qwen3 lists the kind of attention of each layer
        config.layer_types = config.layer_types[:layers]
    return config


def block_linear_layers(backbone: nn.Module) -> list[str]:
    """Names of the linear layers of a transformer's blocks, sorted; GPT-2 calls its own Conv1D."""
    linear = [name for name, module in backbone.named_modules() if isinstance(module, nn.Linear | Conv1D)]
    return sorted(name for name in linear if _IN_BLOCK.search(name))


@contextmanager
def own_random_state(seed: int) -> Iterator[None]:
    """Draw from `seed` inside, and leave torch's global CPU generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' loading reports and progress bars off the terminal; what matters of them is raised."""
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Say of what cannot be read inside that it was this folder. Raises InputError."""
    try:
        yield
    except SafetensorError as error:
        message = f"cannot be read as a transformer: its weights are damaged ({error}); copy or download them again"
        raise _unusable(folder, message) from error
    except (OSError, ValueError, ImportError, StrictDataclassError) as error:
        # ImportError: what a model's own code needs; the last: a config whose values are of other types
        raise _unusable(folder, f"cannot be read as a transformer: {error}") from error
    except RuntimeError as error:
        if "ignore_mismatched_sizes" not in str(error):
            raise
        message = "its weights do not have the sizes that its config.json says"
        raise _unusable(folder, f"cannot be read as a transformer: {message}") from error


def _unusable(folder: Path, message: str) -> InputError:
    return InputError([Problem(where=str(folder), key="", message=message)])
