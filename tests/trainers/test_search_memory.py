"""Peak memory of a search: within its budget, and the same for any corpus."""

import subprocess
import sys

import pytest

_SEARCH = """
import sys
import numpy as np
from trainers.threads import set_threads
set_threads(1)
from trainers.memory import peak_rss_bytes, reset_peak
from trainers.search import Block, Searcher
num_documents, kind, budget = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
query_QH = rng.standard_normal((600, 64)).astype(np.float32)
vectors = rng.standard_normal((20_000, 64)).astype(np.float16)
if kind == "ties":
    vectors[:] = 1
tie_rank_N = np.arange(num_documents)
def run(num):
    searcher = Searcher(query_QH, 100, tie_rank_N=tie_rank_N[:num], memory_budget_bytes=budget, gammas_d=(0.0, 1.0))
    for first in range(0, num, len(vectors)):
        norm_D = np.full(len(vectors), 1 + first / num_documents, np.float32)
        searcher.add(Block(first=first, vector_DH=vectors, norm_D=norm_D))
    return searcher.rankings()
query_QH, all_queries = query_QH[:2], query_QH
run(20_000)  # what libraries take when they first work
query_QH = all_queries
reset_peak()
before = peak_rss_bytes()
run(num_documents)
print(peak_rss_bytes() - before)
"""


def peak_bytes(num_documents: int, kind: str, budget: int) -> int:
    command = [sys.executable, "-c", _SEARCH, str(num_documents), kind, str(budget)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [80 << 20, 160 << 20])
def test_the_peak_stays_within_the_budget_and_does_not_grow(budget: int) -> None:
    small, large = (peak_bytes(num, "ordinary", budget) for num in (100_000, 1_000_000))
    per_document = 1  # whether it was added
    assert large < budget + 1_000_000 * per_document
    assert large - small < 900_000 * per_document + (8 << 20)


@pytest.mark.slow
def test_the_peak_stays_within_the_budget_where_everything_ties() -> None:
    assert peak_bytes(60_000, "ties", 160 << 20) < 160 << 20
