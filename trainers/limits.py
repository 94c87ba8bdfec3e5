"""How many layers and positions a checkpoint has, read from its config or GGUF metadata. Torch-free."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from search_spaces.problems import InputError, Problem
from search_spaces.specs import WeightsSpec
from trainers.cache import cache_folder, remember
from trainers.weights import locate


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a spec of an encoder cannot go beyond; None where the checkpoint does not say."""

    num_layers: int | None
    num_positions: int | None


def limits(weights: WeightsSpec, content_hash: str) -> Limits:
    """The layers and positions of a checkpoint. What a GGUF file says is remembered by the hash of its content.

    Raises:
        InputError: as `locate`, or the config or the GGUF file cannot be read.
    """
    located = locate(weights)
    file = located if located.is_file() else located / "config.json"
    try:
        return _of_gguf(file, content_hash) if file == located else _of_config(file)
    except (OSError, ValueError) as error:
        message = f"{file.name} cannot be read: {error}"
        raise InputError([Problem(where=weights.source, key="", message=message)]) from error


def _of_config(file: Path) -> Limits:
    config = json.loads(file.read_bytes())
    if not isinstance(config, dict):
        raise ValueError("it is no JSON object")
    return Limits(num_layers=config.get("num_hidden_layers"), num_positions=config.get("max_position_embeddings"))


def _of_gguf(file: Path, content_hash: str) -> Limits:
    remembered = cache_folder() / "limits" / f"{content_hash}.json"
    if remembered.is_file():
        return Limits(**json.loads(remembered.read_bytes()))
    from gguf import GGUFReader  # reading a file takes seconds, since its whole vocabulary is read

    fields = GGUFReader(file).fields
    if "general.architecture" not in fields:
        raise ValueError("it names no architecture")
    architecture = fields["general.architecture"].contents()
    layers, positions = (fields.get(f"{architecture}.{name}") for name in ("block_count", "context_length"))
    found = Limits(num_layers=layers and int(layers.contents()), num_positions=positions and int(positions.contents()))
    remember(remembered, json.dumps(asdict(found)))
    return found
