"""Exact match and F1: values worked out by hand from the definition, and what must hold of any two texts."""

import random

import pytest

from trainers.evaluation.qa_scores import normalised, score_answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat,\tsat!", "cat sat"),
        ("An apple a day", "apple day"),
        ("theatre", "theatre"),  # an article is a word of its own
        ("U.S.A.", "usa"),
        ("well-known", "wellknown"),
        ("Jack's (the) hat", "jacks hat"),
        ("THE", ""),
        ("", ""),
        ("Muhammad ibn Zakarīya Rāzi", "muhammad ibn zakarīya rāzi"),
    ],
)
def test_normalisation(text, expected):
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("prediction", "answers", "exact_match", "f1"),
    [
        ("The Panthers.", ["panthers"], 1, 1),
        ("Kawann Short of the Panthers", ["Kawann Short"], 0, 2 * (2 / 4) * 1 / (2 / 4 + 1)),  # it contains the answer
        ("Short", ["Kawann Short"], 0, 2 * 1 * (1 / 2) / (1 + 1 / 2)),
        ("new york new york", ["New York"], 0, 2 * (2 / 4) * 1 / (2 / 4 + 1)),  # each word counts once in the answer
        ("four", ["4", "four"], 1, 1),
        ("red green", ["red blue", "green"], 0, 2 / 3),  # the best of both, here of the second
        ("308", ["309"], 0, 0),
        ("", ["four"], 0, 0),
        ("the", ["a"], 1, 1),  # nothing is left of either
        ("word", ["The"], 0, 0),
    ],
)
def test_scores_by_hand(prediction, answers, exact_match, f1):
    score = score_answer(prediction, answers)
    assert (score.exact_match, score.f1) == pytest.approx((exact_match, f1))


def test_an_exact_match_never_has_a_lower_f1_and_only_whole_answers_match():
    words = ["the", "a", "cat", "Cat!", "dog", "...", "an", "42", ""]
    draw = random.Random(0)
    matches = 0
    for _ in range(3000):
        prediction, *answers = (" ".join(draw.choices(words, k=draw.randrange(4))) for _ in range(draw.randrange(2, 5)))
        score = score_answer(prediction, answers)
        assert 0 <= score.exact_match <= score.f1 <= 1
        assert (score.exact_match == 1) == any(normalised(prediction) == normalised(answer) for answer in answers)
        assert score.f1 == max(score_answer(prediction, [answer]).f1 for answer in answers)
        matches += score.exact_match == 1
    assert 100 < matches < 2900


def test_without_a_right_answer_there_is_no_score():
    with pytest.raises(ValueError, match="without a right answer"):
        score_answer("four", [])
