"""What a reader is asked: the sweep file's prompt with a question and its passages, made to fit the reader's input."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from search_spaces.specs import RagSpec

_PLACE = re.compile(r"\{(passages|question)\}")
_BETWEEN = "\n\n"


class Tokens(Protocol):
    """How a reader sees text."""

    def ids(self, prompt: str) -> list[int]:
        """The reader's whole input, special tokens and the form of a conversation counted."""

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""

    def first(self, text: str, num_tokens: int) -> str:
        """The beginning of a text that these many tokens stand for."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A reader's input, and how many of its passages were shortened to fit."""

    ids: list[int]
    num_cut: int = 0


def filled(template: str, question: str, passages: Sequence[str]) -> str:
    """The prompt as text: the passages, best first, with an empty line between them.

    Each place is filled once, whatever stands in the texts themselves.
    """
    values = {"question": question, "passages": _BETWEEN.join(passages)}
    return _PLACE.sub(lambda place: values[place[1]], template)


def fitted(tokens: Tokens, rag: RagSpec, question: str, passages: Sequence[str]) -> Prompt:
    """The prompt with all passages; where it is too long, the longest of them are cut to one common length.

    So the question and what the prompt asks for are always whole, and short passages are too.

    Raises:
        ValueError: it is too long even without passages.
    """
    ids = tokens.ids(filled(rag.prompt, question, passages))
    if len(ids) <= rag.max_input_tokens:
        return Prompt(ids=ids)
    lengths = tokens.lengths(passages)
    room = sum(lengths)
    while room > 0 and len(ids) > rag.max_input_tokens:
        # Texts side by side may have a token more or less than each alone: so more than once, if need be.
        room = min(room - 1, room - (len(ids) - rag.max_input_tokens))
        longest = common_length(lengths, max(0, room))
        cut = [tokens.first(text, longest) if n > longest else text for text, n in zip(passages, lengths, strict=True)]
        ids = tokens.ids(filled(rag.prompt, question, cut))
    if len(ids) > rag.max_input_tokens:
        message = f"the prompt without passages has {len(ids)} tokens of the reader, and max_input_tokens is "
        raise ValueError(f"{message}{rag.max_input_tokens}: raise it, or shorten the prompt (question: {question!r})")
    return Prompt(ids=ids, num_cut=sum(n > longest for n in lengths))


def common_length(lengths: Sequence[int], room: int) -> int:
    """The greatest length that texts may have, if longer ones are cut to it, for all to fit the room together."""
    left, rest = room, len(lengths)
    for length in sorted(lengths):
        if length * rest > left:
            return left // rest
        left, rest = left - length, rest - 1
    return max(lengths, default=0)
