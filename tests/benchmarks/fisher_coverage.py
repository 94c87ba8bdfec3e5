"""How often the intervals of the Fisher probe hold the truth, block by block, by drawing pools of real embeddings.

The truth is log10 kappa(qnorm) - log10 kappa(dnorm) over all pools that a collection fills (with the subspace of its
held-out pairs). Each replicate draws the shipped number of whole pools from them, with replacement, and asks for the
interval, which promises 90 %. Where it holds the truth less often, `trainers.fisher.estimates.COVERED_RANKS` lets the
block answer 'undecided' alone. MiniLM, 3 layers, 64 tokens, scale fixed(20) and matched(20).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.specs import DataSpec, ScaleSpec
from tests.benchmarks.bench_encode import minilm
from tests.benchmarks.data import SHARED
from tests.benchmarks.options import Options

COLLECTIONS = ("attack", "medquad")
CANDIDATES = 64
NUM_POOLS, NUM_HEAD_POOLS = 16, 8  # of a probe with the defaults: 1,024 queries, and 512 for the head
LAYERS, LENGTH = 3, 64
SCALES = (ScaleSpec(mode="fixed", value=20.0), ScaleSpec(mode="matched", value=20.0))
MOST_OF_HEAD = 60  # replicates: its matrices have up to 528 rows


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Of one block and rank: the share of intervals that hold the truth, 0 to 1, and how wide they are."""

    data: str
    init_regime: str
    scale: str
    block: str
    rank: int | None
    num_pools: int
    num_replicates: int
    saturated_share: float
    truth: float
    coverage: float
    half_width: float
    wrong_calls: float

    def __str__(self) -> str:
        where = f"{self.data} {self.init_regime} {self.scale} {self.block}" + (f" r={self.rank}" if self.rank else "")
        return (
            f"{where}: {self.coverage:.2f} of {self.num_replicates} intervals from {self.num_pools} pools hold "
            f"{self.truth:+.3f} (half width {self.half_width:.3f}, wrong sign {self.wrong_calls:.2f}; saturated "
            f"{self.saturated_share:.2f})"
        )


def run(options: Options) -> Iterator[Coverage | str]:
    """Each collection under trained and under random weights, `options.replicates` replicates of each."""
    for name in COLLECTIONS:
        entry = _entry(name)
        if isinstance(entry, str):
            yield entry
            continue
        for init_regime in ("finetune", "random"):
            for scale in SCALES:
                yield from measure(entry, init_regime, scale, options.replicates)


def measure(
    entry: DataSet, init_regime: str, scale: ScaleSpec, num_replicates: int, *, candidates: int = CANDIDATES
) -> Iterator[Coverage]:
    """Coverage of every block and rank for one collection, encoder and scale."""
    measured, ranks = population(entry, init_regime, scale, candidates)
    from trainers.fisher.estimates import ranks_of

    one, other = measured.values()
    for block in one.fisher_PRR:
        for rank in ranks_of(block, ranks):
            yield replace(
                simulate(one, other, block, rank, num_replicates),
                data=entry.name,
                init_regime=init_regime,
                scale=str(scale),
            )


def population(entry: DataSet, init_regime: str, scale: ScaleSpec, candidates: int) -> tuple[dict[str, Any], Any]:
    """Both similarities on all pools that a collection fills, and the grid of ranks."""
    import torch

    from search_spaces.specs import ProbeSpec
    from trainers.fisher.candidate_pools import plan_pools
    from trainers.fisher.probe import _read
    from trainers.fisher.subspace import shared_subspace
    from trainers.init_regimes import start_encoder
    from trainers.training.pairs import load_pairs

    encoder_spec = replace(
        minilm(), layers=LAYERS, init_regime=init_regime, max_query_length=LENGTH, max_document_length=LENGTH
    )
    spec = ProbeSpec(
        task="contrastive",
        encoder=encoder_spec,
        seed=0 if init_regime == "random" else None,
        training_data=DataSpec(entry=entry, split=entry.train_split or "train"),
        scale=scale,
        num_queries=1 << 20,
        candidates_per_query=candidates,
        blocks=("embedding", "gamma", "head"),
        head_queries=1 << 20,
    )
    encoder, pairs = start_encoder(spec.encoder, spec.seed), load_pairs(spec.training_data)
    plan = plan_pools(pairs, num_queries=spec.num_queries, candidates_per_query=candidates)
    from trainers.fisher.probe import _embedded

    held_out = _embedded(encoder, pairs, plan.held_out_S)
    subspace = shared_subspace(torch.cat([held_out.query_NH, held_out.document_NH]))
    seen = _read(spec, encoder, pairs, plan, subspace, len(plan.pool_PC), None)
    return dict(seen.measured), subspace.ranks


def simulate(one: Any, other: Any, block: str, rank: int | None, num_replicates: int) -> Coverage:
    """Draw pools, make the interval, and see whether it holds what all pools say."""
    from trainers.fisher.estimates import HEAD, num_parameters
    from trainers.fisher.jackknife import delete_group
    from trainers.fisher.spectrum import log10_kappa

    size = num_parameters(block, rank)
    sides = [side.fisher_PRR[block][:, :size, :size] for side in (one, other)]
    truth = float(np.subtract(*(log10_kappa(side.mean(dim=0), size).item() for side in sides)))
    num_pools = NUM_HEAD_POOLS if block == HEAD else NUM_POOLS
    num_replicates = min(num_replicates, MOST_OF_HEAD) if block == HEAD else num_replicates
    draw = np.random.default_rng(0)
    held, halves, wrong = [], [], []
    for _ in range(num_replicates):
        rows = draw.integers(0, len(sides[0]), num_pools)
        kappas = []
        for side in sides:
            total = side[rows].sum(dim=0)
            kappas.append([log10_kappa(total - left, size).item() for left in (0, *side[rows])])
        whole, *without = np.subtract(*kappas).tolist()
        found = delete_group(whole, without)
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= truth <= found.high)
        halves.append((found.high - found.low) / 2)
        wrong.append(found.high < 0 < truth or truth < 0 < found.low)
    return Coverage(
        data="",
        init_regime="",
        scale="",
        block=block,
        rank=rank,
        num_pools=num_pools,
        num_replicates=num_replicates,
        saturated_share=max(one.saturated_share, other.saturated_share),
        truth=truth,
        coverage=float(np.mean(held)),
        half_width=float(np.median(halves)),
        wrong_calls=float(np.mean(wrong)),
    )


def _entry(name: str) -> DataSet | str:
    if name in DATA_SETS:
        return DATA_SETS[name]
    if not (SHARED / name).is_dir():
        return f"{name}: left out, there is no ../shared/data/{name} beside the repository"
    return DataSet(name=name, source=f"path:{SHARED / name}", train_split="train")
