"""Embed a batch in chunks and carry the gradient at its embeddings back through them (GradCache, arXiv 2101.06983).

A contrastive loss needs all embeddings of a batch at once, but not all of their graphs: chunks whose graph is not held
run a second time in the backward pass, under the same seed and so the same dropout. The gradient is the plain loss's.

Suffixes: N texts of a batch, C of a chunk, H embedding size.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from trainers.encoders.encoder import Encoder
from trainers.training.chunks import Batch, Chunk

Autocast = Callable[[], AbstractContextManager[None]]


class ChunkedEncoder:
    """Embeds the chunks of one batch at a time, and differentiates them."""

    def __init__(self, encoder: Encoder, autocast: Autocast) -> None:
        self._encoder = encoder
        self._autocast = autocast

    def embed(
        self, batch: Batch, indices: Sequence[int], held: Sequence[bool], seeds: Sequence[int]
    ) -> "EmbeddedChunks":
        """Raw embeddings of the chunks at `indices`.

        For each of them, `held` says whether it keeps its graph, and `seeds` has the seed of its dropout.
        """
        device = next(self._encoder.parameters()).device
        value_NH = torch.zeros(batch.num_texts, self._encoder.hidden_size, device=device)
        chunks = [batch.chunks[index].to(device) for index in indices]
        outputs: list[Tensor | None] = []
        for chunk, seed, keep in zip(chunks, seeds, held, strict=True):
            output_CH = self.run(chunk, seed) if keep else self._run_without_graph(chunk, seed)
            value_NH[chunk.row_C] = output_CH.detach()
            outputs.append(output_CH if keep else None)
        return EmbeddedChunks(value_NH, chunks, seeds, outputs, self.run)

    def run(self, chunk: Chunk, seed: int) -> Tensor:
        """Raw embeddings [C, H] of one chunk on the encoder's device, with their graph."""
        torch.manual_seed(seed)
        # One context for each chunk: under one for all, weights cast to bf16 without a graph would be used again.
        with self._autocast():
            return self._encoder(chunk.input_ids_CT, chunk.attention_mask_CT, chunk.side)

    @torch.no_grad()
    def _run_without_graph(self, chunk: Chunk, seed: int) -> Tensor:
        return self.run(chunk, seed)


class EmbeddedChunks:
    """The embeddings of some of a batch's chunks, with what is needed to differentiate them once.

    `value_NH` is float32 without a graph; rows of chunks that are not among them are 0.
    """

    def __init__(
        self,
        value_NH: Tensor,
        chunks: Sequence[Chunk],
        seeds: Sequence[int],
        outputs: list[Tensor | None],
        run: Callable[[Chunk, int], Tensor],
    ) -> None:
        self.value_NH = value_NH
        self._chunks = chunks
        self._seeds = seeds
        self._outputs = outputs
        self._run = run

    def backward(self, gradient_NH: Tensor) -> None:
        """Add to the weights' gradients what follows from the loss's gradient at the embeddings."""
        # From the last: graphs that are held are the last ones', so their memory is free before other chunks run again.
        # One order whatever is held, since sums of gradients round by their order.
        for i in reversed(range(len(self._chunks))):
            output_CH = self._outputs[i]
            if output_CH is None:
                output_CH = self._run(self._chunks[i], self._seeds[i])
            self._outputs[i] = None
            # Chunk by chunk: bf16 gradients of the weights then add up in float32.
            output_CH.backward(gradient_NH[self._chunks[i].row_C])
            del output_CH
