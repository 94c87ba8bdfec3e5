"""The reader of a sweep file: its weights' content hash, and whether it and the questions can be used. Torch-free."""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from search_spaces.expand import GroupedEvaluation
from search_spaces.problems import InputError, Problem
from search_spaces.specs import DataSpec, RagSpec, WeightsSpec
from trainers import weights
from trainers.evaluation.qa_questions import check_questions
from trainers.evaluation.reader_weights import check_reader, reader_hash

_KEY = "evaluation.rag.reader"


def with_reader(
    evaluations: Sequence[GroupedEvaluation],
    there: Container[DataSpec],
    where: str,
    problems: list[Problem],
    is_missing: Callable[[WeightsSpec], bool] = lambda _: False,
) -> tuple[GroupedEvaluation, ...]:
    """The evaluations with their reader pinned and hashed; what is wrong with it or the questions goes to `problems`.

    `there` holds the data that could be read; other data has its problems already. A missing reader is left as it is.
    """
    resolved: dict[RagSpec, RagSpec] = {}
    for rag in dict.fromkeys(evaluation.spec.rag for evaluation in evaluations):
        if rag is not None and not is_missing(rag.reader.weights):
            try:
                resolved[rag] = _resolved(rag)
            except InputError as error:
                problems += [Problem(where=where, key=_KEY, message=str(fault)) for fault in error.problems]
    for spec in (evaluation.spec for evaluation in evaluations):
        if spec.rag is not None and spec.data in there:
            try:
                check_questions(spec.data)
            except InputError as error:
                problems += error.problems
    return tuple(
        replace(e, spec=replace(e.spec, rag=resolved.get(e.spec.rag, e.spec.rag))) if e.spec.rag else e
        for e in evaluations
    )


def _resolved(rag: RagSpec) -> RagSpec:
    """Raises InputError where the reader's weights are not there, or are none of a reader."""
    pinned = weights.pinned(rag.reader.weights)
    checked = replace(rag, reader=replace(rag.reader, weights=pinned))
    check_reader(checked)
    hashed = replace(pinned, content_hash=reader_hash(pinned))
    return replace(rag, reader=replace(rag.reader, weights=hashed))
