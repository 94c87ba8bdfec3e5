"""Content hashes of a corpus's texts, by which equal passages of different data sets are known. Imports no torch.

Shapes: N documents.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.cache import cache_folder
from trainers.data_sets.collection import document_text, strings
from trainers.data_sets.stored import stored_folder

Hashes = npt.NDArray[np.uint64]  # [N, 2]: 128 bits, which no two of billions of texts share by chance
_ROWS_AT_ONCE = 16_384
_VERSION = 1


def corpus_hashes(corpus: pa.Table) -> Hashes:
    """BLAKE2b of each document as it is encoded (title and text, no prompt), uint64 [N, 2]."""
    hash_N2 = np.empty((corpus.num_rows, 2), dtype=np.uint64)
    _fill(hash_N2, corpus)
    return hash_N2


def stored_corpus_hashes(entry: DataSet, corpus: pa.Table) -> Hashes:
    """`corpus_hashes` of the corpus that the entry names: computed once, then mapped from the cache folder."""
    file = cache_folder() / "text_hashes" / f"{stored_folder(entry).name}-v{_VERSION}.npy"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            unfinished = Path(folder) / "hashes.npy"
            mapped = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.uint64, shape=(corpus.num_rows, 2))
            _fill(mapped, corpus)
            mapped.flush()
            unfinished.replace(file)
    found: Hashes = np.load(file, mmap_mode="r")
    return found


def texts_of(rows: pa.Table) -> Iterator[str]:
    """The documents of a corpus, or of a slice of one, as they are encoded."""
    return map(document_text, strings(rows["title"]), strings(rows["text"]))


def _fill(hash_N2: Hashes, corpus: pa.Table) -> None:
    for start in range(0, corpus.num_rows, _ROWS_AT_ONCE):
        digests = (
            hashlib.blake2b(text.encode(), digest_size=16).digest()
            for text in texts_of(corpus.slice(start, _ROWS_AT_ONCE))
        )
        hash_N2[start : start + _ROWS_AT_ONCE] = np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)
