import numpy as np
import pytest
import torch

from trainers.init_regimes import start_encoder
from trainers.training.chunks import Chunk, make_batch, padded, share_of


def ids_of(lengths):
    return [np.full(length, 7 + i, dtype=np.int32) for i, length in enumerate(lengths)]


@pytest.fixture(params=["shared", "separate"])
def encoder(request, tiny_bert, make_spec):
    return start_encoder(make_spec(tiny_bert, towers=request.param), 0)


def test_every_text_stands_in_one_chunk_with_its_tokens(encoder):
    queries, documents = ids_of([3, 9, 4, 1]), ids_of([30, 2, 8, 8, 40])
    batch = make_batch(encoder, queries, documents, torch.empty(0), chunk_tokens=33)
    seen = {}
    for chunk in batch.chunks:
        assert chunk.num_slots <= 33 or chunk.num_texts == 1
        if encoder.spec.towers == "separate":
            assert {row < 4 for row in chunk.row_C.tolist()} == {chunk.side == "query"}
        for row, ids_T, mask_T in zip(chunk.row_C.tolist(), chunk.input_ids_CT, chunk.attention_mask_CT, strict=True):
            assert (ids_T[mask_T == 0] == encoder.tokenizer.pad_token_id).all()
            seen[row] = ids_T[mask_T == 1].tolist()
    assert seen == {row: ids.tolist() for row, ids in enumerate([*queries, *documents])}
    assert batch.num_texts == 9
    assert batch.num_tokens == 105
    slots = sum(chunk.input_ids_CT.numel() for chunk in batch.chunks)
    assert batch.padding_share == pytest.approx(1 - 105 / slots)


def test_padding_is_the_encoders_own():
    ids, mask = padded(ids_of([2, 5, 3]), 0)
    assert ids.tolist() == [[7, 7, 0, 0, 0], [8, 8, 8, 8, 8], [9, 9, 9, 0, 0]]
    assert mask.sum(dim=1).tolist() == [2, 5, 3]


@pytest.mark.parametrize("num_processes", [1, 2, 3, 7])
def test_each_chunk_is_one_processs_and_the_load_is_even(num_processes):
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 60, size=20)
    chunks = [Chunk("query", torch.zeros(1, n), torch.ones(1, n), torch.zeros(1)) for n in sizes.tolist()]
    shares = [share_of(chunks, rank, num_processes) for rank in range(num_processes)]
    assert sorted(index for share in shares for index in share) == list(range(20))
    loads = [sum(chunks[index].num_slots for index in share) for share in shares]
    assert max(loads) - min(loads) <= max(sizes)


def test_more_processes_than_chunks_leave_some_without_any():
    chunks = [Chunk("query", torch.zeros(1, 4), torch.ones(1, 4), torch.zeros(1))] * 2
    assert [share_of(chunks, rank, 3) for rank in range(3)] == [[0], [1], []]
