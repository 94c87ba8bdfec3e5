"""Checkpoint folders: what sentence-transformers loads, with the similarity beside it in `densesweep.json`."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from search_spaces.problems import InputError, Problem
from search_spaces.specs import EncoderSpec, ScaleSpec, SimilaritySpec
from trainers.backbones import load_backbone, load_tokenizer
from trainers.encoder import Encoder
from trainers.similarity import Gammas

RECORD = "densesweep.json"
FORMAT_VERSION = 1
_MODULES = "sentence_transformers.models"  # its module paths, in the form that every release since 2.0 reads
_ST_POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
_ST_SIMILARITIES = ("cosine", "dot")


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """What `densesweep.json` holds. An untrained checkpoint has neither similarity nor scale."""

    format_version: int
    encoder: EncoderSpec
    similarity: SimilaritySpec | None
    scale: ScaleSpec | None


@dataclass(frozen=True, kw_only=True)
class LoadedCheckpoint:
    """A checkpoint in memory; `similarity` holds the exponents as they were at the end of training."""

    encoder: Encoder
    similarity: SimilaritySpec | None
    scale: ScaleSpec | None


def save_checkpoint(
    folder: Path,
    encoder: Encoder,
    *,
    gammas: Gammas | None,
    similarity: SimilaritySpec | None,
    scale: ScaleSpec | None,
) -> None:
    """Write the encoder, with its prompts and its similarity, into an empty folder. Only safetensors and JSON.

    `similarity` is where training started; what is stored has the exponents that `gammas` has now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encoder.backbone.save_pretrained(folder, max_shard_size="1TB")
    _save_tokenizer(folder, encoder.tokenizer)
    final = similarity if similarity is None or gammas is None else gammas.spec(similarity)
    _save_sentence_transformers_files(folder, encoder, final)
    record = CheckpointRecord(format_version=FORMAT_VERSION, encoder=encoder.spec, similarity=final, scale=scale)
    (folder / RECORD).write_bytes(TypeAdapter(CheckpointRecord).dump_json(record, indent=2) + b"\n")


def load_checkpoint(folder: Path) -> LoadedCheckpoint:
    """Read a checkpoint back, on the CPU, in evaluation mode.

    Raises:
        InputError: the folder is no checkpoint of this program, or another version's.
    """
    record = read_record(folder)
    encoder = Encoder(load_backbone(folder), load_tokenizer(folder), record.encoder).eval()
    return LoadedCheckpoint(encoder=encoder, similarity=record.similarity, scale=record.scale)


def read_record(folder: Path) -> CheckpointRecord:
    """The checkpoint's record, without its weights. Raises InputError as `load_checkpoint` does."""
    path = folder / RECORD
    try:
        data = path.read_bytes()
        version = json.loads(data)["format_version"]
        if version != FORMAT_VERSION:
            raise _unreadable(path, f"format version {version}, where {FORMAT_VERSION} is read")
        return TypeAdapter(CheckpointRecord).validate_json(data)
    except FileNotFoundError as error:
        raise _unreadable(path, "there is no such file, so this is not a whole checkpoint") from error
    except (json.JSONDecodeError, KeyError, TypeError, ValidationError) as error:
        raise _unreadable(path, f"not a checkpoint's record: {error}") from error


def checkpoint_hash(folder: Path) -> str:
    """SHA-256 (hex) over all that decides an embedding or a score, and nothing that tells where it was made.

    Weights, architecture, tokenizer, and the record without the source of the weights it started from.
    """
    config = json.loads((folder / "config.json").read_bytes())
    config.pop("transformers_version", None)
    record = json.loads((folder / RECORD).read_bytes())
    record["encoder"]["weights"].pop("source")
    digest = hashlib.sha256()
    for value in (config, record):
        digest.update(json.dumps(value, sort_keys=True).encode() + b"\0")
    for name in ("tokenizer.json", "model.safetensors"):
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _save_tokenizer(folder: Path, tokenizer: Any) -> None:
    # The last call's truncation and padding are state of the tokenizer, and would be saved as if they belonged to it.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def _save_sentence_transformers_files(folder: Path, encoder: Encoder, similarity: SimilaritySpec | None) -> None:
    spec = encoder.spec
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write_json(
        folder / "modules.json",
        [
            {"idx": index, "name": str(index), "path": path, "type": f"{_MODULES}.{name}"}
            for index, (name, path) in enumerate(modules)
        ],
    )
    pooling: dict[str, Any] = {key: name == spec.pooling for name, key in _ST_POOLING.items()}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": encoder.hidden_size, **pooling})
    longest = max(spec.max_query_length, spec.max_document_length)  # it knows one length for both sides
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    settings: dict[str, Any] = {
        "prompts": {"query": spec.query_prompt, "document": spec.document_prompt},
        "default_prompt_name": None,
    }
    if similarity is not None and similarity.name in _ST_SIMILARITIES:
        settings["similarity_fn_name"] = similarity.name
    _write_json(folder / "config_sentence_transformers.json", settings)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _unreadable(path: Path, message: str) -> InputError:
    return InputError([Problem(where=str(path), key="", message=message)])
