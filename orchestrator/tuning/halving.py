"""Successive halving inside one study: which samples go on after a rung, whoever comes there first.

The rule is that of asynchronous successive halving (arXiv 1810.05934) with the order of samples in place of the order
of time: a sample is held against those of lower numbers that came to its rung. What is pruned then depends on neither
how many run at once nor on which of them is faster, and a sweep that was killed prunes what an undisturbed one does. A
sample whose judgement waits for an earlier one goes on meanwhile; should it be pruned later, what it did since is void.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from results.studies import Scores, worth
from search_spaces.tuning import Asha, Metric


@dataclass(frozen=True, kw_only=True)
class Course:
    """How far a sample has come: its validations, its last step, and whether there will be no more of them."""

    scores: Scores = ()
    step: int = 0
    is_over: bool = False


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one sample: the rung that it is pruned at, if it is; and whether more may still be judged of it."""

    pruned_at: int | None = None
    is_open: bool = False


def verdicts(asha: Asha | None, metric: Metric, steps: int, courses: Sequence[Course]) -> tuple[Verdict, ...]:
    """What is known of each sample of a study whose samples train so many steps."""
    pruned: dict[int, int] = {}
    is_open = {number for number, course in enumerate(courses) if not course.is_over}
    waiting: set[int] = set()  # whose judgement at a rung waits for that of others
    for rung in asha.rungs(steps) if asha else ():
        values: list[float] = []
        for number, course in enumerate(courses):
            if number in pruned or (course.is_over and course.step < rung):
                continue  # it never comes here
            if course.step < rung or any(earlier <= number for earlier in waiting):
                waiting.add(number)
            else:
                value = worth(metric, course.scores, until=rung)
                values.append(float("-inf") if value is None else value)
                if not _goes_on(values, asha.reduction_factor if asha else 1):
                    pruned[number] = rung
    return tuple(
        Verdict(pruned_at=pruned.get(number), is_open=number not in pruned and (number in waiting or number in is_open))
        for number in range(len(courses))
    )


def _goes_on(values: Sequence[float], reduction_factor: int) -> bool:
    """Whether the last of the values is among the best 1 in `reduction_factor`, or the best while they are fewer."""
    places = max(1, len(values) // reduction_factor)
    return sum(value > values[-1] for value in values) < places
