"""Multi-hop questions with their paragraphs, and questions with answers alone, from rows as in the hub's files."""

import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.collection import asked_queries, document_text
from trainers.evaluation.judged_queries import split_queries
from trainers.evaluation.measures import per_query

MUSIQUE = [
    {
        "id": "2hop__1_2",
        "question": "Who is the mother of the singer of Aria?",
        "paragraphs": [
            {"idx": 0, "title": "Aria", "paragraph_text": "Aria is sung by Ada.", "is_supporting": True},
            {"idx": 1, "title": "Ada", "paragraph_text": "Ada is a daughter of Bea.", "is_supporting": True},
            {"idx": 2, "title": "Oslo", "paragraph_text": "Oslo is a city.", "is_supporting": False},
        ],
        "answer": "Bea",
        "answer_aliases": ["Queen Bea"],
        "answerable": True,
    },
    {
        "id": "2hop__3_4",
        "question": "Where was Ada born?",
        "paragraphs": [
            {"idx": 0, "title": "Ada", "paragraph_text": "Ada is a daughter of Bea.", "is_supporting": True},
            {"idx": 1, "title": "Oslo", "paragraph_text": "Oslo is a city.", "is_supporting": False},
        ],
        "answer": "Oslo",
        "answer_aliases": [],
        "answerable": True,
    },
]
WIKI = [
    {
        "id": "w1",
        "question": "Which film is older, A or B?",
        "answer": "A",
        "type": "comparison",
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 0]},
        "context": {
            "title": ["A", "C", "B"],
            "sentences": [["A is of 1920.", " It is silent."], ["C is a town."], ["B is of 1930."]],
        },
    },
    {
        "id": "w2",
        "question": "What is nowhere?",
        "answer": "x",
        "type": "bridge",
        "supporting_facts": {"title": [], "sent_id": []},
        "context": {"title": ["C"], "sentences": [["C is a town."]]},
    },
]
NOVELS = {
    "hop_1": [{"book": "Emma", "context": "Emma lived at Hartfield.", "question": "Where?", "answer": "Hartfield"}],
    "hop_2": [{"book": "Emma", "context": "She met Knightley there.", "question": "Whom?", "answer": "Knightley"}],
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def entry_of(folder, config, reader="multi_hop", **changes):
    return DataSet(**{"name": "mine", "source": f"path:{folder}", "config": config, "reader": reader} | changes)


def found(entry):
    """By question its relevant texts and its answers."""
    collection = data_sets.load(entry)
    texts = {row["id"]: document_text(row["title"], row["text"]) for row in collection.corpus.to_pylist()}
    relevant = {row["id"]: [] for row in collection.queries.to_pylist()}
    for row in collection.qrels["test"].to_pylist():
        relevant[row["query_id"]].append(texts[row["document_id"]])
    answers = {row["id"]: row["answers"] for row in collection.queries.to_pylist()}
    return {query: (sorted(of_query), answers[query]) for query, of_query in relevant.items()}, sorted(texts.values())


def test_musique(tmp_path):
    (tmp_path / "musique_ans_v1.0_dev.jsonl").write_bytes(lines(MUSIQUE))
    (tmp_path / "musique_ans_v1.0_train.jsonl").write_bytes(lines([]))
    entry = entry_of(tmp_path, DATA_SETS["musique"].config)
    of_query, texts = found(entry)
    assert of_query == {
        "2hop__1_2": (["Ada Ada is a daughter of Bea.", "Aria Aria is sung by Ada."], ["Bea", "Queen Bea"]),
        "2hop__3_4": (["Ada Ada is a daughter of Bea."], ["Oslo"]),
    }
    assert texts == ["Ada Ada is a daughter of Bea.", "Aria Aria is sung by Ada.", "Oslo Oslo is a city."]
    assert data_sets.report(entry).warnings() == []


def test_2wikimultihopqa(tmp_path):
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(WIKI), tmp_path / "data" / "validation-00000-of-00001.parquet")
    entry = entry_of(tmp_path, DATA_SETS["2wikimultihopqa"].config)
    of_query, texts = found(entry)
    assert of_query == {"w1": (["A A is of 1920. It is silent.", "B B is of 1930."], ["A"])}
    assert texts == ["A A is of 1920. It is silent.", "B B is of 1930.", "C C is a town."]
    assert data_sets.report(entry).warnings() == ["1 questions that no paragraph supports were left out"]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_novelhopqa_takes_all_hops(tmp_path, suffix):
    (tmp_path / "data").mkdir()
    (tmp_path / "README.md").write_text("a card, which is no data")
    (tmp_path / "data" / "hop_1.py").write_text("a script, which is not run")
    for split, rows in NOVELS.items():
        file = tmp_path / "data" / f"{split}.{suffix}"
        if suffix == "jsonl":
            file.write_bytes(lines(rows))
        elif suffix == "json":
            file.write_text(json.dumps(rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows), file)
    of_query, texts = found(entry_of(tmp_path, DATA_SETS["novelhopqa"].config))
    assert sorted(of_query.values()) == [
        (["Emma lived at Hartfield."], ["Hartfield"]),
        (["She met Knightley there."], ["Knightley"]),
    ]
    assert len(texts) == 2
    assert all(re.fullmatch(r"hop_[12]-(line|row|item)-1", query) for query in of_query)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "1", "question": "x"}, "'paragraphs' or 'context' must hold the question's paragraphs"),
        ({"id": "1", "question": "x", "paragraphs": ["a"]}, "'paragraphs' must be a list of objects, not of 'a'"),
        (MUSIQUE[0] | {"question": None}, "'question' or 'query' is missing"),
        (WIKI[0] | {"context": {"title": ["A"], "sentences": []}}, "as many lists of sentences as titles"),
        (MUSIQUE[0] | {"answer": 3}, "'answer' must be a list of texts, not 3"),
    ],
)
def test_rows_that_cannot_be_read_are_named(tmp_path, row, message):
    (tmp_path / "dev.jsonl").write_bytes(lines([MUSIQUE[1], row]))
    with pytest.raises(InputError, match=re.escape(message)) as error:
        data_sets.load(entry_of(tmp_path, "dev.jsonl"))
    assert "dev.jsonl: line 2" in str(error.value)


