"""The files of a checkpoint folder that sentence-transformers reads: modules, pooling, router, prompts. Torch-free.

A shared tower lies in the folder itself; separate ones lie in folders of their own, which a Router chooses between.
"""

import json
from pathlib import Path
from typing import Any

from search_spaces.catalogue.families import Pooling
from search_spaces.specs import EncoderSpec, SimilaritySpec

RECORD = "densesweep.json"  # what a checkpoint is: its encoder, similarity and scale
ADAPTER = "adapter"  # low-rank adapters before they were merged, in peft's format; nothing here reads them
_MODULES = "sentence_transformers.models"  # its module paths, in the form that every release since 2.0 reads
_POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
_SIMILARITIES = ("cosine", "dot")
_SEPARATE = ("query", "document")


def tower_folder(folder: Path, tower: str) -> Path:
    """Where a tower's config, weights and tokenizer lie: in `folder` itself if it is shared."""
    return folder if tower == "shared" else folder / _transformer(tower)


def adapter_folder(folder: Path, tower: str) -> Path:
    """Where the adapter of a tower lies, if it was trained with one."""
    return folder / ADAPTER if tower == "shared" else folder / ADAPTER / tower


def write_settings(folder: Path, spec: EncoderSpec, *, hidden_size: int, similarity: SimilaritySpec | None) -> None:
    """Write everything that sentence-transformers needs besides the towers' own files, whose folders are there.

    A shared tower has one length for both sides there, the longer; each of separate ones has its own.
    """
    if spec.towers == "shared":
        longest = max(spec.max_query_length, spec.max_document_length)
        _write_transformer(folder, longest)
        _write_pooling(folder / "1_Pooling", spec.pooling, hidden_size)
        _write_modules(folder, [("Transformer", ""), ("Pooling", "1_Pooling")])
    else:
        for side, length in (("query", spec.max_query_length), ("document", spec.max_document_length)):
            _write_transformer(tower_folder(folder, side), length)
            _write_pooling(folder / _pooling(side), spec.pooling, hidden_size)
        _write_router(folder)
        _write_modules(folder, [("Router", "")])
    _write_prompts(folder, spec, similarity)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, the same bytes for the same value."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _transformer(side: str) -> str:
    return f"{side}_0_Transformer"  # as Router.save names them


def _pooling(side: str) -> str:
    return f"{side}_1_Pooling"


def _write_modules(folder: Path, modules: list[tuple[str, str]]) -> None:
    write_json(
        folder / "modules.json",
        [
            {"idx": index, "name": str(index), "path": path, "type": f"{_MODULES}.{name}"}
            for index, (name, path) in enumerate(modules)
        ],
    )


def _write_router(folder: Path) -> None:
    types = {f(side): f"{_MODULES}.{name}" for side in _SEPARATE for f, name in _ROUTED}
    structure = {side: [f(side) for f, _ in _ROUTED] for side in _SEPARATE}
    # Without a task there is no telling which tower is meant: the document's, as Router.for_query_document has it.
    parameters = {"default_route": "document", "allow_empty_key": True, "route_mappings": {}}
    write_json(folder / "router_config.json", {"types": types, "structure": structure, "parameters": parameters})


_ROUTED = ((_transformer, "Transformer"), (_pooling, "Pooling"))


def _write_transformer(folder: Path, length: int) -> None:
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})


def _write_pooling(folder: Path, pooling: Pooling, hidden_size: int) -> None:
    modes: dict[str, Any] = {key: name == pooling for name, key in _POOLING.items()}
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", {"word_embedding_dimension": hidden_size, **modes})


def _write_prompts(folder: Path, spec: EncoderSpec, similarity: SimilaritySpec | None) -> None:
    settings: dict[str, Any] = {
        "prompts": {"query": spec.query_prompt_for(None), "document": spec.document_prompt},
        "default_prompt_name": None,
    }
    if similarity is not None and similarity.name in _SIMILARITIES:
        settings["similarity_fn_name"] = similarity.name
    write_json(folder / "config_sentence_transformers.json", settings)
