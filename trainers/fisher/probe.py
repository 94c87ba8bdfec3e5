"""The probe of one starting encoder: Fisher information of qnorm and dnorm, and its norms, before any training.

Shapes: P pools of C pairs, N texts, H embedding size.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from results import layout
from results.layout import Status
from results.rows import write_rows
from results.store import LostLockError, Store
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import probe_id
from search_spaces.specs import ProbeSpec, ScaleSpec, to_json
from trainers import data_sets
from trainers.attempts import Attempt
from trainers.encoders.encode import encode, token_ids
from trainers.encoders.encoder import Encoder, Side
from trainers.fisher.candidate_pools import ProbePairs, plan_pools
from trainers.fisher.estimates import EMPIRICAL, Measured, compare, growing, is_narrow, measure
from trainers.fisher.gamma import log_means
from trainers.fisher.head import head_pool, head_spectrum
from trainers.fisher.information import Point, Pool
from trainers.fisher.jackknife import Estimate
from trainers.fisher.norm_distance import irrelevant_texts, norm_distance
from trainers.fisher.probe_rows import Row, WholeSpectrum, probe_rows
from trainers.fisher.space import compare_effective_ranks
from trainers.fisher.subspace import Subspace, shared_subspace
from trainers.fisher.weights import TextPool, Texts, WeightsFisher, weights_spectrum
from trainers.init_regimes import start_encoder
from trainers.provenance import provenance
from trainers.threads import set_threads
from trainers.training.batches import false_negatives
from trainers.training.matched_scale import matched
from trainers.training.pairs import TrainingPairs, training_pairs

PROBED = ("qnorm", "dnorm")


def run_probe(spec: ProbeSpec, store: Store, *, verify: Callable[[], None]) -> Status:
    """Write the probe's rows, unless they are there; returns the status that the store now holds.

    A probe that fails is not raised but recorded. `verify` is called before each write, and raises LostLockError where
    this process may write no more; that error is passed on.
    """
    key = probe_id(spec)
    attempt = Attempt(store=store, prefix=layout.probe_prefix(key), verify=verify)
    if store.exists(layout.probe_rows(key)):
        return attempt.finish()
    started = attempt.start()
    try:
        store.write(layout.spec_key(layout.probe_prefix(key)), to_json(spec).encode())
        rows = probe(spec)
        verify()
        write_rows(store, layout.probe_rows(key), "probes", rows, provenance_json=provenance().to_json())
    except LostLockError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary where a probe's failure becomes its status
        return attempt.fail(error, started)
    return attempt.finish()


def probe(spec: ProbeSpec, *, clock: Callable[[], float] = time.monotonic) -> list[Row]:
    """Encode the probe's texts and compute its rows.

    Without a time budget the same spec and threads give the same bits. With one, pools are read an eighth, a quarter, a
    half of them at a time, until the intervals of block `embedding` are narrow or the next ones would take longer than
    what is left: the number that was read depends on the machine, and is in the rows. Blocks `head` and `weights` have
    sizes of their own and are outside of the budget.

    Raises:
        InputError: weights or data are not there.
        ValueError: the data does not fill a pool, or the embeddings are not finite or all the same.
    """
    set_threads(spec.execution.threads)
    pairs, irrelevant = _texts(spec)
    plan = plan_pools(pairs, num_queries=spec.num_queries, candidates_per_query=spec.candidates_per_query)
    encoder = _encoder(spec)
    started = clock()
    held_out = _embedded(encoder, pairs, plan.held_out_S)
    subspace = shared_subspace(torch.cat([held_out.query_NH, held_out.document_NH]))
    stages = growing(len(plan.pool_PC)) if spec.time_budget_s is not None else (len(plan.pool_PC),)
    seen = None
    for num_pools in stages:
        before, stage_started = (seen.num_pools if seen else 0), clock()
        seen = _read(spec, encoder, pairs, plan, subspace, num_pools, seen)
        if spec.time_budget_s is None or num_pools == stages[-1]:
            continue
        next_pools = stages[stages.index(num_pools) + 1] - num_pools
        next_s = (clock() - stage_started) / (num_pools - before) * next_pools
        if clock() - started + next_s > spec.time_budget_s or _is_enough(seen, subspace):
            break
    assert seen is not None, "there is at least one pool"
    return probe_rows(
        spec,
        measured=seen.measured,
        scales=seen.scales,
        subspace=subspace,
        norms=_norm_statistics("query", seen.embedded.query_NH)
        | _norm_statistics("document", seen.embedded.document_NH),
        plan=plan,
        num_pools=seen.num_pools,
        ranks=compare_effective_ranks(seen.pools, seen.points),
        distance=_distance(encoder, seen.embedded, irrelevant),
        num_irrelevant=len(irrelevant),
        whole=[*_heads(spec, seen), *_weights(spec, encoder, pairs, plan, seen)],
    )


def _texts(spec: ProbeSpec) -> tuple[TrainingPairs, list[str]]:
    """The training pairs, and documents of the same corpus that are relevant to none of their queries."""
    data, threshold = spec.training_data, spec.training_data.entry.relevance_threshold
    collection = data_sets.load(data.entry)
    pairs = training_pairs(collection, data.split, relevance_threshold=threshold)
    return pairs, irrelevant_texts(collection, data.split, pairs.document_texts, threshold=threshold)


def _distance(encoder: Encoder, embedded: "_Embedded", irrelevant: Sequence[str]) -> Estimate | None:
    """Cohen's d of the documents' norms: those of the pools against irrelevant ones, if there are any."""
    if not irrelevant:
        return None
    others_NH = torch.from_numpy(_finite(encode(encoder, irrelevant, "document"), "document"))
    return norm_distance(_norms(embedded.document_NH), _norms(others_NH))


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What the first pools of the plan say."""

    num_pools: int
    embedded: "_Embedded"
    pools: Sequence[Pool]
    scales: Mapping[str, ScaleSpec]
    points: Mapping[str, Point]
    measured: Mapping[str, Measured]


