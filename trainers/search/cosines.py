"""Approximate cosines of all queries with a tile's documents, and a bound on their error: what proposes candidates.

Half precision is twice as fast as float32 where the processor multiplies it, and its error is bounded like that of
float32: whoever takes every pair that the bound cannot rule out, and scores it exactly, loses no result.

Shapes: Q queries, G of a group, T documents of a tile, N any vectors, X any, H embedding size.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

_UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
_SMALLEST_STEP = {
    torch.float32: 0.0,
    torch.bfloat16: 0.0,
    torch.float16: 2.0**-24,
}  # below 2^-14 float16 is not relative


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Where candidates are looked for, and in which precision."""

    device: Literal["cpu", "cuda"]
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


def directions(vector_NH: Tensor, norm_N: Tensor) -> Tensor:
    """Each vector divided by its norm (float64 [N]), float32 [N, H]; a zero vector stays zero."""
    return vector_NH / torch.where(norm_N > 0, norm_N, 1.0).float()[:, None]


def cosines(query_GH: Tensor, document_TH: Tensor, dtype: torch.dtype) -> Cosines:
    """Approximate cosines of directions (float32, on the device that computes) in a precision."""
    with _true_precision():
        rounded_GH = query_GH.to(dtype)
        value_GT = rounded_GH @ document_TH.to(dtype).T
    relative, absolute = _error_bound(query_GH, rounded_GH, dtype)
    return Cosines(value_GT=value_GT, relative=relative, absolute=absolute)


def _error_bound(query_GH: Tensor, rounded_GH: Tensor, dtype: torch.dtype) -> tuple[float, float]:
    """(relative, absolute) error of cosines in a precision of unit roundoff u.

    |q'.d' - q.d| <= |q' - q| |d'| + |q| |d' - d|, where |d' - d| <= u |d|, and less than half the smallest step for
    each component below the normal range. Sums are float32, whose error in any order is at most H 2^-24 |q| |d|
    (Higham, Accuracy and Stability of Numerical Algorithms, 3.5); four times that where a unit truncates. The last
    rounding is relative to the value. What else rounds (directions, weights, the exact score) is far below 32 * 2^-24.
    """
    size, float32 = query_GH.shape[1], _UNIT_ROUNDOFF[torch.float32]
    if dtype == torch.float32:
        return 0.0, 1.01 * (size + 32) * float32
    roundoff = _UNIT_ROUNDOFF[dtype]
    of_query = float(torch.linalg.vector_norm(rounded_GH.float() - query_GH, dim=1).max())
    of_document = roundoff + 0.5 * size**0.5 * _SMALLEST_STEP[dtype]
    return 1.01 * roundoff, 1.01 * (of_query + of_document + 4 * (size + 32) * float32) + size * _SMALLEST_STEP[dtype]


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
