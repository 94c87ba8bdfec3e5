"""What a checkpoint says of its own scoring: modules, a Normalize among them, prompts, the score it was made for.

Imports neither torch nor ray nor mlflow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from search_spaces.catalogue.families import EncoderSettings
from search_spaces.problems import InputError, Problem
from search_spaces.specs import WeightsSpec
from trainers.encoders.checkpoint_files import RECORD
from trainers.encoders.checkpoint_settings import found_settings
from trainers.weights import source_folder
from trainers.weights.json_files import read_json, text
from trainers.weights.sentence_transformers_folder import read_modules

Layout = Literal["sentence-transformers folder", "checkpoint of a sweep", "plain model folder", "GGUF file"]
OwnTask = Literal["retrieval", "sts"]
_CONFIG = "config_sentence_transformers.json"


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What was found. `normalizes` is None where the layout has no modules to look at; prompts are None unless stated.

    `modules` are in words, in their order; `score_function` is what a sentence-transformers folder says that its
    embeddings are compared by.
    """

    source: str
    layout: Layout
    modules: tuple[str, ...]
    normalizes: bool | None
    pooling: str | None
    query_prompt: str | None
    document_prompt: str | None
    score_function: str | None


def inspect(weights: WeightsSpec) -> Inspection:
    """Look into a checkpoint's folder.

    Raises:
        InputError: it is not there, or cannot be read.
    """
    found = found_settings(weights)
    folder = source_folder(weights)
    modules = None if weights.gguf_file else read_modules(folder)
    named = []
    if modules is not None:
        named += ["Transformer" if not modules.are_separate else "Router of two Transformers"]
        named += [f"Pooling ({found.pooling})"] if modules.poolings else []
        named += ["Normalize"] if modules.normalizes else []
    return Inspection(
        source=weights.source,
        layout=_layout(weights, folder, has_modules=modules is not None),
        modules=tuple(named),
        normalizes=None if modules is None else modules.normalizes,
        pooling=found.pooling,
        query_prompt=found.query_prompt,
        document_prompt=found.document_prompt,
        score_function=_score_function(weights, folder),
    )


def findings(found: Inspection, settings: EncoderSettings, task: OwnTask) -> Iterator[str]:
    """What to check of one's own checkpoint, a line each; `settings` are those that it is trained and probed with."""
    yield _normalize(found, task)
    if found.score_function:
        yield (
            f"Score: it says that it is compared by '{found.score_function}' (similarity_fn_name). Whatever scores it "
            "after training must use the similarity it was trained with"
        )
    yield _prompts(found, settings, task)
    yield (
        f"Pooling: {settings.pooling}{', as its folder says' if found.pooling else ', which its folder does not say'}. "
        "Another pooling gives other norms"
    )


def _normalize(found: Inspection, task: OwnTask) -> str:
    place = f"{found.source} ({found.layout})"
    if task == "sts":
        ends = "ends in a Normalize module" if found.normalizes else "need not end in a Normalize module"
        return f"Normalize: {place} {ends}; cosine normalises both sides with it or without"
    if found.normalizes:
        return (
            f"Normalize: {place} ends in a Normalize module. Take it out wherever you train and encode (densesweep "
            "does): with it every similarity is cosine. It is made for cosine, and in the published comparison such a "
            "model (E5) lost under every other similarity: 45.6 nDCG@10 on BEIR with cosine, 35.9 with "
            "learnable, 30.4 with qnorm, 24.7 with dnorm. Train cosine beside whatever you choose"
        )
    if found.normalizes is False:
        return (
            f"Normalize: {place} has none (its modules: {', '.join(found.modules)}). See that your own code does not "
            "normalise either (normalize_embeddings=True)"
        )
    return (
        f"Normalize: {place} has no list of modules to look at. See that your own code does not normalise "
        "(normalize_embeddings=True)"
    )


def _prompts(found: Inspection, settings: EncoderSettings, task: OwnTask) -> str:
    used = [
        (side, prompt) for side, prompt in (("queries", settings.query_prompt), ("documents", settings.document_prompt))
    ]
    given = " and ".join(f"{prompt!r} before {side}" for side, prompt in used if prompt)
    stated = found.query_prompt or found.document_prompt
    if given and task == "sts" and settings.query_prompt != settings.document_prompt:
        return (
            f"Prompts: the family has {given}{', as its folder says' if stated else ''}. On a symmetric task both "
            "texts need the same one, or none: else the score depends on the order again"
        )
    if given:
        return (
            f"Prompts: the family has {given}{', as its folder says' if stated else ''}. Texts must have them in "
            "training and in use"
        )
    return (
        "Prompts: none, in the family or the checkpoint. If yours was trained with some ('query: ', 'passage: '), give "
        "them: E5 without its own fell from 79.6 to 51.0 on TREC-COVID"
    )


def _layout(weights: WeightsSpec, folder: Path, *, has_modules: bool) -> Layout:
    if weights.gguf_file:
        return "GGUF file"
    if (folder / RECORD).is_file():
        return "checkpoint of a sweep"
    return "sentence-transformers folder" if has_modules else "plain model folder"


def _score_function(weights: WeightsSpec, folder: Path) -> str | None:
    file = folder / _CONFIG
    if weights.gguf_file or not file.is_file():
        return None
    try:
        return text(read_json(file), "similarity_fn_name")
    except ValueError as error:
        raise InputError([Problem(where=weights.source, key=_CONFIG, message=str(error))]) from error
