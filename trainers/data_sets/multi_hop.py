"""Reader of multi-hop questions that come with paragraphs: 2WikiMultihopQA, MuSiQue and NovelHopQA.

The paragraphs of all questions of the files are one corpus, equal ones once; those that support a question are
relevant to it, all others are not. What a row looks like says which it is:

- MuSiQue: `paragraphs`, each with title, paragraph_text and is_supporting;
- 2WikiMultihopQA, HotpotQA: `context` with title and sentences (or content), `supporting_facts` with title;
- NovelHopQA: `context`, the passage of a novel that the question was made from, which alone is relevant.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets import hub_retrieval
from trainers.data_sets.answers import row_answers
from trainers.data_sets.bright import is_beir_folder
from trainers.data_sets.collection import ANSWERED_QUERIES, CORPUS, QRELS, Collection, document_text
from trainers.data_sets.faults import Faults
from trainers.data_sets.growing import GrowingTable
from trainers.data_sets.hashing import text_hash
from trainers.data_sets.hub_files import config_of, data_folder, inputs_of, is_hub, problem, remedy
from trainers.data_sets.hub_layout import split_of
from trainers.data_sets.hub_rows import file_rows, first_text
from trainers.data_sets.json_lines import Row, checked_text, shown

VERSION = 1
_ID, _QUESTION = ("id", "_id", "qid", "question_id"), ("question", "query")
_SUFFIXES = (".jsonl", ".json", ".parquet", ".jsonl.gz")
_SPLIT = "test"
Paragraph = tuple[str, str, bool]  # title, text, whether it supports the question


def patterns(entry: DataSet) -> list[str]:
    """The files that are read, in whatever folder: the entry's config is a pattern of their names."""
    return [f"**/{config_of(entry)}"]


def inputs(entry: DataSet) -> list[str]:
    """What decides the collection outside the entry."""
    if is_beir_folder(entry):
        return hub_retrieval.inputs(entry)
    return inputs_of(entry, [config_of(entry)] if is_hub(entry) else patterns(entry))


def read(entry: DataSet, faults: Faults) -> Collection:
    """Read all questions, as the split 'test'. Rows that cannot be read are noted in `faults`.

    Questions that no paragraph supports are left out and counted. A folder in BEIR's layout is read as one.

    Raises:
        InputError: the files are not to be had.
    """
    if is_beir_folder(entry):
        return hub_retrieval.read(entry, faults)
    corpus, queries, qrels = GrowingTable(CORPUS), GrowingTable(ANSWERED_QUERIES), GrowingTable(QRELS)
    seen: set[str] = set()
    for file, place, row in _rows(entry, faults):
        try:
            paragraphs = _paragraphs(row)
            query_id = first_text(row, _ID, f"{split_of(file)}-{place}".replace(" ", "-"))
            question = {"id": query_id, "text": first_text(row, _QUESTION), "excluded_ids": []}
            supporting = [_document_id(title, text) for title, text, supports in paragraphs if supports]
            if not supporting:
                faults.leave_out("questions that no paragraph supports")
                continue
            queries.append(question | {"answers": _answers(row)})
        except ValueError as error:
            faults.add("malformed", file=file.name, key=place, message=str(error))
            continue
        for title, text, _ in paragraphs:
            if (key := _document_id(title, text)) not in seen:
                seen.add(key)
                corpus.append({"id": key, "title": title, "text": text})
        for document_id in dict.fromkeys(supporting):
            qrels.append({"query_id": query_id, "document_id": document_id, "relevance": 1})
    return Collection(
        name=entry.name, corpus=corpus.finished(), queries=queries.finished(), qrels={_SPLIT: qrels.finished()}
    )


def _rows(entry: DataSet, faults: Faults) -> Iterator[tuple[Path, str, Row]]:
    config = config_of(entry)
    folder = data_folder(entry, [config])  # the hub's patterns cross folders as they are
    files = sorted(file for file in folder.rglob(config) if file.name.endswith(_SUFFIXES))
    if not files:
        raise problem(entry, f"{folder} has no file {config}; {remedy(entry, [config])}")
    for file in files:
        for place, row in file_rows(entry, file, faults):
            yield file, place, row


def _document_id(title: str, text: str) -> str:
    return text_hash(document_text(title, text))[:16]


def _paragraphs(row: Row) -> list[Paragraph]:
    """The paragraphs of a row. Raises ValueError."""
    if isinstance(row.get("paragraphs"), list):
        return [_musique_paragraph(value) for value in row["paragraphs"]]
    context: Any = row.get("context")
    if isinstance(context, str) and context.strip():
        return [("", checked_text(context, "context"), True)]
    if isinstance(context, dict) and isinstance(context.get("title"), list):
        return list(_wiki_paragraphs(context, row.get("supporting_facts")))
    raise ValueError(f"'paragraphs' or 'context' must hold the question's paragraphs (it has {', '.join(row)})")


def _musique_paragraph(value: Any) -> Paragraph:
    if not isinstance(value, dict):
        raise ValueError(f"'paragraphs' must be a list of objects, not of {shown(value)}")
    title, text = first_text(value, ("title",), ""), first_text(value, ("paragraph_text", "text"))
    return title, text, bool(value.get("is_supporting"))


def _wiki_paragraphs(context: dict[str, Any], facts: Any) -> Iterator[Paragraph]:
    titles, texts = context["title"], context.get("sentences", context.get("content"))
    if not isinstance(texts, list) or len(texts) != len(titles):
        raise ValueError("'context' must hold as many lists of sentences as titles")
    supporting = set(facts.get("title") or []) if isinstance(facts, dict) else set()
    for title, sentences in zip(titles, texts, strict=True):
        words = " ".join(checked_text(sentence, "sentences").strip() for sentence in sentences)
        yield checked_text(title, "title"), words, title in supporting


def _answers(row: Row) -> list[str]:
    aliases = row.get("answer_aliases")
    more = [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []
    return list(dict.fromkeys([*row_answers(row), *more]))
