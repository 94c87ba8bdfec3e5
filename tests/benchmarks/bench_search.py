"""Exact search of 1,000 queries over 1M vectors: time and memory against FAISS and mteb, and memory as a corpus grows.

FAISS (IndexFlatIP) holds all vectors in memory as float32; ours and mteb's search read them from a memory-mapped
file, block by block. mteb's search is its own chunked one, given embeddings that are read instead of encoded.
"""

import contextlib
import importlib.util
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness import Block, Contestant, Gate, in_turn
from tests.benchmarks.options import Options
from tests.benchmarks.spread import Ratio, ratio_of
from tests.benchmarks.vectors import SIZE, queries, write_vectors

NUM_DOCUMENTS, NUM_QUERIES, K = 1_000_000, 1_000, 100
GROWING = (100_000, 1_000_000, 4_000_000)
TIME_TARGET, MEMORY_TARGET = 1.1, 0.25
_SAMPLED_S = 0.005
_MIB = 2**20
_MTEB_CHUNK = 50_000  # its default


@dataclass(frozen=True, kw_only=True)
class SearchJob:
    """A search.

    Attributes:
        vectors: the file of the vectors.
        num_documents: how many to search: where the file has fewer, it is searched again, each time a bit longer.
        threads: computing threads.
        told: a file for the peak of memory, in bytes above that of the process before it held a vector.
    """

    vectors: Path
    num_documents: int
    threads: int
    told: Path


@dataclass(frozen=True, kw_only=True)
class Result:
    """Ours over a peer: the time of a search (in pairs of neighbouring searches) and peak memory."""

    peer: str
    threads: int
    ours_s: float
    cpu: Ratio
    wall: Ratio
    ours_bytes: int
    peer_bytes: int

    def __str__(self) -> str:
        memory = (
            f"memory x {self.ours_bytes / self.peer_bytes:.2f}, {_mib(self.ours_bytes)} : {_mib(self.peer_bytes)} MiB"
        )
        time = f"seconds: ours {self.ours_s:.1f} of cpu; cpu x {self.cpu}  wall x {self.wall}"
        return f"ours over {self.peer}, threads {self.threads}: {time}  {memory}"


@dataclass(frozen=True, kw_only=True)
class Grown:
    """Ours over a corpus of one size: peak memory above the process before it held a vector, and without tie ranks."""

    num_documents: int
    cpu_s: float
    peak_bytes: int

    def __str__(self) -> str:
        return f"{self.num_documents:>9,} documents: {self.cpu_s:.1f} s of cpu, peak {_mib(self.peak_bytes)} MiB"


def run(options: Options) -> Iterator[Result | Grown | str]:
    """The ratios to each peer that is installed, then ours over ever larger corpora."""
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "vectors.npy"
        write_vectors(vectors, NUM_DOCUMENTS)
        job = SearchJob(
            vectors=vectors, num_documents=NUM_DOCUMENTS, threads=options.threads, told=Path(folder) / "ours"
        )
        yield f"targets against faiss: time {TIME_TARGET}, memory {MEMORY_TARGET}"
        for peer, search in {"faiss": search_faiss, "mteb": search_mteb}.items():
            if importlib.util.find_spec(peer) is None:
                yield f"{peer}: left out, it is not installed"
                continue
            yield _against(
                peer, Contestant(name=peer, run=search, job=replace(job, told=Path(folder) / peer)), job, options
            )
        for num_documents in GROWING:
            yield _grown(replace(job, num_documents=num_documents, told=Path(folder) / str(num_documents)))


