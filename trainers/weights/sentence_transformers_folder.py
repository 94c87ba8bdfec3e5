"""What a sentence-transformers folder says: where its transformer lies, and how it pools, cuts and prompts. Torch-free.

Read are the layouts of its releases 2.0 to 6: flags for each pooling mode or one `pooling_mode`, the transformer in the
folder itself or in one of its own (`0_Transformer`), or a Router between a query's and a document's transformer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.catalogue.families import Pooling
from trainers.weights.json_files import read_json

_POOLINGS: Mapping[str, Pooling] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that is there, as its encode_document takes them
_NO_LIMIT = 10**6  # tokenizers without a limit say 1e30
_ROUTER_CONFIG = "router_config.json"
_SIDES = ("query", "document")


class FolderError(ValueError):
    """The folder does something that is not done here, or cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Modules:
    """The folders of a model's modules; `normalizes` says whether a Normalize comes last, which is never applied.

    `transformers` and `poolings` are by side, 'query' and 'document'; of a model without Router both are the same.
    """

    transformers: Mapping[str, Path]
    poolings: Mapping[str, Path]
    normalizes: bool

    @property
    def are_separate(self) -> bool:
        """Whether each side has a transformer of its own."""
        return self.transformers["query"] != self.transformers["document"]


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """What the folder says of the encoder; None where it says nothing. Lengths are in tokens."""

    pooling: Pooling | None
    max_query_length: int | None
    max_document_length: int | None
    query_prompt: str | None
    document_prompt: str | None
    normalizes: bool


def read_modules(folder: Path) -> Modules | None:
    """The modules of a sentence-transformers folder, or None where it is none.

    Raises:
        FolderError: modules that change embeddings in a way that is not done here (Dense, Router, another pooling).
    """
    if not (folder / "modules.json").is_file():
        return None
    listed = _listed(folder)
    if any(kind == "Router" for kind, _ in listed):
        by_side = {side: [*_routed(folder, side), *(m for m in listed if m[0] != "Router")] for side in _SIDES}
    else:
        by_side = dict.fromkeys(_SIDES, listed)
    found = {side: _by_kind(modules) for side, modules in by_side.items()}
    return Modules(
        transformers={side: kinds["Transformer"] for side, kinds in found.items()},
        poolings={side: kinds["Pooling"] for side, kinds in found.items() if "Pooling" in kinds},
        normalizes=any("Normalize" in kinds for kinds in found.values()),
    )


def routed_towers(folder: Path) -> Mapping[str, Path] | None:
    """The transformers' folders by side in a folder with one for each, None where it is no such folder.

    Raises:
        FolderError: as `read_modules`.
    """
    modules = read_modules(folder)
    return modules.transformers if modules and modules.are_separate else None


