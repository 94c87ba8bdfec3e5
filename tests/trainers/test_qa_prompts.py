"""Prompts: every place filled once, and long passages shortened so that all of the rest stays."""

from itertools import product

import pytest

from search_spaces.specs import RagSpec, ReaderSpec, WeightsSpec
from trainers.evaluation.qa_prompts import common_length, filled, fitted


class Words:
    """A reader whose tokens are words, and one more at the end."""

    def ids(self, prompt):
        return [len(word) for word in prompt.split()] + [0]

    def lengths(self, texts):
        return [len(text.split()) for text in texts]

    def first(self, text, num_tokens):
        return " ".join(text.split()[:num_tokens])


def rag(max_input_tokens, prompt="Read. {passages} Q: {question} A:"):
    reader = ReaderSpec(weights=WeightsSpec(source="path:reader"))
    return RagSpec(reader=reader, num_passages=3, prompt=prompt, max_input_tokens=max_input_tokens, max_new_tokens=4)


def test_what_stands_in_the_texts_is_no_place():
    text = filled("{passages} | {question} {other}", "what is {passages}?", ["{question}", "a {brace"])
    assert text == "{question}\n\na {brace | what is {passages}? {other}"


def test_common_length_is_the_greatest_that_fits():
    for lengths in product(range(5), repeat=3):
        for room in range(16):
            fits = [cap for cap in range(max(lengths) + 1) if sum(min(n, cap) for n in lengths) <= room]
            assert common_length(lengths, room) == max(fits)


def test_a_prompt_that_fits_is_left_alone():
    found = fitted(Words(), rag(100), "who is it", ["one two", "three"])
    assert found.num_cut == 0
    assert len(found.ids) == 2 + 2 + 1 + 3 + 2 - 1 + 1


def test_the_longest_passages_are_cut_and_the_question_is_whole():
    passages = ["a " * 20, "bb " * 2, "ccc " * 30]
    for most in range(8, 60):
        found = fitted(Words(), rag(most), "why so", passages)
        assert len(found.ids) <= most
        assert found.ids[0] == len("Read.")
        assert found.ids[-5:] == [2, 3, 2, 2, 0]  # Q: why so A:
        kept = [found.ids[1:-5].count(n) for n in (1, 2, 3)]
        if most >= 6 + 20 + 2 + 30:
            assert (kept, found.num_cut) == ([20, 2, 30], 0)
            continue
        longest = max(kept)
        # All room is used, short passages are whole, and those that were cut are equally long.
        assert kept == [min(n, longest) for n in (20, 2, 30)]
        assert most - len(found.ids) < found.num_cut
        assert found.num_cut == sum(n > longest for n in (20, 2, 30))


def test_a_prompt_that_is_too_long_without_passages_is_refused():
    with pytest.raises(ValueError, match="without passages has 6 tokens of the reader, and max_input_tokens is 5"):
        fitted(Words(), rag(5), "why so", ["a b c"])
    with pytest.raises(ValueError, match="question: 'why so'"):
        fitted(Words(), rag(5), "why so", [])
