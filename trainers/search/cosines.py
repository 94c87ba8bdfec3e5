"""Approximate cosines of all queries with a tile's documents, and a bound on their error: what proposes candidates.

Half precision is twice as fast as float32 where the processor multiplies it, and its error is bounded like that of
float32: whoever takes every pair that the bound cannot rule out, and scores it exactly, loses no result.

Shapes: Q queries, G of a group, T documents of a tile, N any vectors, X any, H embedding size.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.search.tiling import Device, Tiling

_UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
_SMALLEST_STEP = {
    torch.float32: 0.0,
    torch.bfloat16: 0.0,
    torch.float16: 2.0**-24,
}  # below 2^-14 float16 is not relative


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Where candidates are looked for, and in which precision."""

    device: Device
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.device}-{str(self.dtype).removeprefix('torch.')}"


BACKENDS = (
    Backend(device="cpu", dtype=torch.float32),
    Backend(device="cpu", dtype=torch.bfloat16),
    Backend(device="cpu", dtype=torch.float16),
    Backend(device="cuda", dtype=torch.float32),
    Backend(device="cuda", dtype=torch.bfloat16),
    Backend(device="cuda", dtype=torch.float16),
)


def fastest_backend(device_type: str) -> Backend:
    """The fastest way to the same result on torch's 'cpu' or 'cuda': half precision where it is multiplied in it."""
    if device_type == "cuda":
        return Backend(device="cuda", dtype=torch.float16)
    # torch emulates bfloat16 on other processors, at a quarter of the speed of float32.
    multiplies_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return Backend(device="cpu", dtype=torch.bfloat16 if multiplies_bfloat16 else torch.float32)


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Approximate cosines: the true one lies within relative * |value| + absolute of the value.

    Attributes:
        value_GT: of each query with each document, in the backend's precision, on its device.
        relative: the part of the error that grows with the value.
        absolute: the part that does not.
    """

    value_GT: Tensor
    relative: float
    absolute: float

    def upper(self, value_X: Tensor) -> Tensor:
        """The largest that the true cosine can be, float32; never falls as the value rises."""
        value_X = value_X.float()
        return value_X + self.relative * value_X.abs() + self.absolute

    def lower(self, value_X: Tensor) -> Tensor:
        """The smallest that the true cosine can be, float32."""
        value_X = value_X.float()
        return value_X - self.relative * value_X.abs() - self.absolute


class CosineTiles:
    """Approximate cosines of groups of queries with one tile of documents after the other.

    What a tile needs stays allocated: fresh pages for every tile would take a third of the time again.
    """

    def __init__(self, query_QH: Tensor, query_norm_Q: Tensor, backend: Backend, tiling: Tiling) -> None:
        """Take raw queries (float32, float64 norms) and room for the largest tile of `tiling`, in whole pieces."""
        self._backend = backend
        self._query_QH = directions(query_QH, query_norm_Q).to(backend.device)
        self._rounded_QH = self._query_QH.to(backend.dtype)
        self._bound = _error_bound(self._query_QH, self._rounded_QH)
        size, most = query_QH.shape[1], tiling.num_documents
        self._room_TH = torch.empty(most, size, dtype=backend.dtype, device=backend.device)
        self._room_GT = torch.empty(tiling.num_queries * most, dtype=backend.dtype, device=backend.device)
        self._loaded: tuple[Tensor, Tensor] = (query_QH[:0], query_norm_Q[:0])

    def load(self, raw_TH: Tensor, norm_T: Tensor, num_padded: int) -> None:
        """Go on to a tile of raw documents (float32, float64 norms), with zeros up to `num_padded` documents."""
        self._loaded = (raw_TH, norm_T)
        norm_T = _divisors(norm_T).to(self._backend.device)
        torch.div(raw_TH.to(self._backend.device), norm_T[:, None], out=self._room_TH[: len(raw_TH)])
        self._room_TH[len(raw_TH) : num_padded] = 0
        self._document_TH = self._room_TH[:num_padded]

    def of(self, group: slice) -> Cosines:
        """Cosines of some queries with the tile. Valid until the next call."""
        query_GH = self._rounded_QH[group]
        shape = len(query_GH), len(self._document_TH)
        value_GT = self._room_GT[: shape[0] * shape[1]].view(shape)
        with _true_precision():
            torch.mm(query_GH, self._document_TH.T, out=value_GT)
        relative, absolute = self._bound
        return Cosines(value_GT=value_GT, relative=relative, absolute=absolute)

    def precise(self, group: slice) -> Cosines:
        """The same in float32."""
        query_GH = self._query_QH[group]
        document_TH = torch.zeros(self._document_TH.shape, device=query_GH.device)
        raw_TH, norm_T = self._loaded
        document_TH[: len(raw_TH)] = directions(raw_TH, norm_T)
        with _true_precision():
            value_GT = query_GH @ document_TH.T
        relative, absolute = _error_bound(query_GH, query_GH)
        return Cosines(value_GT=value_GT, relative=relative, absolute=absolute)


def directions(vector_NH: Tensor, norm_N: Tensor) -> Tensor:
    """Each vector divided by its norm (float64 [N]), float32 [N, H]; a zero vector stays zero."""
    return vector_NH / _divisors(norm_N)[:, None]


def _divisors(norm_N: Tensor) -> Tensor:
    return torch.where(norm_N > 0, norm_N, 1.0).float()


def _error_bound(query_QH: Tensor, rounded_QH: Tensor) -> tuple[float, float]:
    """(relative, absolute) error of cosines in the precision of the rounded queries, of unit roundoff u.

    |q'.d' - q.d| <= |q' - q| |d'| + |q| |d' - d|, where |d' - d| <= u |d|, and less than half the smallest step for
    each component below the normal range. Sums are float32, whose error in any order is at most H 2^-24 |q| |d|
    (Higham, Accuracy and Stability of Numerical Algorithms, 3.5); four times that where a unit truncates. The last
    rounding is relative to the value. What else rounds (directions, weights, the exact score) is far below 32 * 2^-24.
    """
    dtype, size, float32 = rounded_QH.dtype, query_QH.shape[1], _UNIT_ROUNDOFF[torch.float32]
    if dtype == torch.float32:
        return 0.0, 1.01 * (size + 32) * float32
    roundoff, step = _UNIT_ROUNDOFF[dtype], _SMALLEST_STEP[dtype]
    error_Q = torch.linalg.vector_norm(rounded_QH.float() - query_QH, dim=1)
    of_query = float(error_Q.max()) if len(error_Q) else 0.0
    of_document = roundoff + 0.5 * size**0.5 * step
    return 1.01 * roundoff, 1.01 * (of_query + of_document + 4 * (size + 32) * float32) + step


@contextlib.contextmanager
def _true_precision() -> Iterator[None]:
    """No TensorFloat-32, and no sums in half precision, whatever the rest of the process allows itself."""
    matmul = torch.backends.cuda.matmul
    before = torch.get_float32_matmul_precision()
    allowed = matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction
    torch.set_float32_matmul_precision("highest")
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction = allowed
