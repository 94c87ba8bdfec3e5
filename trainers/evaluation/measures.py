"""Measures per query, through ir-measures: nDCG with linear gain and the others as trec_eval defines them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ir_measures

TREC_DEPTH = 1000  # how far a ranking goes for a measure without a cut, by TREC's convention
DEEPEST = 10_000  # documents of a ranking that are kept for each query: more is memory that no budget counts
LEAST_DEPTH = 100
Qrels = Mapping[str, Mapping[str, int]]
_NO_DEFAULT = re.compile(r"invalid param (\w+)=<object object at \w+>")
_COUNTS = ("NumQ", "NumRel", "NumRet")  # of documents or queries: rows and tables hold values of 0 to 1


@dataclass(frozen=True, kw_only=True)
class QueryValue:
    """One measure of one query, 0 to 1; `measure` as the caller wrote it."""

    query_id: str
    measure: str
    value: float


def per_query(
    rankings: Mapping[str, Sequence[str]], qrels: Qrels, measures: Sequence[str], *, relevance_threshold: int = 1
) -> list[QueryValue]:
    """Every measure of every query that has judgements, in the order of `qrels`, then of `measures`.

    A query without results has 0, and so has one without a relevant document, as in trec_eval -c. Queries without
    judgements are left out.

    Args:
        rankings: for each query its documents, best first.
        qrels: for each query its documents' grades.
        measures: ir-measures expressions, such as 'nDCG@10'.
        relevance_threshold: the lowest grade that is relevant to binary measures, where their expression has no `rel`.

    Raises:
        ValueError: an expression is no measure that can be computed, or a document stands twice in a ranking.
    """
    parsed = {name: parse(name, relevance_threshold) for name in measures}
    names = {query_id: str(number) for number, query_id in enumerate(qrels)}
    run = {}
    judged = {}
    for query_id, grades in qrels.items():
        ranking = rankings.get(query_id, ())
        codes = {document: str(number) for number, document in enumerate(dict.fromkeys([*grades, *ranking]))}
        run[names[query_id]] = _rank_scores(query_id, [codes[document] for document in ranking])
        judged[names[query_id]] = {codes[document]: grade for document, grade in grades.items()}
    values = _values(parsed, judged, run)
    return [
        QueryValue(query_id=query_id, measure=name, value=values.get((names[query_id], measure), 0.0))
        for query_id in qrels
        for name, measure in parsed.items()
    ]


def depth(measures: Sequence[str]) -> int:
    """How many documents of a ranking the measures look at, at least 100.

    Raises:
        ValueError: as `parse`.
    """
    cuts = [parse(name).params.get("cutoff", TREC_DEPTH) for name in measures]
    return max(LEAST_DEPTH, *cuts)


def parse(name: str, relevance_threshold: int = 1) -> Any:
    """The ir-measures measure that `name` says, with the threshold where it is binary and sets none itself.

    Raises:
        ValueError: it is no measure, or one that the installed providers cannot compute.
    """
    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()
    except (NameError, ValueError, AssertionError) as error:
        why = _NO_DEFAULT.sub(r"it needs \1", str(error))
        raise ValueError(f"'{name}' is not a measure (write it as ir-measures does, such as nDCG@10): {why}") from error
    if measure.NAME in _COUNTS:
        raise ValueError(f"'{name}' counts instead of measuring from 0 to 1 (write a share, such as R@100 or P@10)")
    if "rel" in measure.SUPPORTED_PARAMS and "rel" not in measure.params:
        measure = measure(rel=relevance_threshold)
    _check_range(name, "cutoff", measure.params.get("cutoff"), most=DEEPEST)
    _check_range(name, "rel", measure.params.get("rel"), most=None)
    if not ir_measures.DefaultPipeline.supports(measure):
        raise ValueError(f"no installed package computes the measure '{name}'")
    return measure


def faults(measures: Sequence[str], relevance_threshold: int = 1) -> Iterator[tuple[int, str]]:
    """The places of expressions that are no measure, or the same measure as one before, each with what is wrong."""
    first: dict[Any, str] = {}
    for place, name in enumerate(measures):
        try:
            measure = parse(name, relevance_threshold)
        except ValueError as error:
            yield place, str(error)
            continue
        if measure in first:
            yield place, f"'{name}' is the same measure as '{first[measure]}' before it; leave it out"
        first.setdefault(measure, name)


def _check_range(name: str, what: str, value: int | None, *, most: int | None) -> None:
    """Providers take what is out of range, and then end the process or give another number."""
    if value is not None and not 1 <= value <= (most or value):
        allowed = f"from 1 to {most:,}" if most else "1 or higher"
        words = {"cutoff": "cut", "rel": "relevance threshold"}
        raise ValueError(f"'{name}': its {words[what]} is {value}, and must be {allowed}")


def _values(parsed: Mapping[str, Any], judged: Qrels, run: Mapping[str, Mapping[str, float]]) -> dict[Any, float]:
    """Values by (query, measure). Empty queries stay away: they corrupt the others' values (pytrec_eval#49)."""
    asked = {query: grades for query, grades in judged.items() if grades and run[query]}
    if not asked:
        return {}
    found = ir_measures.iter_calc(list(dict.fromkeys(parsed.values())), asked, {query: run[query] for query in asked})
    return {(metric.query_id, metric.measure): float(metric.value) for metric in found}


def _rank_scores(query_id: str, ranking: Sequence[str]) -> dict[str, float]:
    """Strictly decreasing scores: the providers of ir-measures order ties differently, so none may see one."""
    scores = {document: float(len(ranking) - place) for place, document in enumerate(ranking)}
    if len(scores) != len(ranking):
        raise ValueError(f"the ranking of query '{query_id}' names a document twice")
    return scores