def search_ours(job: SearchJob, gate: Gate) -> None:
    """The contestant: each unit is a search of the whole corpus from its file."""
    from trainers.threads import set_threads

    set_threads(job.threads)
    from tests.trainers.whole_search import in_blocks
    from trainers import search

    vector_NH = np.load(job.vectors, mmap_mode="r")
    query_QH = queries(vector_NH, NUM_QUERIES)
    tie_rank_N = np.random.default_rng(2).permutation(job.num_documents)

    def blocks() -> Iterator[Any]:
        for round_number in range(-(-job.num_documents // len(vector_NH))):
            left = job.num_documents - round_number * len(vector_NH)
            for block in in_blocks(vector_NH[:left]):
                # Longer each time, so that a repeated vector does not tie with itself.
                norm_D = np.full(len(block), 1 + round_number / 64, np.float32) if round_number else None
                first = block.first + round_number * len(vector_NH)
                yield search.Block(first=first, vector_DH=block.vector_DH, norm_D=norm_D)

    while True:
        with _peak_told(job.told):
            searcher = search.Searcher(query_QH, K, tie_rank_N=tie_rank_N)
            for block in blocks():
                searcher.add(block)
            best = searcher.rankings()[0.0].score_QK[:, 0]
        gate.unit_done(float(best.mean()))


def search_faiss(job: SearchJob, gate: Gate) -> None:
    """The contestant: the first unit builds the index too; each searches it."""
    from trainers.threads import set_threads

    set_threads(job.threads)
    import faiss

    faiss.omp_set_num_threads(job.threads)
    vector_NH = np.load(job.vectors, mmap_mode="r")
    query_QH = queries(vector_NH, NUM_QUERIES)
    with _peak_told(job.told):
        index = faiss.IndexFlatIP(SIZE)
        for start in range(0, job.num_documents, _MTEB_CHUNK):
            index.add(vector_NH[start : start + _MTEB_CHUNK].astype(np.float32))
        score_QK, _ = index.search(query_QH, K)
    while True:
        gate.unit_done(float(score_QK[:, 0].mean()))
        score_QK, _ = index.search(query_QH, K)


def search_mteb(job: SearchJob, gate: Gate) -> None:
    """The contestant: mteb's search over the corpus in its chunks, with an encoder that reads them from the file."""
    from trainers.threads import set_threads

    set_threads(job.threads)
    import torch
    from mteb.models import search_wrappers
    from mteb.similarity_functions import dot_score

    vector_NH = np.load(job.vectors, mmap_mode="r")
    query_QH = torch.from_numpy(queries(vector_NH, NUM_QUERIES))
    search_wrappers.create_dataloader = lambda rows, **_: rows  # no texts are tokenised or loaded
    while True:
        with _peak_told(job.told):
            found = search_wrappers.chunked_full_corpus_search(
                task_corpus=_Corpus(range(job.num_documents)),
                corpus_chunk_size=_MTEB_CHUNK,
                query_idx_to_id={row: str(row) for row in range(NUM_QUERIES)},
                query_embeddings=query_QH,
                task_metadata=None,
                hf_subset="default",
                hf_split="test",
                top_k=K,
                encode_kwargs={"show_progress_bar": False},
                encode_fn=lambda corpus, **_: torch.from_numpy(
                    vector_NH[corpus.rows.start : corpus.rows.stop].astype(np.float32)
                ),
                similarity_fn=dot_score,
                search_k_offset=1,
            )
        gate.unit_done(float(np.mean([max(pairs)[0] for pairs in found.values()])))


@dataclass(frozen=True)
class _Corpus:
    """As much of a data set as mteb's search asks for."""

    rows: range

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: range) -> "_Corpus":
        return _Corpus(rows)

    def __getitem__(self, column: str) -> list[str]:
        return [str(row) for row in self.rows]


@contextlib.contextmanager
def _peak_told(file: Path) -> Iterator[None]:
    """Write the peak of memory within, above that at its start; pages of mapped files are not counted.

    Only the first time: later, memory that the process has kept is in what it started from.
    """
    if file.exists():
        yield
        return
    before, peak, ended = _anonymous_bytes(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(_SAMPLED_S):
            peak[0] = max(peak[0], _anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        file.write_text(str(max(peak[0] - before, 1)))


def _anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def _against(name: str, peer: Contestant, job: SearchJob, options: Options) -> Result:
    contestants = [Contestant(name="ours", run=search_ours, job=job), peer]
    blocks = in_turn(contestants, rounds=options.rounds, units={"ours": 1, name: 1})
    _check_equal(blocks, name)
    paired = list(zip(blocks["ours"][1:], blocks[name][1:], strict=True))
    return Result(
        peer=name,
        threads=options.threads,
        ours_s=float(np.median([ours.cpu_s for ours, _ in paired])),
        cpu=ratio_of([ours.cpu_s / theirs.cpu_s for ours, theirs in paired]),
        wall=ratio_of([ours.wall_s / theirs.wall_s for ours, theirs in paired]),
        ours_bytes=int(job.told.read_text()),
        peer_bytes=int(peer.job.told.read_text()),
    )


def _check_equal(blocks: dict[str, list[Block]], peer: str) -> None:
    ours, theirs = blocks["ours"][0].values[0], blocks[peer][0].values[0]
    if abs(ours - theirs) > 1e-5 * abs(theirs):
        raise RuntimeError(f"the mean of the best scores is {ours} here and {theirs} with {peer}")


def _grown(job: SearchJob) -> Grown:
    found = in_turn([Contestant(name="ours", run=search_ours, job=job)], rounds=0, units={"ours": 1})["ours"][0]
    return Grown(num_documents=job.num_documents, cpu_s=found.cpu_s, peak_bytes=int(job.told.read_text()))


def _mib(num_bytes: int) -> int:
    return round(num_bytes / _MIB)
