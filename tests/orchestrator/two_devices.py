"""Sweeps that train a tiny BERT on one or two devices, and the same trials by themselves."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from small_sweeps import Sweep, write_collection
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from orchestrator.machine import available_cpus
from results.rows import read_rows
from results.store import open_store
from trainers.training.history import MEASURED

ROOT = Path(__file__).parents[2]
DEADLINE_S = 600  # Train starts six processes for each trial
STEPS = 12
LEARNABLE = "tiny/finetune/learnable/s0"
needs_two_cpus = pytest.mark.skipif(available_cpus() < 2, reason="two processes need two CPUs")


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A token for each word of the texts: a vocabulary that is trained is another each time."""
    words = sorted({word.strip(".").lower() for text in texts for word in text.split()})
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: place for place, token in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, special, strict=True)))


def _save_bert(folder: Path, texts: list[str]) -> None:
    """A BERT of two layers, with dropout."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=200, max_position_embeddings=64, **sizes)).save_pretrained(folder)
    _tokenizer(texts).save_pretrained(folder)


def _write_data(folder: Path) -> list[str]:
    """The zoo, with two hard negatives for each train query, and each animal's last two documents alike."""
    write_collection(folder)
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for document, after in zip(documents[2::4], documents[3::4], strict=True):
        after["text"] = document["text"]
    (folder / "corpus.jsonl").write_text("\n".join(json.dumps(document) for document in documents))
    ids = [document["_id"] for document in documents]
    judged = [f"q{i}\t{ids[(n + shift) % len(ids)]}\t0\n" for n, i in enumerate(ids) for shift in (5, 10)]
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.writelines(judged)
    return [document["text"] for document in documents]


def two_device_sweep(home: Path, *, devices: int, steps: int = STEPS, **blocks: Any) -> Sweep:
    """One learnable trial of the zoo that takes all of the machine."""
    texts = _write_data(home / "data")
    _save_bert(home / "bert", texts)
    family = {"name": "tiny", "retriever": {"source": "path:bert"}, "pooling": "mean"}
    content = {
        "name": "tiny",
        "storage": str(home / "sweep"),
        "families": [family | {"max_query_length": 16, "max_document_length": 16}],
        "data_sets": [{"name": "zoo", "source": "path:data", "train_split": "train"}],
        "axes": {
            "task": "contrastive",
            "training_data": "zoo",
            "family": "tiny",
            "similarity": "learnable",
            "init_regime": "finetune",
            "seed": 0,
            "scale": "fixed(20)",
        },
        "training": {"steps": steps, "global_batch": 16, "learning_rate": 1e-4, "hard_negatives": 2},
        "evaluation": {"groups": {"in_domain": "zoo"}},
        "probe": {"num_queries": 32, "candidates_per_query": 8},
        "checkpoints": {"every_steps": 2},
        # All of the machine for one trial.
        "resources": {"devices": devices, "cpus": available_cpus() // 2, "threads": 1, "chunk_size": 4},
        **blocks,
    }
    (home / "sweep.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return Sweep(file=home / "sweep.yaml", folder=home / "sweep")


@contextmanager
def driver_of(sweep: Sweep) -> Iterator[subprocess.Popen]:
    """The sweep's driver; it is interrupted where the block leaves it running."""
    driver = sweep.start("run", sweep.file.name)
    try:
        yield driver
    finally:
        driver.send_signal(signal.SIGINT)
        driver.wait()


def ended(driver: subprocess.Popen) -> subprocess.CompletedProcess:
    """What a driver printed, and its code, when it has ended."""
    out, err = driver.communicate(timeout=DEADLINE_S)
    return subprocess.CompletedProcess(driver.args, driver.returncode, out, err)


def run_to_its_end(sweep: Sweep) -> subprocess.CompletedProcess:
    """Run the sweep."""
    with driver_of(sweep) as driver:
        return ended(driver)


def trained_folders(sweep: Sweep) -> dict[str, Path]:
    """Title -> folder."""
    record = json.loads((sweep.folder / "sweep.json").read_text())
    return {trial["title"]: sweep.folder / "trials" / trial["trial_id"] for trial in record["trials"]}


def rows_of(folder: Path, name: str, table: str) -> list[dict[str, Any]]:
    """The rows of one of a trial's files, without what is measured anew each time."""
    rows = read_rows(open_store(str(folder.parents[1])), f"trials/{folder.name}/{name}.parquet", table).to_pylist()
    return [{key: value for key, value in row.items() if key not in MEASURED} for row in rows]


def checkpoint_hash(folder: Path) -> str:
    """Of a trained trial."""
    [row] = rows_of(folder, "trial", "trials")
    return row["checkpoint_hash"]


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of its checkpoint."""
    [file] = (folder / "checkpoint").rglob("model.safetensors")
    return load_file(file)


def run_alone(sweep: Sweep, folder: Path, *launcher: str) -> subprocess.CompletedProcess:
    """Run the sweep's trained trial by itself, in a folder of its own."""
    trial = trained_folders(sweep)[LEARNABLE]
    for name in ("spec.json", "evaluations.json"):
        (folder / "trials" / trial.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(trial / name, folder / "trials" / trial.name / name)
    command = [sys.executable, *launcher, "-m", "trainers.trial", "--sweep", str(folder), trial.name]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)


def accelerate(*arguments: str) -> tuple[str, ...]:
    """How accelerate launches a module."""
    return ("-m", "accelerate.commands.launch", "--main_process_port", "0", *arguments)
