"""Whether the weight files of a model folder are there and whole, by their names and headers. Torch-free.

A safetensors file begins with the length of its header (8 bytes, little endian) and the header, a JSON object with the
place of each tensor in what follows (https://github.com/huggingface/safetensors#format).
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_LFS_POINTER = b"version https://git-lfs"
_LENGTH_BYTES = 8
_BITS = {8: ("BOOL", "U8", "I8"), 16: ("U16", "I16", "F16", "BF16"), 32: ("U32", "I32", "F32")}
_BITS |= {64: ("U64", "I64", "F64", "C64"), 4: ("F4",), 6: ("F6_E2M3", "F6_E3M2")}
_BITS_OF = {dtype: bits for bits, dtypes in _BITS.items() for dtype in dtypes}


class NoSafetensorsError(ValueError):
    """The folder holds no weights in safetensors, perhaps pickled ones, which are not read."""


class IncompleteError(ValueError):
    """A weight file is missing, was cut off or is damaged."""


def check_weight_files(folder: Path) -> None:
    """Check the files that a model of this folder is read from.

    Raises:
        NoSafetensorsError: there are none.
        IncompleteError: one is missing, was cut off or has a header that cannot be; the message names it.
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
        tensors.pop("__metadata__", None)
        places = sorted(tuple(tensor["data_offsets"]) for tensor in tensors.values())
        ends = [end for _, end in places]
        expected = _LENGTH_BYTES + header_size + max(ends, default=0)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise IncompleteError(f"{file.name} is no safetensors file, or was cut off in its header") from error
    if size != expected:
        raise IncompleteError(f"{file.name} has {size} bytes, and its header says {expected}")
    if any(end != start for (_, end), (start, _) in pairwise([(0, 0), *places])):
        raise IncompleteError(f"{file.name} is damaged: by its header, tensors overlap or leave gaps")
    for name, tensor in tensors.items():
        if fault := _tensor_fault(tensor):
            raise IncompleteError(f"{file.name} is damaged: by its header, {name} {fault}")


def _tensor_fault(tensor: Mapping[str, Any]) -> str | None:
    """What cannot be of a tensor in a header, or None."""
    dtype, shape, (start, end) = tensor.get("dtype"), tensor.get("shape"), tensor["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        return f"has type {dtype!r} and shape {shape!r}"
    bits = 8 if dtype.startswith("F8_") else _BITS_OF.get(dtype)
    if bits is None:
        return f"is of a number type that safetensors has not, '{dtype}'"
    return None if prod(shape) * bits == 8 * (end - start) else f"has {end - start} bytes for {shape} of {dtype}"
