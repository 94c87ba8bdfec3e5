"""`memory_budget`: how a pass shares it, that no bit depends on it, and that it holds."""

import subprocess
import sys
from dataclasses import replace

import pytest

from results.layout import norm_rows, run_file, scored_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import EvaluationSpec
from tests.trainers.small_beir import write_small_beir
from trainers.encoders.checkpoints import checkpoint_hash, save_checkpoint
from trainers.evaluation.evaluate import evaluate_all
from trainers.init_regimes import start_encoder
from trainers.search.tiling import tiling
from trainers.search_budget import budget_of_each, least_budget

SIZE = 384


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory) -> list[EvaluationSpec]:
    """Two collections that share most of their passages, and so a pass; each has more than a smallest tile."""
    folder = tmp_path_factory.mktemp("budget")
    made = [write_small_beir(folder / name, numbers) for name, numbers in (("a", range(200)), ("b", range(40, 240)))]
    return [replace(evaluation, score_similarities="all", run_files=True) for evaluation in made]


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    save_checkpoint(folder, start_encoder(replace(minilm, layers=1), None), gammas=None, similarity=None, scale=None)
    return folder


def everything(checkpoint, evaluations, folder) -> list:
    """Norms, rows and run files of an evaluation of both."""
    store, key = open_store(str(folder)), checkpoint_hash(checkpoint)
    wanted = {evaluation: score_similarities(None, evaluation) for evaluation in evaluations}
    evaluate_all(checkpoint, wanted, store=store)
    found: list = [read_rows(store, norm_rows(encoding_id(key, e)), "norms") for e in evaluations]
    for evaluation, similarities in wanted.items():
        for identity in (evaluation_id(key, evaluation, similarity) for similarity in similarities):
            found.append(read_rows(store, scored_rows(evaluation, identity), "per_query"))
            found.append(store.read(run_file(identity)))
    return found


@pytest.mark.slow
def test_no_bit_and_no_identity_depends_on_the_budget(checkpoint, evaluations, tmp_path):
    budgets = [None, least_budget(2, SIZE), least_budget(2, SIZE) + (1 << 20), 4 << 30]
    tiles = [tiling(budget_of_each(b, 2, SIZE), 100, SIZE, device="cpu").num_documents for b in budgets if b]
    assert tiles[0] < tiles[1] < tiles[2]  # so that the corpora are cut in different places
    assert tiles[0] < 200
    found = [
        everything(checkpoint, [replace(e, memory_budget_bytes=b) for e in evaluations], tmp_path / str(b))
        for b in budgets
    ]
    assert all(other == found[0] for other in found[1:])
    assert len(found[0]) > 10


def test_a_budget_that_is_too_small_says_what_it_takes(checkpoint, evaluations, tmp_path):
    least = least_budget(2, SIZE)
    with pytest.raises(
        ValueError, match=f"2 data sets searched in one pass, .* 384 dimensions, need at least {least:,}"
    ):
        everything(checkpoint, [replace(e, memory_budget_bytes=least - 1) for e in evaluations], tmp_path)


@pytest.mark.parametrize("size", [32, 384, 1024, 4096])
@pytest.mark.parametrize("num_searches", [1, 3, 40])
def test_the_least_budget_is_enough_for_each_search(num_searches, size):
    each = budget_of_each(least_budget(num_searches, size), num_searches, size)
    assert tiling(each, 10_000, size, device="cpu").num_documents >= 64


_PASS = """
import sys
from contextlib import nullcontext
import numpy as np
import pyarrow as pa
import torch
from trainers.threads import set_threads
set_threads(1)
from trainers.evaluation import corpus_pass
from trainers.evaluation.judged_queries import JudgedQueries
from trainers.evaluation.shared_texts import text_order
from trainers.memory import peak_rss_bytes, reset_peak
from trainers.search_budget import BLOCK_DOCUMENTS
budget, num_shards, size = int(sys.argv[1]), int(sys.argv[2]), 256
num = num_shards * BLOCK_DOCUMENTS
rng = np.random.default_rng(0)
class Encoder(torch.nn.Linear):
    hidden_size = size
    def instructed(self, instruction):
        return nullcontext()
def encode(encoder, texts, side, **_):
    return rng.standard_normal((len(texts), size), dtype=np.float32)
def encode_shards(encoder, shards, side, **_):
    return (encode(encoder, texts, side) for texts in shards)
corpus_pass.encode, corpus_pass.encode_shards = encode, encode_shards
def run(num, num_queries):
    ids = pa.chunked_array([pa.array([f"d{n}" for n in range(num)])])
    empty = pa.chunked_array([pa.array([""] * num)])
    corpus = pa.table({"id": ids, "title": empty, "text": empty})
    text = rng.integers(0, 1 << 62, (num, 2)).astype(np.uint64)
    orders = text_order([text, text[::-1].copy()])
    queries = JudgedQueries(ids=["q"] * num_queries, texts=["q"] * num_queries, excluded=[[]] * num_queries, qrels={})
    searched = [corpus_pass.Searched(corpus=corpus, queries=queries, gammas_d=[0.0, 1.0], k=10)] * 2
    reset_peak()
    before = peak_rss_bytes()
    corpus_pass.search_corpora(Encoder(1, 1), searched, orders, precision="fp32", memory_budget_bytes=budget)
    return peak_rss_bytes() - before
run(64, 2)  # what libraries take when they first work
print(run(num, 1000))
"""


def peak_bytes(budget: int, num_shards: int) -> int:
    command = [sys.executable, "-c", _PASS, str(budget), str(num_shards)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
def test_a_pass_with_two_searches_stays_within_its_budget_whatever_the_corpus():
    """Beyond it: some numbers for each document of each corpus. Without a budget it takes 158 MiB, here 49."""
    budget, per_document = 104 << 20, 2 * 120
    small, large = peak_bytes(budget, 2), peak_bytes(budget, 8)
    assert large < budget + 8 * 16_384 * per_document
    assert large - small < 6 * 16_384 * per_document + (16 << 20)
