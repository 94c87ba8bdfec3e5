"""Checkpoint folders: what sentence-transformers loads, with the similarity beside it in `densesweep.json`.

Weights are plain ones: low-rank adapters are merged into them, and lie beside them as they were trained.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from search_spaces.problems import InputError, Problem
from search_spaces.specs import EncoderSpec, ScaleSpec, SimilaritySpec
from trainers.encoders.adapters import adapted, merged, save_adapters
from trainers.encoders.backbones import load_backbone, load_tokenizer, quiet
from trainers.encoders.checkpoint_files import RECORD, tower_folder, write_settings
from trainers.encoders.encoder import TOWERS, Encoder
from trainers.similarity import Gammas

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """What `densesweep.json` holds. An untrained checkpoint has neither similarity nor scale."""

    format_version: int
    encoder: EncoderSpec
    similarity: SimilaritySpec | None
    scale: ScaleSpec | None


_RECORDS = TypeAdapter(CheckpointRecord)


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

    The encoder stays as it is: adapters are merged in a copy.

    Args:
        folder: made where it is missing.
        encoder: what is saved.
        gammas: the exponents as they are now, which are what is stored; None where they were never trained.
        similarity: where training started.
        scale: as it was trained with, with the divisor that was found.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = encoder
    if adapted(encoder):
        save_adapters(folder, encoder)
        plain = merged(encoder)
    for tower, backbone in plain.backbones.items():
        _save_tower(tower_folder(folder, tower), backbone, encoder.tokenizer)
    final = similarity if similarity is None or gammas is None else gammas.spec(similarity)
    write_settings(folder, encoder.spec, hidden_size=encoder.hidden_size, similarity=final)
    record = CheckpointRecord(format_version=FORMAT_VERSION, encoder=encoder.spec, similarity=final, scale=scale)
    (folder / RECORD).write_bytes(_RECORDS.dump_json(record, indent=2) + b"\n")


def load_checkpoint(folder: Path) -> LoadedCheckpoint:
    """Read a checkpoint back, on the CPU, in evaluation mode. Its own code runs only if it did when it was made.

    Raises:
        InputError: the folder is no checkpoint of this program, or another version's.
    """
    record = read_record(folder)
    folders = {tower: tower_folder(folder, tower) for tower in TOWERS[record.encoder.towers]}
    remote_code = record.encoder.weights.remote_code
    backbones = {tower: load_backbone(path, remote_code=remote_code) for tower, path in folders.items()}
    tokenizer = load_tokenizer(next(iter(folders.values())), remote_code=remote_code)
    encoder = Encoder(backbones, tokenizer, record.encoder).eval()
    return LoadedCheckpoint(encoder=encoder, similarity=record.similarity, scale=record.scale)


def read_record(folder: Path) -> CheckpointRecord:
    """The checkpoint's record, without its weights. Raises InputError as `load_checkpoint` does."""
    path = folder / RECORD
    try:
        data = path.read_bytes()
        version = json.loads(data)["format_version"]
        if version != FORMAT_VERSION:
            raise _unreadable(path, f"format version {version}, where {FORMAT_VERSION} is read")
        return _RECORDS.validate_json(data)
    except FileNotFoundError as error:
        raise _unreadable(path, "there is no such file, so this is not a whole checkpoint") from error
    except (json.JSONDecodeError, KeyError, TypeError, ValidationError) as error:
        raise _unreadable(path, f"not a checkpoint's record: {error}") from error


def checkpoint_hash(folder: Path) -> str:
    """SHA-256 (hex) over all that decides an embedding or a score, and nothing that tells where it was made.

    Weights, architecture and tokenizer of each tower, and the record without where its first weights were found.
    """
    record = read_record(folder)
    values = _RECORDS.dump_python(record, mode="json")
    values["encoder"]["weights"] = record.encoder.weights.content_hash
    if record.encoder.instruction is None:  # as records of before there were instructed encoders have it
        del values["encoder"]["instruction"]
    digest = hashlib.sha256(_canonical(values))
    for tower in TOWERS[record.encoder.towers]:
        _add_tower(digest, tower_folder(folder, tower))
    return digest.hexdigest()


def _add_tower(digest: Any, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    config.pop("transformers_version", None)
    digest.update(_canonical(config))
    for name in ("tokenizer.json", "model.safetensors"):
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\0"


def _save_tower(folder: Path, backbone: Any, tokenizer: Any) -> None:
    folder.mkdir(exist_ok=True)
    with quiet():
        backbone.save_pretrained(folder, max_shard_size="1TB")
        _save_tokenizer(folder, tokenizer)


def _save_tokenizer(folder: Path, tokenizer: Any) -> None:
    # The last call's truncation and padding are state of the tokenizer, and would be saved as if they belonged to it.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def _unreadable(path: Path, message: str) -> InputError:
    return InputError([Problem(where=str(path), key="", message=message)])
