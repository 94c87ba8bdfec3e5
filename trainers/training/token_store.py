"""Token ids of many texts: computed once, kept in the cache folder, mapped into memory by every trial of a machine.

Shapes: N texts, T token ids of all of them one after the other.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from trainers.cache import cache_folder
from trainers.encoders.encode import counted_token_ids
from trainers.encoders.encoder import Encoder, Side

_LAYOUT_VERSION = 1
_TEXTS_AT_ONCE = 4096  # bounds what stands as Python objects
_IDS, _OFFSETS, _RECORD = "ids.bin", "offsets.bin", "record.json"
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenisedTexts:
    """Token ids of N texts of one side, as `Encoder.tokenise` gives them.

    Attributes:
        flat_ids_T: ids of all texts, uint16 where the vocabulary allows it, else int32; a mapped file or memory.
        offsets: int64 [N + 1], where each text begins in `flat_ids_T`.
        lengths: int32 [N], tokens of each text, special ones and prompt counted.
        num_truncated: how many texts are longer than the side's maximum length, and so were cut.
        folder: where they are stored; None where they could not be, and are in this process's memory.
    """

    flat_ids_T: Ids
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    num_truncated: int
    folder: Path | None

    def __len__(self) -> int:
        """The number of texts N."""
        return len(self.lengths)

    def ids(self, index: int) -> npt.NDArray[np.int32]:
        """Token ids of one text, int32."""
        return self.flat_ids_T[self.offsets[index] : self.offsets[index + 1]].astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What is stored, written last."""

    num_texts: int
    num_ids: int
    dtype: str
    num_truncated: int


_RECORDS = TypeAdapter(_Record)


