"""What a Fisher probe costs: against encoding its texts, `head` by itself, and `weights` against curvlinops.

`probe`: MiniLM on `attack`, 1,024 queries x 64 candidates, blocks embedding and gamma, both similarities with their
jackknife intervals, spectra and curves, from files to rows; over the time of encoding the same texts (pools and those
that are held out). `head`: 512 queries x 64 candidates, from embeddings to the spectrum under both similarities.
`weights`: products of the same vectors with the Fisher information of the same weights, over one pool, by
`GGNLinearOperator` of curvlinops (left out where that is not installed); that both give the same is checked first.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.specs import DataSpec, Execution, ProbeSpec, ScaleSpec
from tests.benchmarks.bench_encode import minilm
from tests.benchmarks.harness import Contestant, Gate, in_turn
from tests.benchmarks.options import Options
from tests.benchmarks.spread import Ratio, ratio_of, speedup

DATA, NUM_QUERIES, CANDIDATES, HEAD_QUERIES, LENGTH = "attack", 1024, 64, 512, 64
PROBE_TARGET, HEAD_TARGET_S, HEAD_TARGET_BYTES = 2.0, 60.0, 4 << 30
WEIGHTS_PAIRS, WEIGHTS_VECTORS = 16, 4
_TOLERANCE = 1e-3  # of the largest entry: both are float32


@dataclass(frozen=True, kw_only=True)
class Probed:
    """CPU seconds of probes over those of encoding, in neighbouring pairs."""

    num_texts: int
    probe_cpu_s: float
    encode_cpu_s: float
    ratio: Ratio

    def __str__(self) -> str:
        return (
            f"probe of {NUM_QUERIES} queries: {self.probe_cpu_s:.1f} s of cpu, encoding its {self.num_texts} texts "
            f"{self.encode_cpu_s:.1f} s: x {self.ratio} (target at most {PROBE_TARGET:g})"
        )


@dataclass(frozen=True, kw_only=True)
class Head:
    """The whole block `head` of both similarities."""

    wall_s: float
    cpu_s: float
    peak_bytes: int | None

    def __str__(self) -> str:
        peak = "?" if self.peak_bytes is None else f"{self.peak_bytes / 2**30:.2f}"
        return (
            f"head, {HEAD_QUERIES} queries x {CANDIDATES} candidates, both similarities: {self.cpu_s:.1f} s of cpu, "
            f"{self.wall_s:.1f} s wall, {peak} GiB above libraries "
            f"(target {HEAD_TARGET_S:g} s on 2 cores, {HEAD_TARGET_BYTES / 2**30:g} GiB)"
        )


@dataclass(frozen=True, kw_only=True)
class Weights:
    """How much faster than curvlinops the same products are."""

    layers: int | None
    num_parameters: int
    ours_cpu_s: float
    peer_cpu_s: float
    cpu: Ratio

    def __str__(self) -> str:
        which = "all weights" if self.layers is None else f"last {self.layers} layer"
        return (
            f"weights ({which}, {self.num_parameters:,}), {WEIGHTS_VECTORS} products over {WEIGHTS_PAIRS} pairs: ours "
            f"{self.ours_cpu_s:.2f} s of cpu, curvlinops {self.peer_cpu_s:.2f} s: x {self.cpu} (target at least 1)"
        )


def run(options: Options) -> Iterator[Probed | Head | Weights | str]:
    """All three."""
    yield probe_against_encoding(options)
    yield head_alone(options)
    if find_spec("curvlinops") is None:
        yield "weights: left out, curvlinops is not installed"
        return
    for layers in (1, None):
        yield weights_against_curvlinops(layers, options)


def probed(num_queries: int = NUM_QUERIES, candidates: int = CANDIDATES) -> ProbeSpec:
    """The probe that is measured."""
    encoder = replace(minilm(), max_query_length=LENGTH, max_document_length=LENGTH)
    return ProbeSpec(
        task="contrastive",
        encoder=replace(encoder, weights=replace(encoder.weights, content_hash="of no sweep")),
        seed=None,
        training_data=DataSpec(
            entry=DATA_SETS[DATA],
            split=DATA_SETS[DATA].train_split or "train",
            content_hash="of no sweep",
            num_pairs=num_queries,
        ),
        scale=ScaleSpec(mode="fixed", value=20.0),
        num_queries=num_queries,
        candidates_per_query=candidates,
        execution=Execution(threads=int(os.environ.get("OMP_NUM_THREADS", "1"))),
    )


def probe_against_encoding(options: Options) -> Probed:
    """In turn, so that what slows the machine slows both."""
    jobs = {"probe": run_probe, "encode": run_encoding}
    contestants = [Contestant(name=n, run=f, job=None, environment=_threads(options)) for n, f in jobs.items()]
    blocks = in_turn(contestants, rounds=options.rounds, units={"probe": 1, "encode": 1})
    probes, encodings = blocks["probe"][1:], blocks["encode"][1:]
    return Probed(
        num_texts=int(encodings[-1].values[-1]),
        probe_cpu_s=float(np.median([block.cpu_s for block in probes])),
        encode_cpu_s=float(np.median([block.cpu_s for block in encodings])),
        ratio=ratio_of([p.cpu_s / e.cpu_s for p, e in zip(probes, encodings, strict=True)]),
    )


def run_probe(job: None, gate: Gate) -> None:
    """The contestant: a probe as a sweep runs it, but for the writing of its rows."""
    from trainers.fisher.probe import probe

    probe(probed(num_queries=64, candidates=8))
    gate.unit_done()
    while True:
        gate.unit_done(float(len(probe(probed()))))


def run_encoding(job: None, gate: Gate) -> None:
    """The contestant: encoding the texts of that probe."""
    from trainers.encoders.encode import encode
    from trainers.fisher.candidate_pools import plan_pools
    from trainers.init_regimes import start_encoder
    from trainers.threads import set_threads
    from trainers.training.pairs import load_pairs

    spec = probed()
    set_threads(spec.execution.threads)
    encoder, pairs = start_encoder(spec.encoder, None), load_pairs(spec.training_data)
    plan = plan_pools(pairs, num_queries=spec.num_queries, candidates_per_query=spec.candidates_per_query)
    indices = np.concatenate([plan.pool_PC.ravel(), plan.held_out_S])
    queries = [pairs.query_texts[i] for i in np.unique(pairs.query_index[indices])]
    documents = [pairs.document_texts[i] for i in np.unique(pairs.document_index[indices])]
    encode(encoder, queries[:64], "query")
    gate.unit_done()
    while True:
        encode(encoder, queries, "query")
        encode(encoder, documents, "document")
        gate.unit_done(float(len(queries) + len(documents)))


def head_alone(options: Options) -> Head:
    """Once, in a process of its own."""
    job = Contestant(name="head", run=run_head, job=None, environment=_threads(options))
    block = in_turn([job], rounds=1, units={"head": 1})["head"][-1]
    return Head(wall_s=block.wall_s, cpu_s=block.cpu_s, peak_bytes=block.peak_bytes)


def run_head(job: None, gate: Gate) -> None:
    """The contestant: block `head` as a probe computes it, in the shared subspace and in all of its dimensions."""
    import torch

    from trainers.fisher.estimates import HEAD, compare, measure, ranks_of
    from trainers.fisher.head import head_pool, head_spectrum
    from trainers.fisher.information import Point, Pool
    from trainers.fisher.subspace import RANKS, shared_subspace
    from trainers.threads import set_threads

    set_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    gate.memory_from_here()
    draw = torch.Generator().manual_seed(0)
    # Embeddings as MiniLM has them, by number and fall of their variances: what it costs depends on their shape alone.
    deviations = torch.arange(1, 385).pow(-0.5)
    shape = (HEAD_QUERIES // CANDIDATES, 2, CANDIDATES, len(deviations))
    vectors = torch.randn(shape, generator=draw) * deviations
    pools = [
        Pool(
            query_QH=query_QH,
            document_DH=query_QH + document_DH,
            document_D=torch.arange(CANDIDATES),
            masked_QD=torch.zeros(CANDIDATES, CANDIDATES, dtype=torch.bool),
        )
        for query_QH, document_DH in vectors
    ]
    gate.unit_done()
    while True:
        basis_HR, measured = shared_subspace(vectors.flatten(0, 2)).basis_HR, []
        for gamma_q, gamma_d in ((1.0, 0.0), (0.0, 1.0)):
            point = Point(gamma_q=gamma_q, gamma_d=gamma_d, scale=3.0)
            measured.append(measure(pools, point, basis_HR, head_pools=len(pools)))
            head_spectrum([head_pool(pool, point) for pool in pools])
        for rank in ranks_of(HEAD, RANKS):
            compare(*measured, HEAD, rank)
        gate.unit_done()


def weights_against_curvlinops(layers: int | None, options: Options) -> Weights:
    """The same vectors by both; what the products are is compared first."""
    jobs = {"ours": run_weights, "peer": run_curvlinops}
    contestants = [Contestant(name=n, run=f, job=layers, environment=_threads(options)) for n, f in jobs.items()]
    blocks = in_turn(contestants, rounds=options.rounds, units={"ours": 1, "peer": 1})
    ours, peer = blocks["ours"][1:], blocks["peer"][1:]
    told = [side[-1].values[-1] for side in (ours, peer)]
    if abs(told[0] - told[1]) > _TOLERANCE * abs(told[1]):
        raise RuntimeError(f"the products of both sides differ: {told[0]:.6g} and {told[1]:.6g}")
    return Weights(
        layers=layers,
        num_parameters=_num_parameters(layers),
        ours_cpu_s=float(np.median([block.cpu_s for block in ours])),
        peer_cpu_s=float(np.median([block.cpu_s for block in peer])),
        cpu=speedup(ours, peer, "cpu"),
    )


def run_weights(layers: int | None, gate: Gate) -> None:
    """The contestant: ours."""
    from trainers.fisher.weights import WeightsFisher

    encoder, pool, point = weights_problem()
    fisher = WeightsFisher(encoder, [pool], point, layers=layers)
    vectors_KN = weights_vectors(fisher.num_parameters)
    fisher(vectors_KN[:1])
    gate.unit_done()
    while True:
        images_KN = fisher(vectors_KN)
        gate.unit_done((images_KN * vectors_KN).sum().item())


def run_curvlinops(layers: int | None, gate: Gate) -> None:
    """The contestant: the generalised Gauss-Newton matrix of the cross entropy, which is the Fisher information."""
    import torch
    from curvlinops import GGNLinearOperator

    from trainers.fisher.weights import weights_of

    encoder, pool, point = weights_problem()
    encoder.eval()
    encoder.use_eager_attention()
    weights = list(weights_of(encoder, layers).values())

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, _: Any) -> Any:
            query, document = (self.encoder(*encoder.pad(t.ids), t.side) for t in (pool.query, pool.document))
            norms = query.norm(dim=1, keepdim=True) ** point.gamma_q * document.norm(dim=1) ** point.gamma_d
            return point.scale * (query @ document.T) / norms

    num_pairs = len(pool.masked_QD)
    data = [(torch.zeros(num_pairs, 1), torch.arange(num_pairs))]
    operator = GGNLinearOperator(Logits(), torch.nn.CrossEntropyLoss(), weights, data, check_deterministic=False)
    vectors_NK = weights_vectors(sum(weight.numel() for weight in weights)).T.contiguous()
    _ = operator @ vectors_NK[:, :1]
    gate.unit_done()
    while True:
        images_NK = operator @ vectors_NK
        gate.unit_done((images_NK * vectors_NK).sum().item())


def weights_problem() -> tuple[Any, Any, Any]:
    """MiniLM's encoder, one pool of pairs of `attack` none of which are masked, and qnorm at a mild scale."""
    import torch

    from trainers.encoders.encode import token_ids
    from trainers.fisher.candidate_pools import plan_pools
    from trainers.fisher.information import Point
    from trainers.fisher.weights import TextPool, Texts
    from trainers.init_regimes import start_encoder
    from trainers.threads import set_threads
    from trainers.training.pairs import load_pairs

    spec = probed()
    set_threads(spec.execution.threads)
    encoder, pairs = start_encoder(spec.encoder, None), load_pairs(spec.training_data)
    plan = plan_pools(pairs, num_queries=WEIGHTS_PAIRS, candidates_per_query=WEIGHTS_PAIRS)
    queries = [pairs.query_texts[i] for i in pairs.query_index[plan.pool_PC[0]]]
    documents = [pairs.document_texts[i] for i in pairs.document_index[plan.pool_PC[0]]]
    pool = TextPool(
        query=Texts(side="query", ids=token_ids(encoder, queries, "query")),
        document=Texts(side="document", ids=token_ids(encoder, documents, "document")),
        document_D=torch.arange(WEIGHTS_PAIRS),
        masked_QD=torch.zeros(WEIGHTS_PAIRS, WEIGHTS_PAIRS, dtype=torch.bool),
    )
    return encoder, pool, Point(gamma_q=1.0, gamma_d=0.0, scale=3.0)


def weights_vectors(num_parameters: int) -> Any:
    """The vectors that are multiplied with, float32 [K, N]."""
    import torch

    from trainers.fisher.lanczos import signs

    return signs(WEIGHTS_VECTORS, num_parameters, 0, torch.float32)


def _num_parameters(layers: int | None) -> int:
    from trainers.fisher.weights import weights_of
    from trainers.init_regimes import start_encoder

    return sum(weight.numel() for weight in weights_of(start_encoder(minilm(), None), layers).values())


def _threads(options: Options) -> dict[str, str]:
    threads = str(options.threads)
    return {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
