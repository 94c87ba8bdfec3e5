"""Texts to raw embeddings: sorted by length, in batches of a token budget. Nothing is normalised here.

Shapes: N texts, B of a batch, T tokens, H embedding size.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from search_spaces.specs import Precision
from trainers.encoder import Encoder, Side

# Pads counted. Between 512 and 16,384 a core encodes equally fast, and memory grows with it.
BATCH_TOKENS = 4096
Progress = Callable[[int], None]


def encode(
    encoder: Encoder,
    texts: Sequence[str],
    side: Side,
    *,
    precision: Precision = "fp32",
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> npt.NDArray[np.float32]:
    """Raw embeddings of the texts, float32 [N, H], in their order, dropout off.

    Batches depend on the texts and the budget alone: the same call gives the same bits on equal threads and device.

    Args:
        encoder: on the device that computes.
        texts: without prompts, which the encoder adds.
        side: 'query' or 'document'.
        precision: 'bf16' runs the backbone under autocast.
        batch_tokens: tokens of a batch, pads counted; a longer text is a batch of its own.
        progress: told after each batch how many more texts are done.

    Raises:
        ValueError: the budget is not positive.
    """
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}; it must be at least 1")
    ids = encoder.tokenise(texts, side)
    embedding_NH = np.empty((len(texts), encoder.hidden_size), dtype=np.float32)
    device = next(encoder.parameters()).device
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode(), autocast:
            for index_B in batches_by_length([len(text_ids) for text_ids in ids], batch_tokens):
                input_ids_BT, mask_BT = encoder.pad([ids[index] for index in index_B.tolist()])
                embedding_NH[index_B] = encoder(input_ids_BT.to(device), mask_BT.to(device)).float().cpu().numpy()
                if progress:
                    progress(len(index_B))
    finally:
        encoder.train(was_training)
    return embedding_NH


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of texts in batches, longest first, so that memory does not run out late; equal lengths keep their order.

    The longest text of a batch times its size stays within the budget, unless it is alone.
    """
    longest_first = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(longest_first):
        size = max(1, batch_tokens // max(1, lengths[longest_first[start]]))
        yield longest_first[start : start + size]
        start += size
