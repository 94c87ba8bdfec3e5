"""The whole evaluation of scifact against mteb's: same model, texts, length, precision, threads, from data to measures.

Ours is what a trial does: rows for every fixed similarity, and norms, written to a sweep folder. mteb's is
`mteb.evaluate` of its SciFact task with a sentence-transformers model (cosine), over the shared folder's texts in place
of a download. The first unit of both is an evaluation of the judged documents alone, which warms up. Memory is the peak
above what is resident once libraries are imported, so the model's weights count on both sides.
"""

import importlib.util
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import Precision
from tests.benchmarks.bench_encode import PEER_BATCH, EncodeJob, minilm, sentence_transformer
from tests.benchmarks.data import SHARED
from tests.benchmarks.harness import Contestant, Gate, in_turn
from tests.benchmarks.options import Options
from tests.benchmarks.spread import Ratio, speedup

_ROUNDS = 1  # an evaluation of scifact takes minutes
_TOLERANCE = 2e-3  # of nDCG@10


@dataclass(frozen=True, kw_only=True)
class Result:
    """How much faster the same evaluation was, in how much memory, and what nDCG@10 both found."""

    precision: Precision
    threads: int
    cpu_s: float
    ndcg: float
    peer_ndcg: float
    cpu: Ratio
    wall: Ratio
    peak_bytes: int | None
    peer_peak_bytes: int | None

    def __str__(self) -> str:
        found = f"nDCG@10 {self.ndcg:.4f} (mteb {self.peer_ndcg:.4f}), {self.cpu_s:.0f} s of cpu"
        peaks = [f"{peak / 2**20:.0f}" if peak else "?" for peak in (self.peak_bytes, self.peer_peak_bytes)]
        case = f"scifact, {self.precision}, threads {self.threads}"
        return f"{case}: {found}  cpu x {self.cpu}  wall x {self.wall}  peak MiB {peaks[0]} (mteb {peaks[1]})"


def run(options: Options) -> Iterator[Result | str]:
    """The ratio at each precision, or why there is none."""
    if importlib.util.find_spec("mteb") is None:
        yield "mteb: left out, it is not installed"
        return
    if not (SHARED / "scifact").is_dir():
        yield "scifact: left out, there is no ../shared/data/scifact beside the repository"
        return
    for precision in options.precisions:
        yield _against_mteb(EncodeJob(texts=SHARED / "scifact", precision=precision, threads=options.threads))


def _against_mteb(job: EncodeJob) -> Result:
    contestants = [
        Contestant(name="ours", run=evaluate_ours, job=job, environment=job.environment),
        Contestant(name="mteb", run=evaluate_mteb, job=job, environment=job.environment),
    ]
    blocks = in_turn(contestants, rounds=_ROUNDS, units={"ours": 1, "mteb": 1})
    ours, peer = blocks["ours"][1:], blocks["mteb"][1:]
    if abs(ours[0].values[0] - peer[0].values[0]) > _TOLERANCE:
        raise RuntimeError(f"nDCG@10 is {ours[0].values[0]} here and {peer[0].values[0]} with mteb")
    return Result(
        precision=job.precision,
        threads=job.threads,
        cpu_s=ours[0].cpu_s,
        ndcg=ours[0].values[0],
        peer_ndcg=peer[0].values[0],
        cpu=speedup(ours, peer, "cpu"),
        wall=speedup(ours, peer, "wall"),
        peak_bytes=ours[-1].peak_bytes,
        peer_peak_bytes=peer[-1].peak_bytes,
    )


