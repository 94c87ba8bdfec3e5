"""A probe's rows, of the schema PROBES. The first of them are the headlines: a tracker shows only so many."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from search_spaces.identity import probe_id
from search_spaces.specs import ProbeSpec, ScaleSpec
from trainers.fisher.candidate_pools import ProbePairs
from trainers.fisher.estimates import BLOCKS, Compared, Measured, compare
from trainers.fisher.jackknife import LEVEL, Estimate
from trainers.fisher.spectrum import RIDGE
from trainers.fisher.subspace import Subspace

Row = dict[str, Any]
_SOFTMAX = ("saturated_share", "logit_std", "perplexity", "loss")


def probe_rows(
    spec: ProbeSpec,
    *,
    measured: Mapping[str, Measured],
    scales: Mapping[str, ScaleSpec],
    subspace: Subspace,
    norms: Mapping[str, float],
    plan: ProbePairs,
) -> list[Row]:
    """All rows of one probe.

    Args:
        spec: the probe.
        measured: the two similarities that are compared, by name; differences are first - second.
        scales: that of each similarity, with the divisor where it is matched.
        subspace: in which they were measured.
        norms: statistics of the raw embeddings' norms, by name.
        plan: which pairs were used.
    """
    (first, one), (second, other) = measured.items()
    compared = {(block, rank): compare(one, other, block, rank) for block in BLOCKS for rank in subspace.ranks}
    used = {"num_pools": len(plan.pool_PC), "num_queries": plan.pool_PC.size, "num_held_out": len(plan.held_out_S)}
    rows = chain(
        chain.from_iterable(_kappa_rows(first, second, *where, found) for where, found in compared.items()),
        _softmax_rows(measured, scales),
        (_row("norms", statistic, value) for statistic, value in norms.items()),
        (_row("pools", statistic, value) for statistic, value in used.items()),
        _subspace_rows(subspace),
        chain.from_iterable(_spectrum_rows((first, second), *where, found) for where, found in compared.items()),
    )
    about = _about(spec)
    return [about | row for row in rows if row["value"] is not None]


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
    block: str, statistic: str, value: float | None, *, similarity: str | None = None, rank: int | None = None
) -> Row:
    return {"block": block, "statistic": statistic, "value": value, "similarity": similarity, "rank": rank}


def _kappa_rows(first: str, second: str, block: str, rank: int, found: Compared) -> Iterator[Row]:
    """log10 kappa: the bias-corrected estimates, with their intervals."""
    estimates = {f"{first}-{second}": found.difference, first: found.first, second: found.second}
    for similarity, estimate in estimates.items():
        if estimate is not None:
            yield _row(block, "log10_kappa", estimate.value, similarity=similarity, rank=rank) | _interval(estimate)


def _interval(estimate: Estimate) -> Row:
    level = None if estimate.low is None else LEVEL
    return {"low": estimate.low, "high": estimate.high, "level": level}


def _spectrum_rows(similarities: Sequence[str], block: str, rank: int, found: Compared) -> Iterator[Row]:
    """What was seen on all pools, without correction for bias."""
    for similarity, spectrum in zip(similarities, found.spectra, strict=True):
        seen = asdict(spectrum)
        seen["log10_kappa_uncorrected"] = seen.pop("log10_kappa")
        for statistic, value in seen.items():
            yield _row(block, statistic, value, similarity=similarity, rank=rank)


def _softmax_rows(measured: Mapping[str, Measured], scales: Mapping[str, ScaleSpec]) -> Iterator[Row]:
    for similarity, seen in measured.items():
        shown = {"scale_divisor": scales[similarity].divisor, **{name: getattr(seen, name) for name in _SOFTMAX}}
        for statistic, value in shown.items():
            yield _row("softmax", statistic, value, similarity=similarity)


def _subspace_rows(subspace: Subspace) -> Iterator[Row]:
    yield _row("subspace", "ridge", RIDGE)
    for rank in subspace.ranks:
        yield _row("subspace", "explained_variance", subspace.explained_R[rank - 1].item(), rank=rank)