def tokenised(encoder: Encoder, texts: Sequence[str], side: Side) -> TokenisedTexts:
    """Token ids of the texts of a side: from the cache folder, else computed and stored there.

    Processes that ask at once for the same wait for the one that computes them. Where the cache folder cannot be
    written, the ids stay in memory, with a warning.
    """
    key = _key(encoder, texts, side)
    folder = cache_folder() / "tokens" / key
    try:
        found = _opened(folder, len(texts))
        if found is None:
            with _locked(folder.with_name(f"{key}.lock")):
                found = _opened(folder, len(texts))  # another process may have stored it while this one waited
                if found is None:
                    _store(folder, encoder, texts, side)
                    found = _opened(folder, len(texts))
                    assert found is not None, f"{folder} was written just now"
    except OSError as error:
        message = (
            f"token ids of {len(texts):,} texts are kept in memory, since {folder.parent} cannot be used "
            f"({error.strerror or error}); set DENSESWEEP_CACHE to a folder with room"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return _in_memory(encoder, texts, side)
    return found


def _key(encoder: Encoder, texts: Sequence[str], side: Side) -> str:
    """A hash of all that decides the ids."""
    digest = hashlib.sha256()
    prompt = encoder.prompt(side)
    versions = [f"{name} {version(name)}" for name in ("transformers", "tokenizers")]
    settings = [_LAYOUT_VERSION, *versions, prompt, encoder.max_length(side), encoder.tokenizer.pad_token_id]
    digest.update(json.dumps(settings).encode())
    digest.update(_tokenizer_text(encoder.tokenizer).encode())
    for block in _blocks(texts):
        for text in block:
            data = text.encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.hexdigest()[:32]


def _tokenizer_text(tokenizer: Any) -> str:
    """The tokenizer with its template of special tokens (EOS), but not the cutting and padding of its last call."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    text: str = backend.to_str()
    return f"{type(tokenizer).__name__} {getattr(tokenizer, 'split_special_tokens', False)} {text}"


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        yield texts[start : start + _TEXTS_AT_ONCE]


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Wait for the lock and hold it. The system takes it from a process that dies, so nobody waits for the dead."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _opened(folder: Path, num_texts: int) -> TokenisedTexts | None:
    """What is stored in a folder; None where nothing is, or not what its record says."""
    try:
        record = _RECORDS.validate_json((folder / _RECORD).read_bytes())
        ids_T = _mapped(folder / _IDS, np.dtype(record.dtype), record.num_ids)
        offsets = _mapped(folder / _OFFSETS, np.dtype(np.int64), num_texts + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    lengths = np.diff(offsets)
    if record.num_texts != num_texts or offsets[0] != 0 or offsets[-1] != record.num_ids or (lengths < 1).any():
        return None
    return TokenisedTexts(
        flat_ids_T=ids_T,
        offsets=offsets,
        lengths=lengths.astype(np.int32),
        num_truncated=record.num_truncated,
        folder=folder,
    )


def _mapped(file: Path, dtype: np.dtype[Any], size: int) -> npt.NDArray[Any]:
    """A file as an array; ValueError where its size is another."""
    if file.stat().st_size != size * dtype.itemsize:
        raise ValueError(f"{file} does not hold {size} numbers of {dtype}")
    return np.memmap(file, dtype=dtype, mode="r") if size else np.empty(0, dtype=dtype)  # none can be mapped


def _store(folder: Path, encoder: Encoder, texts: Sequence[str], side: Side) -> None:
    """Write a folder whole or not at all. Who calls holds the lock, so what lies there unfinished is of the dead."""
    building = folder.with_name(f"{folder.name}.building")
    for left_over in (building, folder):  # a folder that did not open is damaged
        shutil.rmtree(left_over, ignore_errors=True)
    building.mkdir()
    try:
        _write(building, encoder, texts, side)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _write(folder: Path, encoder: Encoder, texts: Sequence[str], side: Side) -> None:
    lengths, num_truncated = [np.zeros(0, dtype=np.int32)], 0
    # Written, not mapped: a full disk is then an OSError, and no bus error.
    with _kept(folder / _IDS) as file:
        for block in _tokenised_blocks(encoder, texts, side):
            file.write(block.flat_ids_T.tobytes())
            lengths.append(block.lengths)
            num_truncated += block.num_truncated
    offsets = _offsets(np.concatenate(lengths))
    with _kept(folder / _OFFSETS) as file:
        file.write(offsets.tobytes())
    record = _Record(
        num_texts=len(texts), num_ids=int(offsets[-1]), dtype=_dtype(encoder).name, num_truncated=num_truncated
    )
    with _kept(folder / _RECORD) as file:
        file.write(json.dumps(asdict(record)).encode())


@contextlib.contextmanager
def _kept(file: Path) -> Iterator[BinaryIO]:
    """A file to write that is on the disk when it is closed, so that no published folder is empty after a power cut."""
    with file.open("wb") as opened:
        yield opened
        opened.flush()
        os.fsync(opened.fileno())


def _offsets(lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def _in_memory(encoder: Encoder, texts: Sequence[str], side: Side) -> TokenisedTexts:
    blocks = list(_tokenised_blocks(encoder, texts, side))
    lengths = np.concatenate([np.zeros(0, dtype=np.int32), *(block.lengths for block in blocks)])
    return TokenisedTexts(
        flat_ids_T=np.concatenate([np.zeros(0, dtype=_dtype(encoder)), *(block.flat_ids_T for block in blocks)]),
        offsets=_offsets(lengths),
        lengths=lengths,
        num_truncated=sum(block.num_truncated for block in blocks),
        folder=None,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Block:
    """The same as in TokenisedTexts, of some thousand texts."""

    flat_ids_T: Ids
    lengths: npt.NDArray[np.int32]
    num_truncated: int


def _tokenised_blocks(encoder: Encoder, texts: Sequence[str], side: Side) -> Iterator[_Block]:
    for block in _blocks(texts):
        ids, num_truncated = counted_token_ids(encoder, block, side)
        yield _Block(
            flat_ids_T=np.concatenate([np.asarray(text_ids, dtype=_dtype(encoder)) for text_ids in ids]),
            lengths=np.asarray([len(text_ids) for text_ids in ids], dtype=np.int32),
            num_truncated=num_truncated,
        )


def _dtype(encoder: Encoder) -> np.dtype[Any]:
    highest = max(len(encoder.tokenizer) - 1, encoder.tokenizer.pad_token_id)
    return np.dtype(np.uint16 if highest < 2**16 else np.int32)
