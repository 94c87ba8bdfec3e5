"""Gold answers that lie apart from the questions, joined by the questions' words."""

import re

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.faults import Faults
from trainers.data_sets.hub_files import at, data_folder, inputs_of, problem, remedy
from trainers.data_sets.hub_rows import file_rows, first_text, listed_texts
from trainers.data_sets.json_lines import Row

_NOT_WORDS = re.compile(r"[\W_]+")
_QUESTION, _ANSWERS = ("question", "query", "text"), ("golden_answers", "answers", "answer")


def answer_inputs(entry: DataSet) -> list[str]:
    """What decides the answers outside the entry."""
    if entry.answers is None:
        return []
    part = at(entry, entry.answers.source)
    return [entry.answers.source, entry.answers.file, *inputs_of(part, [entry.answers.file])]


def gold_answers(entry: DataSet, faults: Faults) -> dict[str, list[str]]:
    """The answers by `question_key`; none where the entry names no file of them. Rows without one are passed over.

    Raises:
        InputError: the file is not to be had.
    """
    if entry.answers is None:
        return {}
    part, name = at(entry, entry.answers.source), entry.answers.file
    file = data_folder(part, [name]) / name
    if not file.is_file():
        raise problem(part, f"there is no file {file}; {remedy(part, [name])}")
    found: dict[str, list[str]] = {}
    for place, row in file_rows(part, file, faults):
        try:
            found.setdefault(question_key(first_text(row, _QUESTION)), []).extend(row_answers(row))
        except ValueError as error:
            faults.add("malformed", file=name, key=place, message=str(error))
    return {key: list(dict.fromkeys(answers)) for key, answers in found.items() if answers}


def row_answers(row: Row) -> list[str]:
    """The answers of a row, without blank ones. Raises ValueError."""
    key = next((key for key in _ANSWERS if row.get(key) is not None), _ANSWERS[0])
    return [answer for answer in listed_texts(row, key) if answer.strip()]


def question_key(question: str) -> str:
    """A question's words in lower case, so that copies that differ in case and punctuation are one question."""
    return _NOT_WORDS.sub(" ", question.lower()).strip()
