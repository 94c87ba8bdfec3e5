"""Exact match and F1 of an answer, as SQuAD scores them: after normalisation, the best over all right answers.

Definitions: Rajpurkar et al. 2016 (arXiv 1606.05250), section 6.1; answers without a word as in SQuAD 2.0, so that an
exact match never has a lower F1.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, kw_only=True)
class AnswerScore:
    """Of one answer, 0 to 1: `exact_match` is 0 or 1, and never above `f1`."""

    exact_match: float
    f1: float


def normalised(text: str) -> str:
    """Lower case, without punctuation (ASCII), without the words a, an and the, single spaces."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def score_answer(prediction: str, answers: Sequence[str]) -> AnswerScore:
    """Each score is the best over the right answers, be it of one answer or of two.

    Raises:
        ValueError: there is no right answer.
    """
    if not answers:
        raise ValueError("a question without a right answer cannot be scored")
    found = normalised(prediction)
    right = [normalised(answer) for answer in answers]
    return AnswerScore(
        exact_match=float(found in right), f1=max(_f1(found.split(), answer.split()) for answer in right)
    )


def _f1(found: Sequence[str], right: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the words, each as often as it stands."""
    if not found or not right:
        return float(found == right)
    shared = sum((Counter(found) & Counter(right)).values())
    return 2 * shared / (len(found) + len(right))
