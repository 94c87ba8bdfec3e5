"""What a model's tokenizer adds to a text, and which ids it gives, read from its tokenizer.json. Torch-free."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainers.cache import cache_folder, remember

MIN_TEXT_TOKENS = 4  # of a text that is cut: with fewer, texts are no longer told apart
_FILE = "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Of one tokenizer.

    Attributes:
        num_ids: one more than the largest id of what it splits texts into, added tokens not counted.
        num_special: tokens that it adds to each text.
        ends_texts: whether one of these comes after the text.
        prompt_tokens: of each prompt that was asked for, its number of tokens.
    """

    num_ids: int
    num_special: int
    ends_texts: bool
    prompt_tokens: Mapping[str, int]


def read_vocabulary(folder: Path, content_hash: str, prompts: Iterable[str]) -> Vocabulary | None:
    """The vocabulary of a model folder, None where it has no tokenizer.json: only transformers makes one of the rest.

    It is remembered by the hash of the model's content, since reading it takes half a second.

    Raises:
        ValueError: the file cannot be read; the message names it.
    """
    if not (folder / _FILE).is_file():
        return None
    asked = sorted(set(prompts))
    key = hashlib.sha256(json.dumps([content_hash, asked]).encode()).hexdigest()
    remembered = cache_folder() / "vocabularies" / f"{key}.json"
    if remembered.is_file():
        return Vocabulary(**json.loads(remembered.read_bytes()))
    found = _read(folder / _FILE, asked)
    remember(remembered, json.dumps(asdict(found)))
    return found


def _read(file: Path, prompts: Iterable[str]) -> Vocabulary:
    from tokenizers import Tokenizer  # a fifth of a second, which only the first plan of a model needs

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{file.name} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Vocabulary(
        num_ids=max(tokenizer.get_vocab(with_added_tokens=False).values(), default=-1) + 1,
        num_special=tokenizer.num_special_tokens_to_add(False),
        ends_texts=_ends_texts(tokenizer),
        prompt_tokens={prompt: len(tokenizer.encode(prompt, add_special_tokens=False).ids) for prompt in prompts},
    )


def _ends_texts(tokenizer: Any) -> bool:
    whole, plain = (tokenizer.encode("a", add_special_tokens=special).ids for special in (True, False))
    return bool(plain) and whole[-len(plain) :] != plain
