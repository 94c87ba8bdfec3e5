"""Texts to raw embeddings: sorted by length, in batches of a token budget. Nothing is normalised here.

Shapes: N texts, B of a batch, T tokens, H embedding size.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from search_spaces.specs import Precision
from trainers.arrays import FloatMatrix
from trainers.encoders.encoder import Encoder, Side

# Tokens of a batch, pads counted. On a core, calls for few tokens cost more than they compute, and of many more tokens
# the states of a layer are beyond 32 MB, which glibc maps anew each time; an accelerator is slow unless it is full.
BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}
# Most languages have fewer characters to a token, so that this much of a text nearly always fills the maximum length.
_CHARACTERS_PER_TOKEN = 8
Progress = Callable[[int], None]
Item = TypeVar("Item")
_END = object()


def encode(
    encoder: Encoder,
    texts: Sequence[str],
    side: Side,
    *,
    precision: Precision = "fp32",
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> FloatMatrix:
    """Raw embeddings of the texts, float32 [N, H], in their order, dropout off.

    Batches depend on the texts and the budget alone: the same call gives the same bits on equal threads and device.

    Args:
        encoder: on the device that computes.
        texts: without prompts, which the encoder adds.
        side: 'query' or 'document': its prompt, its length, its tower.
        precision: 'bf16' runs the backbone under autocast.
        batch_tokens: tokens of a batch, pads counted, by default BATCH_TOKENS; a longer text is a batch of its own.
        progress: told after each batch how many more texts are done, as their share of the tokens has it: long texts
            come first, and so the speed in texts is an even one.

    Raises:
        ValueError: the budget is not positive.
    """
    return next(
        encode_shards(encoder, [texts], side, precision=precision, batch_tokens=batch_tokens, progress=progress)
    )


def encode_shards(
    encoder: Encoder,
    shards: Iterable[Sequence[str]],
    side: Side,
    *,
    precision: Precision = "fp32",
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Iterator[FloatMatrix]:
    """What `encode` gives for each shard of texts, one after the other; takes and raises what it does.

    Where an accelerator computes, the next shard is read and tokenised meanwhile; a CPU has no time to spare.
    """
    device = next(encoder.parameters()).device
    batch_tokens = BATCH_TOKENS[device.type] if batch_tokens is None else batch_tokens
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}; it must be at least 1")
    tokenised = (token_ids(encoder, texts, side) for texts in shards)
    for ids in tokenised if device.type == "cpu" else one_ahead(tokenised):
        yield _encode_tokens(encoder, ids, side, precision, batch_tokens, progress)


def _encode_tokens(
    encoder: Encoder,
    ids: Sequence[Sequence[int]],
    side: Side,
    precision: Precision,
    batch_tokens: int,
    progress: Progress | None,
) -> FloatMatrix:
    device = next(encoder.parameters()).device
    lengths = [len(text_ids) for text_ids in ids]
    report = _by_tokens(progress, len(ids), sum(lengths))
    embedding_NH = np.empty((len(ids), encoder.hidden_size), dtype=np.float32)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
    was_training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode(), autocast:
            for index_B in batches_by_length(lengths, batch_tokens):
                input_ids_BT, mask_BT = encoder.pad([ids[index] for index in index_B.tolist()])
                embedding_BH = encoder(input_ids_BT.to(device), mask_BT.to(device), side)
                embedding_NH[index_B] = embedding_BH.float().cpu().numpy()
                report(sum(lengths[index] for index in index_B.tolist()))
    finally:
        encoder.train(was_training)
    return embedding_NH


def _by_tokens(progress: Progress | None, num_texts: int, num_tokens: int) -> Progress:
    """Takes tokens that are done, and tells of as many texts, all of them at the end."""
    told = done = 0

    def report(more_tokens: int) -> None:
        nonlocal told, done
        done += more_tokens
        texts = done * num_texts // num_tokens
        if progress and texts > told:
            progress(texts - told)
        told = texts

    return report


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each made in a thread while the caller is busy with the one before."""
    rest = iter(items)
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming = thread.submit(next, rest, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, rest, _END)
            yield cast(Item, item)


def token_ids(encoder: Encoder, texts: Sequence[str], side: Side) -> list[list[int]]:
    """What `encoder.tokenise` gives, without tokenising most of what it then cuts off."""
    return counted_token_ids(encoder, texts, side)[0]


def counted_token_ids(encoder: Encoder, texts: Sequence[str], side: Side) -> tuple[list[list[int]], int]:
    """What `encoder.tokenise` gives, and how many of the texts are longer than the side's maximum length.

    The tokens of whole words do not depend on what follows them. So where the beginning of a text is longer already,
    the text is, and its ids are known; where it is not, the whole text is tokenised.
    """
    beginnings = [beginning(text, encoder.max_length(side) * _CHARACTERS_PER_TOKEN) for text in texts]
    found = encoder.encodings(beginnings, side)
    fitting = [i for i, text in enumerate(texts) if len(beginnings[i]) < len(text) and not found[i].overflowing]
    whole = encoder.encodings([texts[i] for i in fitting], side)
    for i, encoding in zip(fitting, whole, strict=True):
        found[i] = encoding
    # A text without any token is one pad, as in `tokenise`.
    ids = [encoding.ids or [encoder.tokenizer.pad_token_id] for encoding in found]
    return ids, sum(bool(encoding.overflowing) for encoding in found)


def beginning(text: str, num_characters: int) -> str:
    """The text's first words, at most `num_characters`; all of it where less than half of that would be left."""
    if len(text) <= num_characters:
        return text
    words = text[:num_characters].rsplit(maxsplit=1)  # the last word may have been cut, so it goes
    cut = words[0] if len(words) > 1 else ""
    return cut if 2 * len(cut) >= num_characters else text


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
