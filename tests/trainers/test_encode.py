"""Encoding: the batch a text is in changes nothing but the last digits, and the same call gives the same bits."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from trainers.encoders.checkpoints import save_checkpoint
from trainers.encoders.encode import batches_by_length, beginning, encode, encode_shards, one_ahead, token_ids
from trainers.init_regimes import start_encoder

WORDS = ["scheduled", "tasks", "run", "a", "script", "at", "logon", "and", "base64", "encodes", "all", "traffic"]


def make_texts(num: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 70))) for _ in range(num)]


def test_each_text_is_encoded_as_if_alone_and_stands_in_its_place(any_spec) -> None:
    encoder = start_encoder(any_spec, None)
    texts = [*make_texts(30), "", "one"]
    together = encode(encoder, texts, "document", batch_tokens=500)
    assert together.shape == (32, encoder.hidden_size)
    assert together.dtype == np.float32
    with torch.inference_mode():
        alone = [encoder(*encoder.pad(encoder.tokenise([text], "document")), "document")[0].numpy() for text in texts]
    scale = np.abs(together).max()
    np.testing.assert_allclose(together, alone, atol=2e-5 * scale, rtol=0)
    assert np.abs(together[0] - together[1]).max() > 1e-2 * scale  # the tolerance tells texts apart


def test_it_is_what_sentence_transformers_gives_for_the_saved_checkpoint(minilm, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = start_encoder(minilm, None)
    save_checkpoint(tmp_path / "checkpoint", encoder, gammas=None, similarity=None, scale=None)
    texts = make_texts(40)
    peer = SentenceTransformer(str(tmp_path / "checkpoint"), device="cpu")
    np.testing.assert_allclose(encode(encoder, texts, "query"), peer.encode(texts), atol=1e-5)


def test_embeddings_are_raw(minilm) -> None:
    norms = np.linalg.norm(encode(start_encoder(minilm, None), make_texts(50), "document"), axis=1)
    assert norms.std() > 0.01 * norms.mean()
    assert not np.allclose(norms, 1, atol=0.1)


def test_the_same_call_gives_the_same_bits(minilm) -> None:
    texts = make_texts(60)
    first, second = (encode(start_encoder(minilm, None), texts, "document", batch_tokens=700) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_each_side_has_its_prompt_and_length(make_spec, tiny_bert) -> None:
    spec = make_spec(tiny_bert, query_prompt="query: ", document_prompt="")
    encoder = start_encoder(spec, None)
    query, document = (encode(encoder, ["valid accounts"], side) for side in ("query", "document"))
    assert not np.allclose(query, document, atol=1e-3)
    np.testing.assert_allclose(query, encode(encoder, ["query: valid accounts"], "document"), atol=1e-6)


def test_dropout_is_off_and_the_mode_is_left_as_it_was(make_spec, tiny_bert) -> None:
    encoder = start_encoder(make_spec(tiny_bert), None).train()
    texts = make_texts(5)
    first = encode(encoder, texts, "document")
    assert encoder.training
    np.testing.assert_array_equal(first, encode(encoder, texts, "document"))
    np.testing.assert_array_equal(first, encode(encoder.eval(), texts, "document"))
    assert not encoder.training
    with pytest.raises(IndexError):
        encode(encoder.train(), ["x"], "document", progress=lambda _: [][0])
    assert encoder.training


def test_bf16_is_coarser_and_still_float32_outside(make_spec, tiny_bert) -> None:
    encoder = start_encoder(make_spec(tiny_bert), None)
    texts = make_texts(8)
    fine, coarse = (encode(encoder, texts, "document", precision=precision) for precision in ("fp32", "bf16"))
    assert coarse.dtype == np.float32
    difference = np.abs(fine - coarse).max() / np.abs(fine).max()
    assert 1e-4 < difference < 0.05


def test_progress_counts_every_text_once(make_spec, tiny_bert) -> None:
    done: list[int] = []
    encode(
        start_encoder(make_spec(tiny_bert), None), make_texts(33), "document", batch_tokens=200, progress=done.append
    )
    assert sum(done) == 33
    assert len(done) > 5


def test_progress_goes_by_tokens_so_that_the_speed_in_texts_is_even(make_spec, tiny_bert) -> None:
    encoder = start_encoder(make_spec(tiny_bert), None)
    done: list[int] = []
    texts = ["at logon " * 25] * 10 + ["at"] * 90
    long_tokens, tokens = (
        sum(len(ids) for ids in token_ids(encoder, some, "document")) for some in (texts[:10], texts)
    )
    encode(encoder, texts, "document", batch_tokens=64, progress=done.append)
    assert sum(done[:10]) == 100 * long_tokens // tokens > 50  # one long text a batch, and they come first
    assert sum(done) == 100


def test_shards_are_encoded_as_if_each_were_alone(make_spec, tiny_bert) -> None:
    encoder, texts = start_encoder(make_spec(tiny_bert), None), make_texts(40)
    shards = [texts[:25], [], texts[25:26], texts[26:]]
    found = list(encode_shards(encoder, iter(shards), "document"))
    for vectors, shard in zip(found, shards, strict=True):
        np.testing.assert_array_equal(vectors, encode(encoder, shard, "document"))


def test_one_item_is_made_ahead_and_no_more() -> None:
    made: list[int] = []
    third = threading.Event()

    def items() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            if number == 2:
                third.set()
            yield number

    found = one_ahead(items())
    assert next(found) == 0
    assert next(found) == 1
    assert third.wait(10)  # while the caller has the second one
    assert made == [0, 1, 2]
    assert list(found) == [2, 3, 4]
    assert list(one_ahead([])) == []


def test_what_goes_wrong_ahead_is_raised_where_the_item_would_be() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("unreadable")

    found = one_ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="unreadable"):
        next(found)


def test_no_texts(make_spec, tiny_bert) -> None:
    assert encode(start_encoder(make_spec(tiny_bert), None), [], "document").shape == (0, 32)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_tokens_of_a_beginning_are_those_of_the_whole_text(any_spec, seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoder = start_encoder(any_spec, None)
    pieces = [
        "malware",
        "encodes",
        "über",
        "é" * 90,
        "字" * 40,
        "x" * 700,
        "1,234.5",
        "don't",
        "->",
        "𝔸",
        "</s>",
        "[SEP]",
    ]
    gaps = [" ", "  ", "\n", "\t\t", "\u00a0", "\u3000", "\x0b", "", "\r\n \r\n", "\u200b", "\x85"]
    lengths = rng.integers(1, 300, 50)
    texts = ["".join(str(rng.choice(s)) for _ in range(length) for s in (pieces, gaps)) for length in lengths]
    texts += ["word " * 1000, "a " * 1000, "x" * 5000, " " * 5000, "\n" * 900 + "late words", "", "s p a c e d " * 99]
    assert token_ids(encoder, texts, "document") == encoder.tokenise(texts, "document")


def test_a_beginning_ends_with_a_word() -> None:
    assert beginning("one two three", 13) == "one two three"
    assert beginning("one two three", 12) == "one two"
    assert beginning("one two three", 8) == "one two three"  # "one" would be too little
    assert beginning("one two three", 6) == "one"
    assert beginning("one two-and-three", 12) == "one two-and-three"  # a cut would leave too little
    assert beginning("onewordonly", 4) == "onewordonly"
    assert beginning("   ", 2) == "   "


@pytest.mark.parametrize("seed", range(10))
def test_batches_keep_the_budget_and_hold_each_text_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 600, rng.integers(1, 300)).tolist()
    batches = list(batches_by_length(lengths, 512))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(b) == 1 or max(lengths[i] for i in b) * len(b) <= 512 for b in batches)
    order = [lengths[i] for b in batches for i in b]
    assert order == sorted(lengths, reverse=True)
    # No batch could have taken the next text too.
    assert all((len(b) + 1) * lengths[b[0]] > 512 for b in batches[:-1])


def test_a_budget_without_tokens_is_refused(make_spec, tiny_bert) -> None:
    with pytest.raises(ValueError, match="batch_tokens is 0"):
        encode(start_encoder(make_spec(tiny_bert), None), ["a"], "document", batch_tokens=0)
