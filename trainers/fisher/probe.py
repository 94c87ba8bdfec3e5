"""The probe of one starting encoder: Fisher information of qnorm and dnorm, and its norms, before any training.

Shapes: P pools of C pairs, N texts, H embedding size.
"""

from collections.abc import Callable
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
from trainers.attempts import Attempt
from trainers.encoders.encode import encode
from trainers.encoders.encoder import Encoder
from trainers.fisher.candidate_pools import plan_pools
from trainers.fisher.estimates import measure
from trainers.fisher.information import Point, Pool
from trainers.fisher.probe_rows import Row, probe_rows
from trainers.fisher.subspace import shared_subspace
from trainers.init_regimes import start_encoder
from trainers.provenance import provenance
from trainers.threads import set_threads
from trainers.training.batches import false_negatives
from trainers.training.matched_scale import matched
from trainers.training.pairs import TrainingPairs, load_pairs

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


def probe(spec: ProbeSpec) -> list[Row]:
    """Encode the probe's texts and compute its rows; the same spec and threads give the same bits.

    Raises:
        InputError: weights or data are not there.
        ValueError: the data does not fill a pool, or the embeddings are not finite or all the same.
    """
    set_threads(spec.execution.threads)
    pairs = load_pairs(spec.training_data)
    plan = plan_pools(pairs, num_queries=spec.num_queries, candidates_per_query=spec.candidates_per_query)
    encoder = _encoder(spec)
    embedded, held_out = (_embedded(encoder, pairs, indices) for indices in (plan.pool_PC, plan.held_out_S))
    pools = [embedded.pool(pairs, pool_C) for pool_C in plan.pool_PC]
    subspace = shared_subspace(torch.cat([held_out.query_NH, held_out.document_NH]))
    scales = {name: embedded.scale(spec.scale, name) for name in PROBED}
    points = {name: _point(name, scale.factor) for name, scale in scales.items()}
    return probe_rows(
        spec,
        measured={name: measure(pools, point, subspace.basis_HR) for name, point in points.items()},
        scales=scales,
        subspace=subspace,
        norms=_norm_statistics("query", embedded.query_NH) | _norm_statistics("document", embedded.document_NH),
        plan=plan,
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


def _embedded(encoder: Encoder, pairs: TrainingPairs, indices: NDArray[np.int64]) -> _Embedded:
    query_N = np.unique(pairs.query_index[indices])
    document_N = np.unique(pairs.document_index[indices])
    query_NH = encode(encoder, [pairs.query_texts[index] for index in query_N], "query")
    document_NH = encode(encoder, [pairs.document_texts[index] for index in document_N], "document")
    for side, vectors_NH in (("query", query_NH), ("document", document_NH)):
        broken = int((~np.isfinite(vectors_NH).all(axis=1)).sum())
        if broken:
            raise ValueError(
                f"{broken} of {len(vectors_NH)} {side} embeddings hold NaN or infinity before any training"
            )
    return _Embedded(
        query_N=query_N,
        query_NH=torch.from_numpy(query_NH),
        document_N=document_N,
        document_NH=torch.from_numpy(document_NH),
    )


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
