"""GradCache against the plain loss, dropout on: the same chunks with all graphs held and differentiated at once."""

import contextlib

import pytest
import torch

from search_spaces.specs import ScaleSpec, TrainingSettings
from trainers.init_regimes import start_encoder
from trainers.similarity import Gammas
from trainers.training.chunks import Batch, make_batch
from trainers.training.gradient_cache import ChunkedEncoder
from trainers.training.held_graphs import HeldGraphs, free_bytes, graph_bytes
from trainers.training.losses import info_nce
from trainers.training.objectives import objective_of
from trainers.training.retriever import Retriever

WORDS = [
    "password",
    "registry",
    "network",
    "mail",
    "files",
    "desktop",
    "browser",
    "kernel",
    "printer",
    "cloud",
    "logon",
]
SETTINGS = TrainingSettings(steps=1, global_batch=7, learning_rate=1e-3)


def texts(num: int, longest: int) -> list[str]:
    return [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(1 + (i * 5) % longest)) for i in range(num)]


@pytest.fixture
def retriever(tiny_bert, make_spec):
    def make(**changes):
        return Retriever(start_encoder(make_spec(tiny_bert, **changes), 0), Gammas(0.3, 0.6, trained=True)).train()

    return make


def batch_of(encoder, *, num_queries=7, hard_negatives=2, chunk_tokens=40) -> Batch:
    queries = encoder.tokenise(texts(num_queries, 6), "query")
    documents = encoder.tokenise(texts(num_queries * (1 + hard_negatives), 17), "document")
    masked = torch.zeros(len(queries), len(documents), dtype=torch.bool)
    masked[0, 3] = masked[4, 1] = masked[2, 11] = True
    return make_batch(encoder, queries, documents, masked, chunk_tokens=chunk_tokens)


def gradients(retriever) -> dict[str, torch.Tensor]:
    found = {name: weight.grad.clone() for name, weight in retriever.named_parameters() if weight.grad is not None}
    retriever.zero_grad()
    return found


def plain_gradients(retriever, batch, seeds):
    """One graph over everything, as autograd differentiates it: no cache, no gradient taken at embeddings."""
    rows, outputs = [], []
    for chunk, seed in zip(batch.chunks, seeds, strict=True):
        torch.manual_seed(seed)
        rows.append(chunk.row_C)
        outputs.append(retriever.encoder(chunk.input_ids_CT, chunk.attention_mask_CT, chunk.side))
    value = torch.cat(outputs)[torch.cat(rows).argsort()]
    query, document = value.split([batch.num_queries, batch.num_documents])
    loss = info_nce(
        query, document, masked_QD=batch.target, gammas=retriever.gammas.values(), factor=20.0, directions="both"
    ).loss
    loss.backward()
    return loss.item(), gradients(retriever)


def cached_gradients(retriever, batch, seeds, held):
    objective = objective_of(
        "contrastive",
        ScaleSpec(mode="fixed", value=20.0),
        TrainingSettings(**{**vars(SETTINGS), "loss_directions": "both"}),
    )
    chunked = ChunkedEncoder(retriever.encoder, contextlib.nullcontext)
    embedded = chunked.embed(batch, range(len(batch.chunks)), held, seeds)
    value = embedded.value_NH.requires_grad_()
    query, document = value.split([batch.num_queries, batch.num_documents])
    scored = objective(query, document, batch.target, retriever.gammas.values())
    scored.loss.backward()
    embedded.backward(value.grad)
    return scored.loss.item(), gradients(retriever)


@pytest.mark.parametrize("towers", ["shared", "separate"])
@pytest.mark.parametrize("held", ["all", "none", "last", "some"])
def test_gradients_are_the_plain_losss_with_dropout_on(retriever, towers, held):
    trained = retriever(towers=towers)
    batch = batch_of(trained.encoder)
    num = len(batch.chunks)
    assert num > 4
    assert {len(chunk.row_C) for chunk in batch.chunks} != {1}
    seeds = [100 + i for i in range(num)]
    keep = {
        "all": [True] * num,
        "none": [False] * num,
        "last": [i == num - 1 for i in range(num)],
        "some": [i % 2 == 0 for i in range(num)],
    }
    loss, expected = plain_gradients(trained, batch, seeds)
    cached_loss, found = cached_gradients(trained, batch, seeds, keep[held])
    assert cached_loss == pytest.approx(loss, rel=1e-6)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6 * expected_size(expected), msg=name)


