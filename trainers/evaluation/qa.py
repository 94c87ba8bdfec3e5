"""Questions answered from what a checkpoint finds: its first passages, read by a reader, scored, as rows.

Shapes: Q queries, K results.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from results.layout import answer_rows
from results.rows import write_rows
from results.store import Store
from search_spaces.identity import answers_id
from search_spaces.specs import EvaluationSpec, RagSpec, SimilaritySpec
from trainers.arrays import Indices
from trainers.data_sets import Collection, document_text
from trainers.data_sets.collection import strings
from trainers.data_sets.rows import take_rows
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.evaluations import lacks_answers
from trainers.evaluation.judged_queries import JudgedQueries
from trainers.evaluation.qa_prompts import Prompt, fitted
from trainers.evaluation.qa_questions import right_answers
from trainers.evaluation.qa_scores import score_answer
from trainers.evaluation.reader import Reader, Readers
from trainers.provenance import provenance


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its right answers, and the passages that were found for it, best first."""

    query_id: str
    text: str
    answers: Sequence[str]
    document_ids: Sequence[str] = field(default_factory=tuple)
    passages: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Where answers go and who gives them.

    `verify` is called before each write; it raises LostLockError where nothing may be written any more. `say` is told
    in words what is read.
    """

    store: Store
    readers: Readers
    verify: Callable[[], None]
    say: Callable[[str], None] = lambda _: None


def answer_missing(
    checkpoint: str, asked: AskedCollection, found: Mapping[SimilaritySpec, Indices], answering: Answering
) -> None:
    """Answer the questions under each score similarity whose answers the store lacks, and write their rows.

    A ranking is read once, whichever similarities share it: they then share the answers too.

    Args:
        checkpoint: its hash.
        asked: with the questions, their answers and the passages; without `rag` in its evaluation, nothing is done.
        found: of each score similarity the ranking, positions in the corpus [Q, K], best first, -1 for none.
        answering: where rows go.

    Raises:
        InputError: the reader cannot be loaded, or the data set has no answers.
        ValueError: the reader is not the one that was planned, or a question does not fit its input.
    """
    evaluation, rag = asked.evaluation, asked.evaluation.rag
    lacking = [s for s in found if lacks_answers(checkpoint, s, evaluation, answering.store)]
    if rag is None or not lacking:
        return
    answering.say(f"answering {evaluation.data.name}")
    reader = answering.readers.get(rag.reader)
    read: dict[bytes, Mapping[str, Any]] = {}
    for similarity in lacking:
        document_QK = found[similarity][:, : rag.num_passages]
        ranking = document_QK.tobytes()
        if ranking not in read:
            read[ranking] = answer_columns(
                reader, rag, list(asked_questions(asked.collection, asked.queries, document_QK))
            )
        _write(checkpoint, evaluation, similarity, read[ranking], answering)


def asked_questions(collection: Collection, queries: JudgedQueries, document_QK: Indices) -> Iterator[Question]:
    """The queries that have a right answer, each with its passages; the others are no questions."""
    answers_of = right_answers(collection)
    asked_Q = np.array([bool(answers_of.get(query_id)) for query_id in queries.ids], dtype=bool)
    found = np.unique(document_QK[asked_Q])
    found = found[found >= 0]
    rows = take_rows(collection.corpus, found)
    ids = strings(rows["id"])
    passages = list(map(document_text, strings(rows["title"]), strings(rows["text"])))
    for query in np.flatnonzero(asked_Q).tolist():
        document_K = document_QK[query]
        places = np.searchsorted(found, document_K[document_K >= 0]).tolist()
        yield Question(
            query_id=queries.ids[query],
            text=queries.texts[query],
            answers=answers_of[queries.ids[query]],
            document_ids=[ids[place] for place in places],
            passages=[passages[place] for place in places],
        )


def answer_columns(reader: Reader, rag: RagSpec, questions: Sequence[Question]) -> Mapping[str, Any]:
    """What the reader answers to each question, and how good that is: the columns of QA that differ by question.

    Raises:
        ValueError: a question does not fit the reader's input, even without passages.
    """
    prompts: list[Prompt] = [fitted(reader, rag, question.text, question.passages) for question in questions]
    predictions = reader.answers([prompt.ids for prompt in prompts], max_new_tokens=rag.max_new_tokens)
    scores = [score_answer(text, question.answers) for text, question in zip(predictions, questions, strict=True)]
    return {
        "query_id": [question.query_id for question in questions],
        "document_ids": [list(question.document_ids) for question in questions],
        "num_cut": [prompt.num_cut for prompt in prompts],
        "prediction": predictions,
        "exact_match": [score.exact_match for score in scores],
        "f1": [score.f1 for score in scores],
    }


def _write(
    checkpoint: str,
    evaluation: EvaluationSpec,
    similarity: SimilaritySpec,
    answers: Mapping[str, Any],
    answering: Answering,
) -> None:
    rows = {**_evaluated(checkpoint, evaluation, similarity, len(answers["f1"])), **answers}
    key = answer_rows(answers_id(checkpoint, evaluation, similarity))
    answering.verify()
    write_rows(answering.store, key, "qa", rows, provenance_json=provenance().to_json())


def _evaluated(
    checkpoint: str, evaluation: EvaluationSpec, similarity: SimilaritySpec, num_rows: int
) -> Mapping[str, Any]:
    data, rag = evaluation.data, evaluation.rag
    assert rag is not None, "there are answers"
    constant = {
        "checkpoint_hash": checkpoint,
        "data_set": data.name,
        "data_hash": data.content_hash,
        "split": data.split,
        "tier": evaluation.tier,
        "score_similarity": similarity.name,
        "reader": rag.reader.name,
        "num_passages": rag.num_passages,
    }
    return {name: pa.repeat(value, num_rows) for name, value in constant.items()}