def _read(
    spec: ProbeSpec,
    encoder: Encoder,
    pairs: TrainingPairs,
    plan: ProbePairs,
    subspace: Subspace,
    num_pools: int,
    before: _Seen | None,
) -> _Seen:
    """The first `num_pools` pools, of which those in `before` are encoded already."""
    pool_PC = plan.pool_PC[:num_pools]
    embedded = _embedded(encoder, pairs, pool_PC, before.embedded if before else None)
    pools = [embedded.pool(pairs, pool_C) for pool_C in pool_PC]
    scales = {name: embedded.scale(spec.scale, name) for name in PROBED}
    points = {name: _point(name, scale.factor) for name, scale in scales.items()}
    means = log_means(embedded.query_NH, embedded.document_NH) if "gamma" in spec.blocks else None
    head_pools = _whole_pools(spec.head_queries, spec) if "head" in spec.blocks else 0
    measured = {
        name: measure(pools, point, subspace.basis_HR, means=means, head_pools=head_pools, labels=_labels(spec))
        for name, point in points.items()
    }
    return _Seen(num_pools=num_pools, embedded=embedded, pools=pools, scales=scales, points=points, measured=measured)


def _is_enough(seen: _Seen, subspace: Subspace) -> bool:
    one, other = seen.measured.values()
    return all(is_narrow(compare(one, other, "embedding", rank)) for rank in subspace.ranks)


def _labels(spec: ProbeSpec) -> tuple[str, ...]:
    return ("", EMPIRICAL) if spec.empirical else ("",)


