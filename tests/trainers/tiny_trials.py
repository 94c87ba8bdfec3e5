"""Tiny real trials: a BEIR folder, a spec with its content hashes, and a process of its own to train in."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

from results.layout import checkpoint_prefix
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import trial_id
from search_spaces.specs import DataSpec, EncoderSpec, ScaleSpec, SimilaritySpec, TrainingSettings, TrialSpec, to_json
from trainers.data_sets import fingerprint
from trainers.encoders.checkpoints import checkpoint_hash
from trainers.training.history import MEASURED
from trainers.training.resume import CheckpointPolicy
from trainers.training.train import train
from trainers.weights import content_hash

NEVER = CheckpointPolicy()
TOPICS = ["passwords", "registry", "network", "mail", "files", "desktop", "browser", "kernel", "printer", "cloud"]
VERBS = ["steals", "encrypts", "scans", "hides"]


def write_collection(folder: Path) -> Path:
    """Ten documents, 40 train and 10 test queries; a train query's document is that of its topic."""
    folder.mkdir(parents=True)
    corpus = [{"_id": f"d{i}", "title": topic, "text": f"All about {topic}."} for i, topic in enumerate(TOPICS)]
    train_queries = [(f"q{i}-{j}", f"It {v} the {t}.", i) for i, t in enumerate(TOPICS) for j, v in enumerate(VERBS)]
    test_queries = [(f"t{i}", f"Who watches the {topic}?", i) for i, topic in enumerate(TOPICS)]
    queries = [{"_id": key, "text": text} for key, text, _ in (*train_queries, *test_queries)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in queries))
    (folder / "qrels").mkdir()
    for split, judged in (("train", train_queries), ("test", test_queries)):
        lines = "".join(f"{key}\td{document}\t1\n" for key, _, document in judged)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def data_spec(folder: Path, split: str) -> DataSpec:
    entry = DataSet(name="tiny", source=f"path:{folder}", train_split="train")
    found = fingerprint(entry, split)
    return DataSpec(entry=entry, split=split, content_hash=found.content_hash, num_pairs=found.num_pairs)


def with_hash(encoder: EncoderSpec) -> EncoderSpec:
    return replace(encoder, weights=replace(encoder.weights, content_hash=content_hash(encoder.weights)))


def trial_spec(data: DataSpec, encoder: EncoderSpec, *, similarity=None, scale=20.0, seed=7, **settings) -> TrialSpec:
    return TrialSpec(
        kind="train",
        task="contrastive",
        training_data=data,
        encoder=with_hash(encoder),
        similarity=similarity or SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
        scale=ScaleSpec(mode="fixed", value=scale),
        seed=seed,
        training=TrainingSettings(**{"steps": 6, "global_batch": 8, "learning_rate": 1e-3, **settings}),
    )


def train_here(spec: TrialSpec, folder: Path, *, report=lambda _: None, policy=NEVER):
    """Train, and return (result, checkpoint hash)."""
    store = open_store(str(folder))
    result = train(spec, store=store, report=report, verify=lambda: None, checkpoint_policy=policy)
    return result, hash_of(spec, folder)


def hash_of(spec: TrialSpec, folder: Path) -> str:
    with open_store(str(folder)).get_folder(checkpoint_prefix(trial_id(spec))) as checkpoint:
        return checkpoint_hash(checkpoint)


def reproducible(history) -> list[dict]:
    """The history without what is measured of the machine."""
    return [{name: value for name, value in asdict(step).items() if name not in MEASURED} for step in history]


SCRIPT = """
import os, signal, sys
from results.local_store import LocalStore
from search_spaces.specs import TrialSpec, from_json
from trainers.training.resume import CheckpointPolicy
from trainers.threads import set_threads
from trainers.training.train import train
from pathlib import Path

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def at_step(step):
    return lambda report: kill() if report.numbers.step == step else None

class KilledWhileWriting(LocalStore):
    def put_folder(self, prefix, fill):
        super().put_folder(prefix, lambda folder: (fill(folder), prefix.endswith(ending) and kill()))

set_threads(1)
spec = from_json(TrialSpec, Path(sys.argv[1]).read_text())
how, _, ending = sys.argv[3].partition(" ")
store = (KilledWhileWriting if how == "writing" else LocalStore).open(Path(sys.argv[2]))
report = at_step(int(ending)) if how == "step" else lambda report: None
train(spec, store=store, report=report, verify=lambda: None, checkpoint_policy=CheckpointPolicy(every_steps=3))
"""


def train_in_process(spec: TrialSpec, folder: Path, *, killed: str = "never") -> int:
    """Train in a fresh process, killed by SIGKILL at 'step N' or while 'writing ENDING'; returns its exit code."""
    spec_file = folder.parent / f"{folder.name}.spec.json"
    spec_file.write_text(to_json(spec))
    command = [sys.executable, "-c", SCRIPT, str(spec_file), str(folder), killed]
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(command, cwd=root, timeout=120).returncode
