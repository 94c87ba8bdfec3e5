"""Which queries of a collection are questions with right answers. Imports no torch: planning uses it."""

from collections.abc import Mapping, Sequence

from search_spaces.problems import InputError, Problem
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets import Collection
from trainers.data_sets.collection import asked_queries, strings

_COLUMN = "answers"


def right_answers(collection: Collection) -> Mapping[str, Sequence[str]]:
    """By query id its right answers, of the queries that have any."""
    if _COLUMN not in collection.queries.column_names:
        return {}
    answers = collection.queries[_COLUMN].to_pylist()
    return {key: found for key, found in zip(strings(collection.queries["id"]), answers, strict=True) if found}


def check_questions(data: DataSpec) -> None:
    """Check, before anything is started, that the split has a question with an answer.

    Raises:
        InputError: it has none, or as `data_sets.load`.
    """
    collection = data_sets.load(data.entry)
    asked = strings(asked_queries(collection, data.split)["id"])
    if right_answers(collection).keys().isdisjoint(asked):
        message = (
            f"no query of split '{data.split}' of data set '{data.name}' has answers, which a reader's are held "
            'against (in a BEIR folder: "metadata": {"answers": ["..."]} in queries.jsonl)'
        )
        raise InputError([Problem(where=data.entry.source, key=f"data set '{data.name}'", message=message)])
