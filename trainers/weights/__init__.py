"""Where a model's weights lie on this machine, and the hash of what they hold. Torch-free."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from search_spaces.catalogue.sources import Source, parse_source
from search_spaces.problems import InputError, Problem
from search_spaces.specs import WeightsSpec
from trainers.cache import cache_folder, remember
from trainers.packages import package_folder
from trainers.weights.hub_weights import HubError, fetched, fetching_command, was_interrupted
from trainers.weights.pickled_weights import conversion_command, converted_copy
from trainers.weights.remote_code import check_code, code_files, folder_code
from trainers.weights.sentence_transformers_folder import FolderError, read_modules, routed_towers
from trainers.weights.trial_weights import trial_checkpoint
from trainers.weights.weight_files import IncompleteError, NoSafetensorsError, check_weight_files

# What defines a model besides its weights. Pickled weights are never read, and code only where it is allowed.
DEFINING_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "model.safetensors.index.json",
)
_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_ADAPTER = "adapter_config.json"


def locate(weights: WeightsSpec) -> Path:
    """The local folder that holds the model's config and safetensors, or the GGUF file; fetched where it is on a hub.

    Of a sentence-transformers folder the transformer's own folder is given; its Normalize, if it has one, is not used.
    One with a tower for each side is given itself, and `routed_towers` says where the two lie.

    Raises:
        InputError: nothing is there, it is not whole, or it is nothing that is read safely; the message says what to
            do.
    """
    weights = pinned(weights)
    found = source_folder(weights)
    if weights.gguf_file is not None:
        file = found / weights.gguf_file
        if not file.is_file():
            raise _problem(weights, f"there is no file {weights.gguf_file} in {found}")
        return file
    try:
        modules = read_modules(found)
    except FolderError as error:
        raise _problem(weights, str(error)) from error
    towers = list(dict.fromkeys(modules.transformers.values())) if modules else [found]
    for tower in towers:
        _check_whole(weights, tower)
        _check_readable(weights, tower)
    return towers[0] if len(towers) == 1 else found


def source_folder(weights: WeightsSpec) -> Path:
    """The local folder that the source names, whatever it holds; fetched where it is on a hub.

    Raises:
        InputError: there is no such folder, and how to come by it.
    """
    weights = pinned(weights)
    path = _source_path(weights, parse_source(weights.source))
    if not path.is_dir():
        raise _problem(weights, f"there is no folder {path}")
    return path


def pinned(weights: WeightsSpec) -> WeightsSpec:
    """The same weights by the commit that was found, where their source is a hub's and names none.

    Raises:
        InputError: as `source_folder`.
    """
    source = parse_source(weights.source)
    if source.scheme != "hf" or source.revision is not None:
        return weights
    commit = _from_hub(weights, source).name  # a snapshot's folder is named by its commit
    return replace(weights, source=str(replace(source, revision=commit)))


def content_hash(weights: WeightsSpec) -> str:
    """SHA-256 (hex) of the files that define the model: weights, config, tokenizer. Independent of where they lie.

    So does the code that comes with it where it is run. Hashes of files are remembered in the cache folder by path,
    size and time of change.

    Raises:
        InputError: as `locate`.
    """
    digest = hashlib.sha256()
    located = locate(weights)
    routed = routed_towers(located) or {}
    towers = {f"{side}/": folder for side, folder in routed.items()} or {"": located}
    for beginning, tower in towers.items():
        for name, file in _defining_files(tower, code=weights.remote_code):
            digest.update(f"{beginning}{name}\0{_file_hash(file)}\0".encode())
    return digest.hexdigest()


def named_code(weights: WeightsSpec) -> list[str]:
    """What a model names of code of its own, sorted; nothing where it is a GGUF file.

    Raises:
        InputError: as `locate`.
    """
    located = locate(weights)
    if located.is_file():
        return []
    towers = (routed_towers(located) or {"": located}).values()
    return sorted({name for tower in towers for name in folder_code(tower)})


def _source_path(weights: WeightsSpec, source: Source) -> Path:
    if source.scheme == "path":
        return Path(source.location)
    if source.scheme == "hf":
        return _converted_or_fetched(weights, source)
    if source.scheme == "python":
        raise _problem(weights, "a 'python:' source holds no weights (write hf:, path:, package: or trial:)")
    try:
        return package_folder(source.location) if source.scheme == "package" else trial_checkpoint(source)
    except ValueError as error:
        raise _problem(weights, str(error)) from error


def _converted_or_fetched(weights: WeightsSpec, source: Source) -> Path:
    """A copy in safetensors, where the user made one of a revision that has only pickled weights, else the revision."""
    converted = converted_copy(source)
    return converted if converted.is_dir() else _from_hub(weights, source)


def _from_hub(weights: WeightsSpec, source: Source) -> Path:
    try:
        return fetched(source, gguf_file=weights.gguf_file, code=weights.remote_code)
    except HubError as error:
        raise _problem(weights, str(error)) from error


def _check_whole(weights: WeightsSpec, folder: Path) -> None:
    source = parse_source(weights.source)
    if not (folder / "config.json").is_file():
        if was_interrupted(source, folder):
            raise _problem(weights, f"config.json is missing in {folder}: {_again(source)}")
        raise _problem(weights, f"{folder} holds no config.json, so it is not a model folder")
    if (folder / _ADAPTER).is_file():
        raise _problem(weights, f"{folder} holds an adapter ({_ADAPTER}): merge it into its model first")
    try:
        check_weight_files(folder)
    except IncompleteError as error:
        raise _problem(weights, f"{error}: {_again(source)}") from error
    except NoSafetensorsError as error:
        if was_interrupted(source, folder):
            raise _problem(weights, f"{error}: {_again(source)}") from error
        message = f"{folder} holds no *.safetensors file; pickled weights are not read"
        raise _problem(weights, f"{message}; {conversion_command(source)}") from error
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        message = f"{folder} holds no tokenizer ({', '.join(_VOCABULARIES)})"
        raise _problem(weights, f"{message}: {_again(source)}" if was_interrupted(source, folder) else message)


def _again(source: Source) -> str:
    """What to do about a folder that is not whole."""
    if source.scheme == "hf":
        return f"its download was interrupted; {fetching_command(source)} again where the hub can be reached"
    return "it was not copied or downloaded whole; copy or download it again"


def _check_readable(weights: WeightsSpec, folder: Path) -> None:
    try:
        check_code(folder, allowed=weights.remote_code)
    except ValueError as error:
        raise _problem(weights, str(error)) from error


def _defining_files(located: Path, *, code: bool) -> Iterator[tuple[str, Path]]:
    """Name and path of each file that defines the model, in a fixed order. A GGUF file holds all of it."""
    if located.is_file():
        yield "model.gguf", located
        return
    for file in sorted(located.glob("*.safetensors")):
        yield file.name, file
    for name in DEFINING_FILES:
        if (located / name).is_file():
            yield name, located / name
    for file in code_files(located) if code else ():
        yield file.relative_to(located).as_posix(), file


def _file_hash(file: Path) -> str:
    status = file.stat()
    key = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    remembered = cache_folder() / "file_hashes" / hashlib.sha256(key.encode()).hexdigest()
    if remembered.is_file():
        return remembered.read_text()
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    remember(remembered, found)
    return found


def _problem(weights: WeightsSpec, message: str) -> InputError:
    return InputError([Problem(where=weights.source, key="", message=message)])
