"""Gains of external numbers, each against a baseline of its own source: nothing of ours enters them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from results.references import UNTRAINED, Reference
from search_spaces.catalogue.similarities import SIMILARITIES

Level = Literal["group", "data set"]
PUBLISHED = "as published"
LACKING = "its source lacks it on some data set of the group"
NO_BASELINE = "its source has no score of the baseline here"
_ORDER = (UNTRAINED, *SIMILARITIES)
_Scores = Mapping[
    str, tuple[float, ...]
]  # by similarity: its data sets' scores in one order, or the published one alone


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """One similarity of one model on one group or data set, from one source; scores are 0 to 1.

    Attributes:
        place: the group or data set.
        groups: that a data set stands in.
        averaged: of a group: PUBLISHED, or over how many of the source's data sets the mean was taken here.
        gain_ratio: `ratio_of_means` against the baseline.
        mean_of_ratios: of a group whose data sets the source gives.
        rank: among the similarities of the same source, model and place; an untrained model has none.
        places: files and lines.
        reason: why there is no score, or no gain.
    """

    source: str
    model: str
    init_regime: str | None
    place: str
    groups: tuple[str, ...]
    measure: str
    similarity: str
    score: float | None
    baseline_score: float | None
    gain: float | None
    gain_ratio: float | None
    mean_of_ratios: float | None
    averaged: str
    num_data_sets: int
    rank: int | None
    places: tuple[str, ...]
    reason: str | None


def reference_gains(references: Iterable[Reference], baseline: str, level: Level) -> list[ReferenceRow]:
    """The rows of every source, model and place, in the order of the files.

    A group's score is the average that the source itself gives or, where it gives none, the unweighted mean over the
    source's own data sets of the group; none where it lacks one of them. Two sources are never averaged.
    """
    blocks: dict[tuple[Any, ...], list[Reference]] = {}
    for reference in references:
        place = reference.group if level == "group" else reference.data_set
        if place is not None:
            key = (reference.source, reference.model, reference.init_regime, place, reference.measure)
            blocks.setdefault(key, []).append(reference)
    return [row for key, block in blocks.items() for row in _rows(key, block, baseline, level)]


def _rows(key: tuple[Any, ...], block: Sequence[Reference], baseline: str, level: Level) -> list[ReferenceRow]:
    source, model, init_regime, place, measure = key
    published = [reference for reference in block if reference.data_set is None]
    used = published if level == "group" and published else [r for r in block if r.data_set is not None]
    scores = _scores(used)
    means = {name: sum(values) / len(values) for name, values in scores.items()}
    ranked = sorted({round(means[name], 12) for name in means if name != UNTRAINED}, reverse=True)
    num = len(next(iter(scores.values()), ()))
    of_data_sets = level == "group" and not published
    lacking = [name for name in dict.fromkeys(r.similarity for r in used) if name not in means]
    return [
        ReferenceRow(
            source=source,
            model=model,
            init_regime=init_regime,
            place=place,
            groups=tuple(dict.fromkeys(r.group for r in used if r.group)),
            measure=measure,
            similarity=name,
            score=means.get(name),
            baseline_score=means.get(baseline),
            gain=means[name] - means[baseline] if name in means and baseline in means else None,
            gain_ratio=_ratio(means.get(name), means.get(baseline)),
            mean_of_ratios=_mean_of_ratios(scores, name, baseline) if of_data_sets else None,
            averaged=f"mean of {num} data sets" if of_data_sets else PUBLISHED,
            num_data_sets=num if of_data_sets or level == "data set" else 0,
            rank=ranked.index(round(means[name], 12)) + 1 if name in means and name != UNTRAINED else None,
            places=tuple(dict.fromkeys(r.place for r in used if r.similarity == name)),
            reason=LACKING if name in lacking else None if baseline in means else NO_BASELINE,
        )
        for name in sorted((*means, *lacking), key=_ORDER.index)
    ]


def _scores(block: Sequence[Reference]) -> _Scores:
    """Of the similarities that have every data set of the block; one that stands in two groups counts once."""
    wanted = list(dict.fromkeys(reference.data_set for reference in block))
    found = {(reference.similarity, reference.data_set): reference.value for reference in block}
    names = dict.fromkeys(reference.similarity for reference in block)
    whole = [name for name in names if all((name, data_set) in found for data_set in wanted)]
    return {name: tuple(found[name, data_set] for data_set in wanted) for name in whole}


def _ratio(score: float | None, baseline_score: float | None) -> float | None:
    return None if score is None or not baseline_score or baseline_score < 0 else score / baseline_score - 1


def _mean_of_ratios(scores: _Scores, name: str, baseline: str) -> float | None:
    if name not in scores or baseline not in scores or min(scores[baseline]) <= 0:
        return None
    ratios = [score / base - 1 for score, base in zip(scores[name], scores[baseline], strict=True)]
    return sum(ratios) / len(ratios)
