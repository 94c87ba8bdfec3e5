"""A recommendation in words, and as JSON for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from orchestrator.inspection import Inspection
from results.predictions import PREDICTORS
from results.recommendation import DEFAULT, Called, Recommendation
from results.track_record import TrackRecord

FORMAT = "densesweep.recommendation/1"
_STRENGTHS: Mapping[str, str] = {
    "by symmetry": "certain: no predictor is needed",
    "supported": "supported by the given sweeps",
    "unproven": "unproven",
    "undecided": "undecided: the safe default",
}
_USES: Mapping[str, str] = {
    "cosine": "both sides are normalised, in training and in use",
    "qnorm": "ranks like dot: keep document vectors as they are, and search by inner product",
    "dnorm": "ranks like cosine: normalise documents, and any cosine index will do; the query's norm acts in training",
    "learnable": (
        "two more scalars are trained, with a learning rate of their own (training.gamma_learning_rate): with the "
        "encoder's they hardly move. Divide each document by the power of its norm that training ended at"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A recommendation with what it was asked for, and what was found of the checkpoint."""

    family: str
    init_regime: str
    data: str
    task: str
    recommendation: Recommendation
    inspection: Inspection
    checks: tuple[str, ...]
    notices: tuple[str, ...]
    sources: tuple[str, ...]
    num_pairs: int | None
    candidates_per_query: int | None


def as_json(answer: Answer) -> str:
    """All of it as one JSON object: similarities by name, shares 0 to 1, an absent number null."""
    found = answer.recommendation
    return json.dumps(
        {
            "format": FORMAT,
            "family": answer.family,
            "init_regime": answer.init_regime,
            "data": answer.data,
            "num_pairs": answer.num_pairs,
            "candidates_per_query": answer.candidates_per_query,
            "task": answer.task,
            "similarity": found.similarity,
            "strength": found.strength,
            "why": found.why,
            "calls": [asdict(called) for called in found.calls],
            "checkpoint": asdict(answer.inspection),
            "checks": list(answer.checks),
            "notices": list(answer.notices),
            "not_said": list(_not_said(answer)),
            "sources": list(answer.sources),
        },
        indent=2,
        allow_nan=False,
    )


def lines(answer: Answer) -> Iterator[str]:
    """All of it for people."""
    found = answer.recommendation
    yield f"{answer.family} ({answer.init_regime}) on {answer.data}, task {answer.task}"
    yield ""
    yield f"Train with: {found.similarity} ({_STRENGTHS[found.strength]})"
    yield f"Why: {found.why}."
    yield f"In use: {_USES[found.similarity]}."
    if found.calls:
        yield ""
        yield from _calls(answer)
    yield ""
    yield "Check:"
    yield from (f"- {text}." for text in (*answer.checks, *answer.notices))
    if not_said := list(_not_said(answer)):
        yield ""
        yield "What this does not say:"
        yield from (f"- {text}." for text in not_said)


def _calls(answer: Answer) -> Iterator[str]:
    yield f"What predictors call before any training ({answer.num_pairs} queries with an answer in the data):"
    rows = [_cells(called) for called in answer.recommendation.calls]
    header = ["predictor", "scale", "call", "difference (qnorm - dnorm)", "interval", "saturated", "right so far"]
    yield from _grid([header, *rows])
    for reason in dict.fromkeys(
        f"{c.predictor} at {c.scale}: {c.reason}" for c in answer.recommendation.calls if c.reason
    ):
        yield f"- {reason}."
    for name in dict.fromkeys(called.predictor for called in answer.recommendation.calls):
        found = PREDICTORS[name]
        yield f"- {name} calls {found.rule}. Source: {found.source}."
    if any(called.difference and not called.interval for called in answer.recommendation.calls):
        yield (
            "- Interval none: the data fills fewer than 8 pools, more than 85 % of queries are saturated, or the ridge "
            "decides and not the data; there is no call then."
        )
    if not answer.sources:
        yield "- Right so far: not known, since no sweep was given (--sweeps SOURCE...)."
    else:
        yield (
            "- Right so far: decided cells (a call, and a side that won) of the given sweeps, with the exact 95 % "
            "interval of the share; cells of one family are not independent, so that few families say little."
        )


def _cells(called: Called) -> list[str]:
    return [
        called.predictor,
        called.scale,
        called.call or "not asked",
        _span(called.difference, called.statistic),
        "none" if called.interval is None else f"[{called.interval[0]:+.2f}, {called.interval[1]:+.2f}]",
        "" if called.saturated is None else " / ".join(f"{share:.0%}" for share in called.saturated),
        _record(called.record),
    ]


def _span(values: tuple[float, float] | None, statistic: str) -> str:
    if values is None:
        return ""
    low, high = (f"{value:+.2f}" for value in values)
    return f"{low} {statistic}" if low == high else f"{low} to {high} {statistic}"


def _record(record: TrackRecord | None) -> str:
    if record is None:
        return "not known"
    if not record.num_decided:
        return f"no decided cell of {record.num_cells}"
    families = f"{record.num_families} famil{'y' if record.num_families == 1 else 'ies'}"
    return (
        f"{record.num_hits} of {record.num_decided} decided ({record.low:.0%} to {record.high:.0%}), {families}, "
        f"{record.num_cells} cells"
    )


def _grid(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _not_said(answer: Answer) -> Iterator[str]:
    if answer.task == "sts":
        return
    yield (
        "Predictors choose between qnorm and dnorm alone. Whether either is better than cosine only training tells: "
        f"train cosine and {DEFAULT} beside, with several seeds (`densesweep run`), and read table `gains`"
    )
    yield (
        "The rule of the study rests on two models whose condition numbers differ by 0.3 % and 0.6 %, without "
        "intervals; by the standard used here both would be undecided (docs/fisher.md)"
    )
