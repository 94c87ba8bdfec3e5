"""Whether the weight files of a model folder are there and whole, by their names and headers. Torch-free.

A safetensors file begins with the length of its header (8 bytes, little endian) and the header, a JSON object with the
place of each tensor in what follows (https://github.com/huggingface/safetensors#format).
"""

import json
from pathlib import Path

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_LFS_POINTER = b"version https://git-lfs"
_LENGTH_BYTES = 8


class NoSafetensorsError(ValueError):
    """The folder holds no weights in safetensors, perhaps pickled ones, which are not read."""


class IncompleteError(ValueError):
    """A weight file is missing or was cut off."""


def check_weight_files(folder: Path) -> None:
    """Check the files that a model of this folder is read from.

    Raises:
        NoSafetensorsError: there are none.
        IncompleteError: one is missing or was cut off; the message names it.
    """
    for file in _weight_files(folder):
        if file.is_symlink() and not file.exists():
            raise IncompleteError(f"{file.name} points to {file.readlink()}, which is not there")
        if not file.is_file():
            raise IncompleteError(f"{file.name} is missing, which {INDEX} lists")
        _check_safetensors(file)


def _weight_files(folder: Path) -> list[Path]:
    single, index = folder / SINGLE, folder / INDEX
    if single.is_file() or single.is_symlink():
        return [single]
    if not index.is_file():
        raise NoSafetensorsError(f"{folder} holds neither {SINGLE} nor {INDEX}")
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise IncompleteError(f"{INDEX} is no index of weight files ({error})") from error
    return [folder / name for name in names]


def _check_safetensors(file: Path) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(len(_LFS_POINTER))
        if start == _LFS_POINTER:
            raise IncompleteError(f"{file.name} is not the weights, but Git LFS's pointer to them")
        header_size = int.from_bytes(start[:_LENGTH_BYTES], "little")
        stream.seek(_LENGTH_BYTES)
        header = stream.read(header_size) if len(start) >= _LENGTH_BYTES and header_size < size else b""
    try:
        tensors = json.loads(header)
        ends = [tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__"]
    except (ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise IncompleteError(f"{file.name} is no safetensors file, or was cut off in its header") from error
    expected = _LENGTH_BYTES + header_size + max(ends, default=0)
    if size != expected:
        raise IncompleteError(f"{file.name} has {size} bytes, and its header says {expected}")
