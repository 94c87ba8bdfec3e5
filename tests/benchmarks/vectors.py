"""Made-up embeddings in clusters, as a memory-mapped file: what searches are measured on."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

SIZE = 384
_CLUSTERS = 2000
_AT_ONCE = 50_000


def write_vectors(file: Path, num_vectors: int) -> None:
    """Unit vectors [N, SIZE] in float16, around random centres that each have their own direction."""
    rng = np.random.default_rng(0)
    centre_CH = rng.standard_normal((_CLUSTERS, SIZE), dtype=np.float32)
    out_NH = np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=(num_vectors, SIZE))
    for start in range(0, num_vectors, _AT_ONCE):
        num = min(_AT_ONCE, num_vectors - start)
        vectors = rng.standard_normal((num, SIZE), dtype=np.float32)
        vectors += 0.7 * centre_CH[rng.integers(0, _CLUSTERS, num)]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        out_NH[start : start + num] = vectors
    out_NH.flush()


def queries(vector_NH: npt.NDArray[np.float16], num_queries: int) -> npt.NDArray[np.float32]:
    """Queries [Q, SIZE] near some of the vectors."""
    rng = np.random.default_rng(1)
    chosen = np.sort(rng.choice(len(vector_NH), num_queries, replace=False))
    near = vector_NH[chosen].astype(np.float32) + 0.04 * rng.standard_normal((num_queries, SIZE))
    return near.astype(np.float32)
