"""A probe's rows, of the schema PROBES. The first of them are the headlines: a tracker shows only so many."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from search_spaces.identity import probe_id
from search_spaces.specs import ProbeSpec, ScaleSpec
from trainers.fisher.candidate_pools import ProbePairs
from trainers.fisher.estimates import (
    EMPIRICAL,
    INTERVAL_GOAL,
    Compared,
    Measured,
    compare,
    compare_at_ridges,
    growing,
    is_narrow,
    ranks_of,
)
from trainers.fisher.jackknife import LEVEL, Estimate
from trainers.fisher.lanczos import LanczosSpectrum
from trainers.fisher.space import ComparedRanks
from trainers.fisher.spectrum import RIDGE, RIDGES
from trainers.fisher.subspace import Subspace

Row = dict[str, Any]
_SOFTMAX = ("saturated_share", "logit_std", "perplexity", "loss")


@dataclass(frozen=True, kw_only=True)
class WholeSpectrum:
    """The spectrum of one block in all its dimensions, under one similarity."""

    block: str  # 'head', 'weights', also after 'empirical_'
    similarity: str
    seen: LanczosSpectrum
    num_parameters: int
    num_queries: int
    eigenvalues: Sequence[float] = ()  # falling, where all are known


def probe_rows(
    spec: ProbeSpec,
    *,
    measured: Mapping[str, Measured],
    scales: Mapping[str, ScaleSpec],
    subspace: Subspace,
    norms: Mapping[str, float],
    plan: ProbePairs,
    num_pools: int,
    ranks: ComparedRanks | None = None,
    distance: Estimate | None = None,
    num_irrelevant: int = 0,
    whole: Sequence[WholeSpectrum] = (),
) -> list[Row]:
    """All rows of one probe.

    Args:
        spec: the probe.
        measured: the two similarities that are compared, by name; differences are first - second.
        scales: that of each similarity, with the divisor where it is matched.
        subspace: in which they were measured.
        norms: statistics of the raw embeddings' norms, by name.
        plan: which pairs were to be used.
        num_pools: how many of the plan's pools were: all, unless a time budget ended them.
        ranks: effective ranks of the space that the two similarities see.
        distance: Cohen's d of the norms of relevant and irrelevant documents.
        num_irrelevant: how many of the latter were read.
        whole: spectra of blocks in all their dimensions.
    """
    (first, one), (second, other) = measured.items()
    where = [(block, rank) for block in one.fisher_PRR for rank in ranks_of(block, subspace.ranks)]
    candidates = plan.pool_PC.shape[1]
    curves = {place: _convergence(one, other, *place, candidates) for place in where}
    compared = {place: curve[max(curve)] for place, curve in curves.items()}
    used = {
        "num_pools": num_pools,
        "num_queries": num_pools * candidates,
        "num_queries_planned": plan.pool_PC.size,
        "num_held_out": len(plan.held_out_S),
        "candidates_per_query": candidates,
        "num_irrelevant": num_irrelevant,
    }
    rows = chain(
        chain.from_iterable(_kappa_rows(first, second, *place, found) for place, found in compared.items()),
        _rank_rows(first, second, ranks),
        [] if distance is None else [_row("norms", "cohen_d", distance.value, estimate=distance)],
        _softmax_rows(measured, scales),
        (_row("norms", statistic, value) for statistic, value in norms.items()),
        (_row("pools", statistic, value) for statistic, value in used.items()),
        _enough_rows(curves, candidates),
        _subspace_rows(subspace),
        chain.from_iterable(map(_whole_rows, whole)),
        chain.from_iterable(_spectrum_rows((first, second), *place, found) for place, found in compared.items()),
        chain.from_iterable(_curve_rows(first, second, *place, curve) for place, curve in curves.items()),
        chain.from_iterable(_ridge_rows(measured, *place) for place in where),
        chain.from_iterable(map(_density_rows, whole)),
    )
    about = _about(spec)
    return [about | row for row in rows if row["value"] is not None and math.isfinite(row["value"])]


def _about(spec: ProbeSpec) -> Row:
    return {
        "probe_id": probe_id(spec),
        "family": spec.encoder.family,
        "layers": spec.encoder.layers,
        "init_regime": spec.encoder.init_regime,
        "seed": spec.seed,
        "task": spec.task,
        "training_data": spec.training_data.name,
        "training_data_hash": spec.training_data.content_hash,
        "num_pairs": spec.training_data.num_pairs,
        "scale_mode": spec.scale.mode,
        "scale_value": spec.scale.value,
    }


def _row(
    block: str,
    statistic: str,
    value: float | None,
    *,
    similarity: str | None = None,
    rank: int | None = None,
    at: float | None = None,
    estimate: Estimate | None = None,
) -> Row:
    row = {
        "block": block,
        "statistic": statistic,
        "value": value,
        "similarity": similarity,
        "rank": rank,
        "at": at,
    }
    return row | (_interval(estimate) if estimate else {})


def _kappa_rows(
    first: str,
    second: str,
    block: str,
    rank: int | None,
    found: Compared,
    *,
    statistic: str = "log10_kappa",
    at: float | None = None,
) -> Iterator[Row]:
    """log10 kappa: the bias-corrected estimates, with their intervals."""
    estimates = {f"{first}-{second}": found.difference, first: found.first, second: found.second}
    for similarity, estimate in estimates.items():
        if estimate is not None:
            yield _row(block, statistic, estimate.value, similarity=similarity, rank=rank, at=at, estimate=estimate)


def _rank_rows(first: str, second: str, found: ComparedRanks | None) -> Iterator[Row]:
    if found is not None:
        estimates = {f"{first}-{second}": found.difference, first: found.first, second: found.second}
        for similarity, estimate in estimates.items():
            yield _row("space", "log10_effective_rank", estimate.value, similarity=similarity, estimate=estimate)


def _interval(estimate: Estimate) -> Row:
    level = None if estimate.low is None else LEVEL
    return {"low": estimate.low, "high": estimate.high, "level": level}


def _spectrum_rows(similarities: Sequence[str], block: str, rank: int | None, found: Compared) -> Iterator[Row]:
    """What was seen on all pools, without correction for bias: its numbers, then every eigenvalue by its number."""
    for similarity, spectrum in zip(similarities, found.spectra, strict=True):
        seen = asdict(spectrum)
        eigenvalues = seen.pop("eigenvalues")
        log10_kappa = seen.pop("log10_kappa")
        seen["log10_kappa_uncorrected"] = log10_kappa
        seen["kappa_uncorrected"] = None if log10_kappa is None else 10**log10_kappa
        for statistic, value in seen.items():
            yield _row(block, statistic, value, similarity=similarity, rank=rank)
        yield from _eigenvalue_rows(block, similarity, eigenvalues, rank)


def _eigenvalue_rows(block: str, similarity: str, values: Sequence[float], rank: int | None) -> Iterator[Row]:
    for number, value in enumerate(values, start=1):
        yield _row(block, "eigenvalue", value, similarity=similarity, rank=rank, at=number)


def _convergence(
    first: Measured, second: Measured, block: str, rank: int | None, candidates: int
) -> dict[int, Compared]:
    """What growing numbers of queries say, by that number."""
    return {
        num_pools * candidates: compare(first.first(num_pools), second.first(num_pools), block, rank)
        for num_pools in growing(len(first.fisher_PRR[block]))
    }


def _curve_rows(first: str, second: str, block: str, rank: int | None, curve: Mapping[int, Compared]) -> Iterator[Row]:
    for num_queries, found in curve.items():
        statistic = "log10_kappa_of_queries"
        yield from _kappa_rows(first, second, block, rank, found, statistic=statistic, at=num_queries)


def _enough_rows(curves: Mapping[tuple[str, int | None], Mapping[int, Compared]], candidates: int) -> Iterator[Row]:
    """From how many queries on each block's intervals are narrow at every rank, and how many would be enough.

    Intervals narrow as one over the root of the number of queries. Absent where a rank has no interval.
    """
    yield _row("pools", "interval_goal", INTERVAL_GOAL)
    for block in dict.fromkeys(block for block, _ in curves if not block.startswith(EMPIRICAL)):
        of_ranks = [curve for (of, _), curve in curves.items() if of == block]
        numbers = list(of_ranks[0])
        narrow = [all(is_narrow(curve[number]) for curve in of_ranks) for number in numbers]
        # From that number on, and not by luck at one.
        until = next((i for i in range(len(narrow)) if all(narrow[i:])), None)
        yield _row(block, "num_queries_enough", None if until is None else numbers[until])
        halves = [_half_width(curve[numbers[-1]]) for curve in of_ranks]
        if all(half is not None for half in halves):
            widest = max(half for half in halves if half is not None)
            pools = math.ceil(numbers[-1] / candidates * (widest / INTERVAL_GOAL) ** 2)
            yield _row(block, "num_queries_needed", pools * candidates)


def _half_width(found: Compared) -> float | None:
    difference = found.difference
    if difference is None or difference.low is None or difference.high is None:
        return None
    return (difference.high - difference.low) / 2


def _ridge_rows(measured: Mapping[str, Measured], block: str, rank: int | None) -> Iterator[Row]:
    """How log10 kappa moves with the ridge: not at all where data decides it."""
    (first, one), (second, other) = measured.items()
    for ridge, found in compare_at_ridges(one, other, block, rank, RIDGES).items():
        yield from _kappa_rows(first, second, block, rank, found, statistic="log10_kappa_of_ridge", at=ridge)


def _whole_rows(found: WholeSpectrum) -> Iterator[Row]:
    """Of a spectrum in all its dimensions; intervals are those of the start vectors. There is no kappa among them."""
    trace, rank = found.seen.trace, found.seen.effective_rank
    yield _row(found.block, "whole_lambda_max", found.seen.lambda_max, similarity=found.similarity)
    yield _row(found.block, "whole_trace", trace.value, similarity=found.similarity, estimate=trace)
    if rank is not None:
        yield _row(found.block, "whole_effective_rank", rank.value, similarity=found.similarity, estimate=rank)
    yield _row(found.block, "whole_num_parameters", found.num_parameters, similarity=found.similarity)
    yield _row(found.block, "whole_num_queries", found.num_queries, similarity=found.similarity)


def _density_rows(found: WholeSpectrum) -> Iterator[Row]:
    """Eigenvalues to a decade, as a share of all, at log10 of an eigenvalue; then the eigenvalues that are known."""
    points = zip(found.seen.log10_value_X.tolist(), found.seen.density_X.tolist(), strict=True)
    for log10_value, density in points:
        yield _row(found.block, "whole_density", density, similarity=found.similarity, at=log10_value)
    for number, value in enumerate(found.eigenvalues, start=1):
        yield _row(found.block, "whole_eigenvalue", value, similarity=found.similarity, at=number)


def _softmax_rows(measured: Mapping[str, Measured], scales: Mapping[str, ScaleSpec]) -> Iterator[Row]:
    for similarity, seen in measured.items():
        shown = {"scale_divisor": scales[similarity].divisor, **{name: getattr(seen, name) for name in _SOFTMAX}}
        for statistic, value in shown.items():
            yield _row("softmax", statistic, value, similarity=similarity)


def _subspace_rows(subspace: Subspace) -> Iterator[Row]:
    yield _row("subspace", "ridge", RIDGE)
    for rank in subspace.ranks:
        yield _row("subspace", "explained_variance", subspace.explained_R[rank - 1].item(), rank=rank)
