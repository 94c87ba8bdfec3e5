"""What the Fisher benchmarks claim to measure: coverage that is told from none, and equal work on both sides."""

import numpy as np
import pytest
import torch

from search_spaces.specs import ScaleSpec
from tests.benchmarks.bench_fisher import WEIGHTS_PAIRS, weights_problem
from tests.benchmarks.fisher_coverage import measure, simulate
from trainers.fisher.estimates import Measured


def pools_of(eigenvalues_PR):
    fisher = torch.diag_embed(torch.as_tensor(eigenvalues_PR, dtype=torch.float64))
    return Measured(fisher_PRR={"embedding": fisher}, logit_std=1.0, perplexity=2.0, saturated_share=0.0, loss=1.0)


def test_coverage_of_even_pools_is_as_promised_and_of_rare_giants_is_not():
    draw = np.random.default_rng(0)
    even = [pools_of(draw.uniform(1, 2, size=(80, 4)) * [8, 4, 2, 1]) for _ in range(2)]
    assert simulate(*even, "embedding", 4, 200).coverage > 0.9
    values = draw.uniform(1, 2, size=(80, 4)) * [8, 4, 2, 1]
    values[0] *= 1e4  # a pool that four fifths of the draws miss, and that makes up all of the truth
    values[0, 3] /= 1e3
    giant = pools_of(values)
    assert simulate(giant, even[1], "embedding", 4, 200).coverage < 0.5


@pytest.mark.slow
def test_coverage_is_measured_on_every_block_and_rank(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path))
    from search_spaces.catalogue.data_sets import DATA_SETS

    scale = ScaleSpec(mode="matched", value=20.0)
    found = list(measure(DATA_SETS["attack"], "random", scale, 2, candidates=64))
    assert [(one.block, one.rank) for one in found if one.block != "embedding_query"] == [
        *(("embedding", rank) for rank in (8, 16, 32, 64)),
        *(("embedding_document", rank) for rank in (8, 16, 32, 64)),
        ("gamma", None),
        *(("head", rank) for rank in (8, 16, 32)),
    ]
    assert all(0 <= one.coverage <= 1 and one.scale == "matched(20)" for one in found)


@pytest.mark.slow
def test_the_weights_problem_has_different_pairs(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path))
    _, pool, _ = weights_problem()
    assert len(pool.query.ids) == len(pool.document.ids) == WEIGHTS_PAIRS
    assert len({tuple(ids) for ids in pool.query.ids}) == WEIGHTS_PAIRS
