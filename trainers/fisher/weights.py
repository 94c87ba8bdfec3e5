"""Fisher information of an encoder's own weights, by products with vectors alone.

F = 1/Q sum_i J_i^T (diag(p_i) - p_i p_i^T) J_i with J_i = dz_i / dweights, over all weights or those of the last k
layers. A product F v goes through the embeddings, between which and the logits derivatives have a closed form:

1. each text's embedding and its derivative along v, by forward mode (`torch.func.jvp`), some texts at a time;
2. derivatives of the logits, the loss's metric on them, and back to one cotangent for each embedding;
3. cotangents back to the weights (`torch.autograd.grad`), over the graphs of step 1's texts.

Several vectors share the forward pass of 1 and its graph in 3. The graphs of one chunk of texts are held at a time.
Layers below those whose weights are parameters run once for each chunk; what they gave is kept.

There is no kappa of this block: F has far fewer non-zero eigenvalues than weights, so that its smallest one says
nothing, and the shared subspace, which lies in the space of embeddings, has no counterpart in that of weights.

Shapes: K vectors, N weights, B texts of a chunk, T tokens, Q queries, D documents, H embedding size.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

from trainers.encoders.encode import batches_by_length
from trainers.encoders.encoder import Encoder, Side, Tower
from trainers.fisher.head import covariance_product
from trainers.fisher.information import Point, Pool, log_probabilities, norms, observed_labels
from trainers.fisher.lanczos import LanczosSpectrum, Quadrature, lanczos_spectrum, quadrature, signs
from trainers.fisher.sizes import WEIGHTS_STEPS, WEIGHTS_VECTORS

CHUNK_TOKENS = 2048  # graphs of MiniLM's 6 layers: some 0.7 GiB
VECTOR_BYTES = 1 << 30  # of start vectors, and as much again of images and of earlier ones


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Token ids of one side's texts of a pool, each in its slot."""

    side: Side
    ids: Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class TextPool:
    """A pool before it is encoded; documents and mask as in `Pool`."""

    query: Texts
    document: Texts
    document_D: Tensor
    masked_QD: Tensor