def _whole_pools(num_queries: int, spec: ProbeSpec) -> int:
    """How many pools so many queries fill, at least one."""
    return max(1, num_queries // spec.candidates_per_query)


def _heads(spec: ProbeSpec, seen: _Seen) -> Iterator[WholeSpectrum]:
    """Block `head` in all of its H^2 dimensions."""
    if "head" not in spec.blocks:
        return
    pools = seen.pools[: _whole_pools(spec.head_queries, spec)]
    for label in _labels(spec):
        for name, point in seen.points.items():
            found = head_spectrum([head_pool(pool, point, observed=label == EMPIRICAL) for pool in pools])
            yield WholeSpectrum(
                block=f"{label}head",
                similarity=name,
                seen=found.seen,
                num_parameters=seen.embedded.query_NH.shape[1] ** 2,
                num_queries=sum(len(pool.query_QH) for pool in pools),
                eigenvalues=() if found.eigenvalues is None else found.eigenvalues.tolist(),
            )


def _weights(
    spec: ProbeSpec, encoder: Encoder, pairs: TrainingPairs, plan: ProbePairs, seen: _Seen
) -> Iterator[WholeSpectrum]:
    """Block `weights`. It comes last: the encoder's attention is another one from then on."""
    if "weights" not in spec.blocks:
        return
    num_pools = min(seen.num_pools, _whole_pools(spec.weights_queries, spec))
    pools = [_text_pool(encoder, pairs, pool_C) for pool_C in plan.pool_PC[:num_pools]]
    for label in _labels(spec):
        for name, point in seen.points.items():
            fisher = WeightsFisher(encoder, pools, point, layers=spec.weights_layers, observed=label == EMPIRICAL)
            yield WholeSpectrum(
                block=f"{label}weights",
                similarity=name,
                seen=weights_spectrum(fisher),
                num_parameters=fisher.num_parameters,
                num_queries=sum(len(pool.masked_QD) for pool in pools),
            )


def _text_pool(encoder: Encoder, pairs: TrainingPairs, pool_C: NDArray[np.int64]) -> TextPool:
    document_C = pairs.document_index[pool_C]
    queries = [pairs.query_texts[index] for index in pairs.query_index[pool_C]]
    documents = [pairs.document_texts[index] for index in document_C]
    return TextPool(
        query=Texts(side="query", ids=token_ids(encoder, queries, "query")),
        document=Texts(side="document", ids=token_ids(encoder, documents, "document")),
        document_D=torch.from_numpy(document_C),
        masked_QD=torch.from_numpy(false_negatives(pairs, pool_C)),
    )


@dataclass(frozen=True, kw_only=True)
class _Embedded:
    """Raw embeddings of the texts of some pairs, each once, and their indices in the training pairs, rising."""

    query_N: NDArray[np.int64]
    query_NH: Tensor
    document_N: NDArray[np.int64]
    document_NH: Tensor

    def scale(self, scale: ScaleSpec, similarity: str) -> ScaleSpec:
        """The scale of a similarity: a matched one with the divisor that these texts give."""
        found = SIMILARITIES[similarity]
        return matched(
            scale,
            found.gamma_q,
            found.gamma_d,
            query_norms=lambda: _norms(self.query_NH),
            document_norms=lambda: _norms(self.document_NH),
        )

    def pool(self, pairs: TrainingPairs, pool_C: NDArray[np.int64]) -> Pool:
        """The pool of these pairs."""
        document_C = pairs.document_index[pool_C]
        return Pool(
            query_QH=self.query_NH[np.searchsorted(self.query_N, pairs.query_index[pool_C])],
            document_DH=self.document_NH[np.searchsorted(self.document_N, document_C)],
            document_D=torch.from_numpy(document_C),
            masked_QD=torch.from_numpy(false_negatives(pairs, pool_C)),
        )


def _encoder(spec: ProbeSpec) -> Encoder:
    if spec.execution.device == "gpu" and not torch.cuda.is_available():
        raise ValueError("the probe's device is 'gpu', but torch finds none here")
    encoder = start_encoder(spec.encoder, spec.seed).to("cuda" if spec.execution.device == "gpu" else "cpu")
    encoder.instruct(spec.training_data.entry.instruction)
    return encoder


def _embedded(
    encoder: Encoder, pairs: TrainingPairs, indices: NDArray[np.int64], before: _Embedded | None = None
) -> _Embedded:
    """The texts of these pairs, among them all of `before`, which are not encoded again."""
    query_N, query_NH = _side(
        encoder,
        "query",
        pairs.query_texts,
        pairs.query_index[indices],
        (before.query_N, before.query_NH) if before else None,
    )
    document_N, document_NH = _side(
        encoder,
        "document",
        pairs.document_texts,
        pairs.document_index[indices],
        (before.document_N, before.document_NH) if before else None,
    )
    return _Embedded(query_N=query_N, query_NH=query_NH, document_N=document_N, document_NH=document_NH)


def _side(
    encoder: Encoder,
    side: Side,
    texts: Sequence[str],
    indices: NDArray[np.int64],
    before: tuple[NDArray[np.int64], Tensor] | None,
) -> tuple[NDArray[np.int64], Tensor]:
    """Different indices, rising, and their texts' embeddings."""
    wanted = np.unique(indices)
    new = wanted if before is None else np.setdiff1d(wanted, before[0])
    found_NH = torch.from_numpy(_finite(encode(encoder, [texts[index] for index in new], side), side))
    if before is None:
        return new, found_NH
    order = np.argsort(index_N := np.concatenate([before[0], new]), kind="stable")
    return index_N[order], torch.cat([before[1], found_NH])[order]


def _finite(vectors_NH: NDArray[np.float32], side: Side) -> NDArray[np.float32]:
    broken = int((~np.isfinite(vectors_NH).all(axis=1)).sum())
    if broken:
        raise ValueError(f"{broken} of {len(vectors_NH)} {side} embeddings hold NaN or infinity before any training")
    return vectors_NH


def _point(similarity: str, scale: float) -> Point:
    found = SIMILARITIES[similarity]
    return Point(gamma_q=found.gamma_q, gamma_d=found.gamma_d, scale=scale)


def _norms(vectors_NH: Tensor) -> NDArray[np.float64]:
    norm_N: NDArray[np.float64] = torch.linalg.vector_norm(vectors_NH.double(), dim=1).numpy()
    return norm_N


def _norm_statistics(side: str, vectors_NH: Tensor) -> dict[str, float]:
    """Mean, deviation (of these texts, not a sample's) and their ratio of one side's norms; each text counts once."""
    norm_N = _norms(vectors_NH)
    mean, deviation = float(norm_N.mean()), float(norm_N.std())
    found = {f"{side}_norm_mean": mean, f"{side}_norm_std": deviation}
    return found | ({f"{side}_norm_cv": deviation / mean} if mean else {})
