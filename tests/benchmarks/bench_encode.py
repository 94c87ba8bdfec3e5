"""Encoding against SentenceTransformer.encode: same model, texts, precision and threads, each combination by itself.

The model is all-MiniLM-L6-v2 at 256 tokens. The peer makes batches of 32 texts (its default) and sorts by length, as
this project does; it shows no progress bars. A call gets 1,024 texts: among few, sorting finds the peer no neighbours
of like length, and its pads would flatter this project. Models are loaded, and have encoded some texts, before the
first block.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from search_spaces.specs import EncoderSpec, Precision, WeightsSpec
from tests.benchmarks.data import SHARED
from tests.benchmarks.harness import Block, Contestant, Gate, in_turn
from tests.benchmarks.jobs import MAX_LENGTH, minilm_folder
from tests.benchmarks.options import Options
from tests.benchmarks.spread import Ratio, per_second, speedup

COLLECTIONS = ("medquad", "scifact")
PEER_BATCH = 32
TARGET, GOAL = 1.15, 1.3
_TEXTS_OF_A_UNIT, _TEXTS_OF_THE_FIRST = 1024, 64
_TOLERANCE = {"fp32": 1e-4, "bf16": 5e-2}  # of the largest value


@dataclass(frozen=True, kw_only=True)
class EncodeJob:
    """What both sides encode: a file with JSON lists of texts, one for warming up and one for each block, and how."""

    texts: Path
    precision: Precision
    threads: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables that fix the number of threads before a library starts its own."""
        threads = str(self.threads)
        return {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "RAYON_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "true" if self.threads > 1 else "false",
            "TQDM_DISABLE": "1",
        }

    def units(self) -> Iterator[Sequence[str]]:
        """The texts of one unit after the other, and all but the first again, for ever."""
        first, *others = json.loads(self.texts.read_text())
        yield first
        while True:
            yield from others


@dataclass(frozen=True, kw_only=True)
class Result:
    """How much faster the same texts were encoded, in pairs of neighbouring blocks, and by how much vectors differ."""

    data: str
    precision: Precision
    threads: int
    ours_docs_per_cpu_s: float
    peer_docs_per_cpu_s: float
    cpu: Ratio
    wall: Ratio

    def __str__(self) -> str:
        speed = f"documents a second of cpu: ours {self.ours_docs_per_cpu_s:.1f}, peer {self.peer_docs_per_cpu_s:.1f}"
        case = f"{self.data}, {self.precision}, threads {self.threads}"
        return f"{case}: {speed}  cpu x {self.cpu}  wall x {self.wall}  (target {TARGET}, goal {GOAL})"


def run(options: Options) -> Iterator[Result | str]:
    """The ratio for each collection at each precision, with each number of threads."""
    for name in COLLECTIONS:
        if not (SHARED / name).is_dir():
            yield f"{name}: left out, there is no ../shared/data/{name} beside the repository"
            continue
        for threads in options.all_threads:
            for precision in options.precisions:
                yield _against_sentence_transformers(name, precision, replace(options, threads=threads))


def _against_sentence_transformers(name: str, precision: Precision, options: Options) -> Result:
    units = units_of(documents(name), options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(units))
        job = EncodeJob(texts=file, precision=precision, threads=options.threads)
        contestants = [
            Contestant(name="ours", run=encode_ours, job=job, environment=job.environment),
            Contestant(name="peer", run=encode_peer, job=job, environment=job.environment),
        ]
        blocks = in_turn(contestants, rounds=options.rounds, units={"ours": 1, "peer": 1})
    _check_equal(blocks["ours"], blocks["peer"], precision)
    ours, peer = blocks["ours"][1:], blocks["peer"][1:]
    num_documents = len(units[-1])
    return Result(
        data=name,
        precision=precision,
        threads=options.threads,
        ours_docs_per_cpu_s=per_second(ours, num_documents, "cpu"),
        peer_docs_per_cpu_s=per_second(peer, num_documents, "cpu"),
        cpu=speedup(ours, peer, "cpu"),
        wall=speedup(ours, peer, "wall"),
    )


def documents(name: str) -> list[str]:
    """The documents of a shared collection as they are encoded, in an order drawn by a fixed seed."""
    lines = [json.loads(line) for line in (SHARED / name / "corpus.jsonl").open()]
    texts = [f"{line.get('title', '')} {line['text']}".strip() for line in lines]
    return [texts[index] for index in np.random.default_rng(0).permutation(len(texts))]


def units_of(texts: Sequence[str], num_blocks: int) -> list[list[str]]:
    """Some texts to warm up with, then those of each block: of equal number, and few enough blocks to be different."""
    first, others = texts[:_TEXTS_OF_THE_FIRST], texts[_TEXTS_OF_THE_FIRST:]
    starts = range(0, len(others) - _TEXTS_OF_A_UNIT + 1, _TEXTS_OF_A_UNIT)
    return [list(first), *(list(others[start : start + _TEXTS_OF_A_UNIT]) for start in starts[:num_blocks])]


def encode_ours(job: EncodeJob, gate: Gate) -> None:
    """The contestant: this project's `encode`. A unit's value tells whether both sides give the same vectors."""
    from trainers.threads import set_threads

    set_threads(job.threads)
    from trainers.encoders.encode import encode
    from trainers.init_regimes import start_encoder

    encoder = start_encoder(minilm(), None)
    for texts in job.units():
        gate.unit_done(_told(encode(encoder, texts, "document", precision=job.precision)))


def encode_peer(job: EncodeJob, gate: Gate) -> None:
    """The contestant: SentenceTransformer.encode."""
    import torch

    torch.set_num_threads(job.threads)
    model = sentence_transformer()
    for texts in job.units():
        with torch.autocast("cpu", torch.bfloat16, enabled=job.precision == "bf16"):
            found = model.encode(list(texts), batch_size=PEER_BATCH, show_progress_bar=False)
        gate.unit_done(_told(found))


def minilm() -> EncoderSpec:
    """All-MiniLM-L6-v2 as its sentence-transformers folder describes it."""
    return EncoderSpec(
        family="minilm",
        init_regime="finetune",
        weights=WeightsSpec(source=f"path:{minilm_folder()}"),
        layers=None,
        pooling="mean",
        append_eos=False,
        query_prompt="",
        document_prompt="",
        max_query_length=MAX_LENGTH,
        max_document_length=MAX_LENGTH,
    )


def sentence_transformer() -> Any:
    """The same model, loaded by the peer."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm_folder()), device="cpu")
    model.max_seq_length = MAX_LENGTH
    return model


def _told(vector_NH: Any) -> float:
    """A number that differs where directions do: a sum of unit vectors with different weights."""
    unit_NH = vector_NH / np.linalg.norm(vector_NH, axis=1, keepdims=True)
    return float(unit_NH.astype(np.float64).sum(axis=0) @ np.linspace(-1, 1, unit_NH.shape[1]))


def _check_equal(ours: Sequence[Block], peer: Sequence[Block], precision: Precision) -> None:
    told = [np.array([value for block in blocks for value in block.values]) for blocks in (ours, peer)]
    gap = float(np.abs(told[0] - told[1]).max() / np.abs(told[0]).max())
    if gap > _TOLERANCE[precision]:
        raise RuntimeError(f"the vectors of both sides differ: {gap:.1e} of a sum, at most {_TOLERANCE[precision]}")