@pytest.mark.parametrize(("text", "message"), [("[", "is not JSON"), ('{"a": 1}', "must hold a list of objects")])
def test_a_file_that_is_no_list_is_named(tmp_path, text, message):
    (tmp_path / "dev.json").write_text(text)
    with pytest.raises(InputError, match=message):
        data_sets.load(entry_of(tmp_path, "dev.json"))


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InputError, match=r"has no file dev\.jsonl"):
        data_sets.load(entry_of(tmp_path, "dev.jsonl"))


def test_a_shared_collection_in_beirs_layout_stands_in_for_a_set(shared_data):
    entry = DATA_SETS["2wikimultihopqa"].read_from(f"path:{shared_data('2wiki_multihop')}")
    collection = data_sets.load(entry.model_copy(update={"counts": None}))
    assert collection.corpus.num_rows == 6_119
    assert collection.qrels["test"].num_rows == 248


def test_shared_questions_have_their_answers(shared_data):
    """BEIR's layout with answers in the questions' metadata: all 2,545 have one."""
    entry = DataSet(name="nq_squad_open", source=f"path:{shared_data('nq_squad_open')}")
    queries = asked_queries(data_sets.load(entry), "test")
    assert queries.num_rows == 2_545
    assert all(queries["answers"].to_pylist())
    assert data_sets.report(entry).warnings() == []


TRIVIA = [
    {"query_id": "0", "query": "who was Emma", "answers": ["a novel", "Emma"], "positive_passages": []},
    {"query_id": "1", "query": "who was nobody", "answers": []},
]
PASSAGES = [{"docid": "1", "title": "Emma", "text": "a novel of 1815"}, {"docid": "2", "title": "", "text": "x"}]


@pytest.fixture
def trivia(tmp_path):
    for name, rows in (("questions/trivia-test", TRIVIA), ("wiki/corpus", PASSAGES)):
        file = tmp_path / f"{name}.jsonl.gz"
        file.parent.mkdir()
        file.write_bytes(gzip.compress(lines(rows)))
    return entry_of(
        tmp_path / "questions", "trivia-test", "open_qa", corpus_source=f"path:{tmp_path / 'wiki'}"
    )  # fmt: skip


def test_questions_without_judgements_are_asked_by_their_answers(trivia):
    collection = data_sets.load(trivia)
    assert collection.corpus["id"].to_pylist() == ["1", "2"]
    assert collection.qrels["test"].num_rows == 0
    [row] = asked_queries(collection, "test").to_pylist()
    assert (row["id"], row["text"], row["answers"]) == ("0", "who was Emma", ["a novel", "Emma"])
    assert data_sets.report(trivia).warnings() == ["1 questions without an answer were left out"]


def test_questions_without_judgements_are_searched_for_and_have_no_measure(trivia):
    queries = split_queries(data_sets.load(trivia), "test", trivia.exclusion)
    assert (list(queries.ids), list(queries.texts), queries.qrels) == (["0"], ["who was Emma"], {})
    assert per_query({"0": ["1"]}, queries.qrels, trivia.measures) == []


def test_answers_are_part_of_what_identifies_a_split_without_judgements(trivia, tmp_path):
    before = data_sets.fingerprint(trivia, "test").content_hash
    changed = [TRIVIA[0] | {"answers": ["a woman"]}]
    (tmp_path / "questions" / "trivia-test.jsonl.gz").write_bytes(gzip.compress(lines(changed)))
    assert data_sets.fingerprint(trivia, "test").content_hash != before


def test_a_missing_corpus_is_told(trivia, tmp_path):
    (tmp_path / "wiki" / "corpus.jsonl.gz").unlink()
    with pytest.raises(InputError, match=r"has no file corpus\.jsonl\.gz"):
        data_sets.load(trivia)
