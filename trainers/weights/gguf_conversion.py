"""Convert a GGUF file once into a safetensors folder in the cache, so that later reads need no dequantising."""

import io
import tempfile
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from trainers.cache import cache_folder
from trainers.encoders.backbones import own_random_state, quiet

CONVERSION_VERSION = 1  # raise when the same file no longer gives the same folder


def converted_folder(gguf_file: Path, content_hash: str, *, head: bool = False) -> Path:
    """The folder with the file's backbone in float32 and its tokenizer; with its language model head where asked for.

    Converted on first use (135M parameters take about 20 s); of several processes one does it and the others wait.
    """
    kind = "lm-" if head else ""
    target = cache_folder() / "gguf" / f"v{CONVERSION_VERSION}-{kind}{content_hash[:32]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as temporary:
                _convert(gguf_file, Path(temporary) / "model", AutoModelForCausalLM if head else AutoModel)
                (Path(temporary) / "model").replace(target)
    return target


def _convert(gguf_file: Path, folder: Path, loader: Any) -> None:
    # transformers draws its bar of dequantised tensors whatever its settings say.
    with quiet(), redirect_stderr(io.StringIO()), own_random_state(0):
        loaded = loader.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32)
        state = loaded.state_dict()
        config = loaded.config
        del config.quantization_config
        # A model read from GGUF counts as quantised and refuses to be saved: its weights move into a plain one.
        plain = loader.from_config(config, dtype=torch.float32)
        plain.load_state_dict(state, assign=True)
        plain.tie_weights()  # a head that is the input embedding is one tensor again, and is saved once
        plain.save_pretrained(folder)
        AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name).save_pretrained(folder)