def evaluate_ours(job: EncodeJob, gate: Gate) -> None:
    """The contestant: a unit's value is nDCG@10 under cosine."""
    from trainers.threads import set_threads

    set_threads(job.threads)
    from results.layout import per_query_rows
    from results.rows import read_rows
    from results.store import open_store
    from search_spaces.identity import evaluation_id
    from search_spaces.scoring import score_similarities
    from search_spaces.specs import DataSpec, EvaluationSpec
    from trainers import data_sets
    from trainers.encoders.checkpoints import checkpoint_hash, save_checkpoint
    from trainers.evaluation.evaluate import evaluate_all
    from trainers.init_regimes import start_encoder

    gate.memory_from_here()
    encoder = start_encoder(minilm(), None)
    with tempfile.TemporaryDirectory() as root:
        checkpoint = Path(root) / "checkpoint"
        save_checkpoint(checkpoint, encoder, gammas=None, similarity=None, scale=None)
        warming_up = Path(root) / "judged"
        write_judged(warming_up)
        for number, folder in enumerate(_first_then(warming_up, job.texts)):
            entry = DataSet(name="scifact", source=f"path:{folder}")
            content_hash = data_sets.fingerprint(entry, "test").content_hash
            data = DataSpec(entry=entry, split="test", content_hash=content_hash)
            evaluation = EvaluationSpec(data=data, precision=job.precision)
            store = open_store(str(Path(root) / str(number)))
            similarities = score_similarities(None, evaluation)
            evaluate_all(checkpoint, {evaluation: similarities}, store=store, encoder=encoder)
            [cosine] = [similarity for similarity in similarities if similarity.name == "cosine"]
            key = per_query_rows(evaluation_id(checkpoint_hash(checkpoint), evaluation, cosine))
            rows = read_rows(store, key, "per_query").to_pylist()
            values = [row["value"] for row in rows if row["measure"] == "nDCG@10"]
            gate.unit_done(sum(values) / len(values))


def evaluate_mteb(job: EncodeJob, gate: Gate) -> None:
    """The contestant: a unit's value is nDCG@10, which mteb rounds to five digits."""
    import torch

    torch.set_num_threads(job.threads)
    import mteb
    import sentence_transformers  # noqa: F401 - a library, not yet a model

    gate.memory_from_here()
    model = sentence_transformer()
    with tempfile.TemporaryDirectory() as root:
        warming_up = Path(root) / "judged"
        write_judged(warming_up)
        for folder in _first_then(warming_up, job.texts):
            with torch.autocast("cpu", torch.bfloat16, enabled=job.precision == "bf16"):
                found = mteb.evaluate(
                    model,
                    _task(folder),
                    cache=None,
                    co2_tracker=False,
                    encode_kwargs={"batch_size": PEER_BATCH, "show_progress_bar": False},
                    show_progress_bar=False,
                )
            gate.unit_done(float(found.task_results[0].scores["test"][0]["ndcg_at_10"]))


def write_judged(folder: Path) -> None:
    """A copy of scifact with the judged documents of its test split alone."""
    (folder / "qrels").mkdir(parents=True)
    qrels = (SHARED / "scifact" / "qrels" / "test.tsv").read_text()
    judged = {line.split("\t")[1] for line in qrels.splitlines()[1:]}
    lines = (SHARED / "scifact" / "corpus.jsonl").read_text().splitlines()
    (folder / "corpus.jsonl").write_text("".join(f"{x}\n" for x in lines if json.loads(x)["_id"] in judged))
    (folder / "queries.jsonl").write_text((SHARED / "scifact" / "queries.jsonl").read_text())
    (folder / "qrels" / "test.tsv").write_text(qrels)


def _first_then(first: Path, others: Path) -> Iterator[Path]:
    yield first
    while True:
        yield others


def _task(folder: Path) -> Any:
    import mteb
    from datasets import Dataset

    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    corpus, queries = (
        [json.loads(line) for line in (folder / f"{name}.jsonl").open()] for name in ("corpus", "queries")
    )
    task = mteb.get_task("SciFact")
    split = {
        "corpus": Dataset.from_list([{"id": x["_id"], "title": x["title"], "text": x["text"]} for x in corpus]),
        "queries": Dataset.from_list([{"id": x["_id"], "text": x["text"]} for x in queries if x["_id"] in qrels]),
        "relevant_docs": qrels,
        "top_ranked": None,
    }
    task.dataset = {"default": {"test": split}}
    task.data_loaded = True
    return task