def _listed(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each module, in order."""
    return [_module(folder, module) for module in _read(folder / "modules.json", list)]


def _module(folder: Path, module: Any) -> tuple[str, Path]:
    kind, path = (module.get(key, "") if isinstance(module, dict) else None for key in ("type", "path"))
    if not isinstance(kind, str) or not isinstance(path, str):
        raise FolderError(f"its modules.json lists {module!r}, which is no module with a type and a path")
    return kind.rpartition(".")[2], _inside(folder, path)


def _inside(folder: Path, path: str) -> Path:
    """A module's folder. It may not lie elsewhere: a hash of the folder would say nothing of it."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise FolderError(f"it names {path!r} as a module's folder, which lies outside of it")
    return folder / path


def _routed(folder: Path, side: str) -> Iterator[tuple[str, Path]]:
    """The modules that a side's texts go through, by the Router's own file."""
    config = _read(folder / _ROUTER_CONFIG, dict)
    try:
        for name in config["structure"][side]:
            yield config["types"][name].rpartition(".")[2], _inside(folder, name)
    except (KeyError, TypeError, AttributeError) as error:
        raise FolderError(f"its {_ROUTER_CONFIG} does not route queries and documents") from error


def _by_kind(modules: list[tuple[str, Path]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for kind, path in modules:
        if kind not in ("Transformer", "Pooling", "Normalize") or kind in found:
            again = "a second " if kind in found else "a "
            raise FolderError(
                f"it has {again}{kind} module, without which its embeddings are not its own and which is not applied "
                "here (read are one Transformer, one Pooling and a Normalize, or a Router between two of the former)"
            )
        found[kind] = path
    if "Transformer" not in found:
        raise FolderError("it has no Transformer module")
    return found


def read_settings(folder: Path) -> FolderSettings | None:
    """What a sentence-transformers folder says of its encoder, or None where it is none.

    Raises:
        FolderError: as `read_modules`, or a pooling or lower-casing that is not done here.
    """
    modules = read_modules(folder)
    if modules is None:
        return None
    query, document = _prompts(folder / "config_sentence_transformers.json")
    lengths = {side: _max_length(path) for side, path in modules.transformers.items()}
    return FolderSettings(
        pooling=_one_pooling(modules),
        max_query_length=lengths["query"],
        max_document_length=lengths["document"],
        query_prompt=query,
        document_prompt=document,
        normalizes=modules.normalizes,
    )


def _one_pooling(modules: Modules) -> Pooling | None:
    found = {side: _pooling(path / "config.json") for side, path in modules.poolings.items()}
    if len(set(found.values())) > 1:
        raise FolderError(f"it pools queries by '{found['query']}' and documents by '{found['document']}'")
    return next(iter(found.values()), None)


def _pooling(file: Path) -> Pooling | None:
    if not file.is_file():
        return None
    config = _read(file, dict)
    if config.get("include_prompt") is False:
        raise FolderError("its Pooling leaves the prompt's tokens out (include_prompt: false), which is not done here")
    mode = config.get("pooling_mode") or [name for flag, name in _FLAGS.items() if config.get(flag)] or "mean"
    modes = [str(name) for name in (mode if isinstance(mode, list) else [mode])]
    if len(modes) == 1 and modes[0] in _POOLINGS:
        return _POOLINGS[modes[0]]
    found, allowed = (" and ".join(f"'{name}'" for name in modes), ", ".join(f"'{name}'" for name in _POOLINGS))
    raise FolderError(f"it pools by {found}; one of {allowed} is done here")


def _max_length(transformer: Path) -> int | None:
    """Its own setting up to release 5; from 6 on the tokenizer's limit is the only one that is written."""
    sentence_bert, tokenizer = (
        _read(file, dict) if file.is_file() else {}
        for file in (transformer / "sentence_bert_config.json", transformer / "tokenizer_config.json")
    )
    if sentence_bert.get("do_lower_case") and not tokenizer.get("do_lower_case"):
        raise FolderError("it lower-cases texts before its tokenizer (do_lower_case), which is not done here")
    length = sentence_bert.get("max_seq_length") or tokenizer.get("model_max_length")
    if not isinstance(length, int | float | None):
        raise FolderError(f"its maximum length is {str(length)!r} (max_seq_length, or model_max_length), no number")
    return int(length) if length and length < _NO_LIMIT else None


def _prompts(file: Path) -> tuple[str | None, str | None]:
    """Query's and document's prompt; an empty one says nothing, since every release from 5 on writes it."""
    prompts = _read(file, dict).get("prompts") or {} if file.is_file() else {}
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str | None) for prompt in prompts.values()):
        raise FolderError(f"its {file.name} says prompts are {prompts!r}, and no object of texts")
    document = next((prompts[name] for name in _DOCUMENT_PROMPTS if prompts.get(name)), None)
    return prompts.get("query") or None, document


def _read(file: Path, kind: type[Any]) -> Any:
    try:
        return read_json(file, kind)
    except ValueError as error:
        raise FolderError(f"its {file.name} cannot be read: {error}") from error