class WeightsFisher:
    """F of some weights of an encoder, as an operator on vectors [K, N]. Attention becomes the eager one, in place.

    Vectors are laid out as the weights one after the other, in the encoder's order, of their dtype.
    """

    def __init__(
        self,
        encoder: Encoder,
        pools: Sequence[TextPool],
        point: Point,
        *,
        layers: int | None = None,
        observed: bool = False,
        chunk_tokens: int = CHUNK_TOKENS,
    ) -> None:
        """Raise ValueError where the encoder has fewer layers.

        Args:
            encoder: of which dropout is off from now on.
            pools: over whose queries F is the mean.
            point: the similarity.
            layers: the last ones, whose weights are parameters; None: all weights of the encoder.
            observed: the empirical Fisher information, of the observed labels.
            chunk_tokens: whose graphs are held at a time, pads counted.
        """
        encoder.eval()
        encoder.use_eager_attention()
        self._encoder, self._pools, self._point, self._observed = encoder, pools, point, observed
        self._chunk_tokens = chunk_tokens
        self.weights = weights_of(encoder, layers)
        # Detached, they keep no graph below the layers whose weights are parameters.
        named = encoder.named_parameters()
        self._fixed = {name: weight.detach() for name, weight in named if name not in self.weights}
        self.num_parameters = sum(weight.numel() for weight in self.weights.values())
        self._below = {tower: _layers_below(encoder, tower, layers) for tower in encoder.towers}
        self._states: dict[tuple[int, int], Any] = {}  # what the last of those gave, by texts and chunk
        self._num_queries = sum(len(pool.masked_QD) for pool in pools)

    def __call__(self, vector_KN: Tensor) -> Tensor:
        """F times each vector [K, N]."""
        total_KN = torch.zeros_like(vector_KN)
        for pool in self._pools:
            sides = [self._derivatives(texts, vector_KN) for texts in (pool.query, pool.document)]
            cotangents = self._cotangents(pool, sides)
            for texts, cotangent_KBH in zip((pool.query, pool.document), cotangents, strict=True):
                self._add_pulled_back(total_KN, texts, cotangent_KBH)
        return total_KN.div_(self._num_queries)

    def _derivatives(self, texts: Texts, vector_KN: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings [B, H] and their derivatives along each vector [K, B, H], of a side's texts."""
        size = self._encoder.hidden_size
        dtype = next(iter(self.weights.values())).dtype
        value_BH = torch.empty(len(texts.ids), size, dtype=dtype)
        tangent_KBH = torch.empty(len(vector_KN), len(texts.ids), size, dtype=dtype)
        tangents = self._split(vector_KN)
        frozen = {name: weight.detach() for name, weight in self.weights.items()}
        for number, (index_B, inputs) in enumerate(self._chunks(texts)):
            with self._known_below(texts, number, inputs):
                found_BH, found_KBH = _jvp(self._encoder, (*inputs, texts.side), frozen, tangents)
            value_BH[index_B], tangent_KBH[:, index_B] = found_BH.cpu(), found_KBH.cpu()
        return value_BH, tangent_KBH

    def _cotangents(self, pool: TextPool, sides: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """What each embedding gets of J^T M J v, for queries [K, Q, H] and documents [K, D, H], float64."""
        (query_QH, query_KQH), (document_DH, document_KDH) = ((v.double(), t.double()) for v, t in sides)
        embedded = Pool(
            query_QH=query_QH, document_DH=document_DH, document_D=pool.document_D, masked_QD=pool.masked_QD
        )
        p_QD = log_probabilities(embedded, self._point).exp()
        label_QD = observed_labels(embedded) if self._observed else p_QD
        query, document = (
            _Normalised(x, gamma) for x, gamma in ((query_QH, self._point.gamma_q), (document_DH, self._point.gamma_d))
        )
        along_KQD = query.along(query_KQH) @ document.values.T + query.values @ document.along(document_KDH).transpose(
            1, 2
        )
        metric_KQD = self._point.scale**2 * covariance_product(along_KQD, p_QD, label_QD)
        return query.back(metric_KQD @ document.values), document.back(metric_KQD.transpose(1, 2) @ query.values)

    def _add_pulled_back(self, total_KN: Tensor, texts: Texts, cotangent_KBH: Tensor) -> None:
        weights = list(self.weights.values())
        for number, (index_B, inputs) in enumerate(self._chunks(texts)):
            with torch.enable_grad(), self._known_below(texts, number, inputs):
                value_BH = functional_call(self._encoder, self._fixed, (*inputs, texts.side))
            found = torch.autograd.grad(
                value_BH,
                weights,
                cotangent_KBH[:, index_B].to(value_BH),
                is_grads_batched=True,
                allow_unused=True,  # weights of the other side's tower
            )
            start = 0
            for weight, gradient in zip(weights, found, strict=True):
                stop = start + weight.numel()
                if gradient is not None:
                    total_KN[:, start:stop] += gradient.flatten(1)
                start = stop

    @contextmanager
    def _known_below(self, texts: Texts, number: int, inputs: tuple[Tensor, Tensor]) -> Iterator[None]:
        """Within, layers without parameters give what the last of them gave the first time, instead of computing it."""
        below = self._below[self._encoder.tower_of(texts.side)]
        if not below:
            yield
            return
        key = (id(texts), number)
        if key not in self._states:
            self._states[key] = _output_of(below[-1], self._encoder, (*inputs, texts.side))
        known = self._states[key]
        for layer in below:
            layer.forward = lambda *args, **kwargs: known
        try:
            yield
        finally:
            for layer in below:
                del layer.forward  # the class's own again

    def _chunks(self, texts: Texts) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor]]]:
        """Indices of some texts, and their token ids and mask on the device."""
        device = next(self._encoder.parameters()).device
        for index_B in batches_by_length([len(ids) for ids in texts.ids], self._chunk_tokens):
            ids_BT, mask_BT = self._encoder.pad([texts.ids[index] for index in index_B.tolist()])
            yield torch.from_numpy(index_B), (ids_BT.to(device), mask_BT.to(device))

    def _split(self, vector_KN: Tensor) -> dict[str, Tensor]:
        parts = vector_KN.split([weight.numel() for weight in self.weights.values()], dim=1)
        return {
            name: part.view(-1, *weight.shape) for (name, weight), part in zip(self.weights.items(), parts, strict=True)
        }


@torch.no_grad()
def _output_of(layer: nn.Module, encoder: Encoder, inputs: tuple[Any, ...]) -> Any:
    """What a layer gives when the encoder embeds these inputs."""
    found: list[Any] = []
    handle = layer.register_forward_hook(lambda module, given, output: found.append(output))
    try:
        encoder(*inputs)
    finally:
        handle.remove()
    return found[0]