def expected_size(found):
    return max(gradient.abs().max().item() for gradient in found.values())


def test_another_dropout_gives_other_gradients(retriever):
    """So that the test above would see a second run under another seed."""
    trained = retriever()
    batch = batch_of(trained.encoder)
    _, first = plain_gradients(trained, batch, range(len(batch.chunks)))
    _, second = plain_gradients(trained, batch, range(50, 50 + len(batch.chunks)))
    name = "encoder.backbones.shared.embeddings.word_embeddings.weight"
    assert torch.dist(first[name], second[name]) > 0.05 * first[name].norm()


def test_a_chunk_size_bounds_the_texts_held(retriever):
    trained = retriever()
    batch = batch_of(trained.encoder)
    sizes = [chunk.num_texts for chunk in batch.chunks]
    assert sum(sizes) == 28
    for size in (1, 4, 9, 28):
        held = HeldGraphs(size).choose(batch.chunks, trained, None)
        kept = [n for n, keep in zip(sizes, held, strict=True) if keep]
        assert kept == sizes[len(sizes) - len(kept) :]  # the last ones
        assert sum(kept) <= max(size, sizes[-1])
        assert len(kept) == len(sizes) or sum(kept) + sizes[-len(kept) - 1] > size  # and no fewer than fit


def test_without_a_chunk_size_all_graphs_are_held(retriever):
    trained = retriever()
    batch = batch_of(trained.encoder)
    assert all(HeldGraphs(None).choose(batch.chunks, trained, None))


def test_auto_holds_what_fits_the_memory_that_is_free(retriever, monkeypatch):
    trained = retriever()
    batch = batch_of(trained.encoder)
    chunked = ChunkedEncoder(trained.encoder, contextlib.nullcontext)

    def run(chunk):
        return chunked.run(chunk, seed=0)

    per_slot = graph_bytes(batch.chunks[0], trained, run) / batch.chunks[0].num_slots
    assert per_slot > 4 * 32 * 4 * 8  # at least eight states of each of 4 layers of 32 float32
    assert all(HeldGraphs("auto").choose(batch.chunks, trained, run))
    weights = sum(w.numel() * w.element_size() for w in trained.parameters() if w.requires_grad)
    slots = [chunk.num_slots for chunk in batch.chunks]
    room = 4 * per_slot * (slots[-1] + slots[-2]) + 8 + 3 * weights  # a quarter of what is free may be taken
    monkeypatch.setattr("trainers.training.held_graphs.free_bytes", lambda device: int(room))
    held = HeldGraphs("auto").choose(batch.chunks, trained, run)
    assert held == [False] * (len(slots) - 2) + [True, True]
    monkeypatch.setattr("trainers.training.held_graphs.free_bytes", lambda device: 0)
    assert HeldGraphs("auto").choose(batch.chunks, trained, run) == [False] * (len(slots) - 1) + [True]


@pytest.mark.slow
def test_graph_bytes_are_what_the_process_grows_by(minilm):
    """Against the resident memory of a real model's graph, which must be large enough to stand above the noise."""
    from trainers.memory import peak_rss_bytes, release_memory, reset_peak

    trained = Retriever(start_encoder(minilm, 0), Gammas(1.0, 1.0, trained=False)).train()
    ids = [trained.encoder.tokenise(["word " * 62], "document")[0]] * 64
    batch = make_batch(trained.encoder, ids, [], torch.empty(0), chunk_tokens=10**6)
    chunked = ChunkedEncoder(trained.encoder, contextlib.nullcontext)
    chunked.run(batch.chunks[0], seed=0)
    counted = graph_bytes(batch.chunks[0], trained, lambda chunk: chunked.run(chunk, seed=0))
    release_memory()
    reset_peak()
    before = peak_rss_bytes()
    kept = [chunked.run(batch.chunks[0], seed=i) for i in range(4)]
    grown = (peak_rss_bytes() - before) / len(kept)
    assert counted == pytest.approx(grown, rel=0.35)


def test_free_memory_is_that_of_this_machine():
    assert 2**20 < free_bytes("cpu") < 2**50