def _jvp(
    encoder: Encoder, inputs: tuple[Any, ...], weights: dict[str, Tensor], tangents: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Embeddings [B, H], computed once, and their derivatives along each of the K tangents [K, B, H]."""

    def embed(values: dict[str, Tensor]) -> Tensor:
        return functional_call(encoder, values, inputs)

    def along(tangent: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        value_BH, tangent_BH = jvp(embed, (weights,), (tangent,))[:2]
        return value_BH, tangent_BH

    with torch.no_grad():
        found: tuple[Tensor, Tensor] = torch.vmap(along, out_dims=(None, 0))(tangents)  # type: ignore[arg-type]
    return found


class _Normalised:
    """x / |x|^gamma of each row [N, H], its derivative along directions [K, N, H], and the derivative's transpose."""

    def __init__(self, vectors_NH: Tensor, gamma: float) -> None:
        norm_N1 = norms(vectors_NH)
        self._unit_NH, self._gamma, self._divisor_N1 = vectors_NH / norm_N1, gamma, norm_N1**gamma
        self.values = vectors_NH / self._divisor_N1

    def along(self, tangent_KNH: Tensor) -> Tensor:
        radial_KN1 = (tangent_KNH * self._unit_NH).sum(dim=2, keepdim=True)
        return (tangent_KNH - self._gamma * radial_KN1 * self._unit_NH) / self._divisor_N1

    back = along  # the derivative is symmetric


def weights_of(encoder: Encoder, layers: int | None) -> dict[str, nn.Parameter]:
    """The weights that are parameters, by name: those of the last layers of each tower, or all that are trained.

    Raises:
        ValueError: the encoder has fewer layers, or none that are known as such.
    """
    trained = {name: weight for name, weight in encoder.named_parameters() if weight.requires_grad}
    if layers is None:
        return trained
    inside = {
        f"backbones.{tower}.{name}.{index}.{weight}"
        for tower in encoder.towers
        for name, stack in [_stack(encoder.backbones[tower], layers)]
        for index in range(len(stack) - layers, len(stack))
        for weight, _ in stack[index].named_parameters()
    }
    return {name: weight for name, weight in trained.items() if name in inside}


def _layers_below(encoder: Encoder, tower: Tower, layers: int | None) -> list[Any]:
    """The layers of a tower below its last ones; none where all weights are parameters."""
    if layers is None:
        return []
    _, stack = _stack(encoder.backbones[tower], layers)
    return list(stack[: len(stack) - layers])


def _stack(backbone: Any, layers: int) -> tuple[str, nn.ModuleList]:
    """The name and the modules of a backbone's layers, of which there are at least so many."""
    number: int = backbone.config.num_hidden_layers
    stacks = [(n, m) for n, m in backbone.named_modules() if isinstance(m, nn.ModuleList) and len(m) == number]
    if not stacks or layers > number:
        raise ValueError(f"the Fisher information of the last {layers} layers was asked for, and there are {number}")
    return stacks[0]


def weights_spectrum(
    fisher: WeightsFisher, *, num_vectors: int = WEIGHTS_VECTORS, num_steps: int = WEIGHTS_STEPS, seed: int = 0
) -> LanczosSpectrum:
    """Largest eigenvalue, trace, effective rank and density of block `weights`.

    Start vectors go in groups that VECTOR_BYTES hold, each from its own draw, so that memory stays bounded; how they
    are grouped depends on the number of weights alone.
    """
    dtype = next(iter(fisher.weights.values())).dtype
    at_once = max(1, min(num_vectors, VECTOR_BYTES // (fisher.num_parameters * dtype.itemsize * 4)))
    device = next(iter(fisher.weights.values())).device
    found = []
    for first in range(0, num_vectors, at_once):
        drawn = [
            signs(1, fisher.num_parameters, seed + k, dtype) for k in range(first, min(first + at_once, num_vectors))
        ]
        found.append(quadrature(fisher, torch.cat(drawn).to(device), num_steps))
    return lanczos_spectrum(
        Quadrature(
            value_KM=torch.cat([one.value_KM.cpu() for one in found]),
            weight_KM=torch.cat([one.weight_KM.cpu() for one in found]),
            num_parameters=fisher.num_parameters,
        )
    )
