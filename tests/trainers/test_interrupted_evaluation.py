"""An evaluation that is killed goes on where it was: the same rows, run files and kept embeddings, to the last bit."""

import gzip
import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_readers import save_t5

from results.layout import (
    LAST_EMBEDDINGS,
    embedding_rows,
    judgement_rows,
    norm_rows,
    per_query_rows,
    run_file,
    unfinished_prefix,
)
from results.rows import read_rows
from results.store import LostLockError, open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec, RagSpec, ReaderSpec, WeightsSpec
from tests.trainers.evaluating import evaluate
from tests.trainers.interrupted import SHARD, evaluate_in_process
from tests.trainers.whole_search import search
from trainers import data_sets
from trainers.data_sets.collection import document_text
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.encoders.encode import encode
from trainers.evaluation import corpus_pass
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.kept_embeddings import kept_parts
from trainers.evaluation.reader_weights import reader_hash
from trainers.evaluation.snapshots import StoredSnapshots, StreamState
from trainers.init_regimes import start_encoder

NUM_DOCUMENTS = 90  # of a corpus; the second one shares 60 of them


def write_beir(folder: Path, numbers: range) -> EvaluationSpec:
    (folder / "qrels").mkdir(parents=True)
    corpus = "".join(f'{{"_id": "d{n}", "title": "Report {n}", "text": "{words(n)}"}}\n' for n in numbers)
    queries = "".join(f'{{"_id": "q{n}", "text": "which report has {words(n)[:12]}"}}\n' for n in numbers[::15])
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "queries.jsonl").write_text(queries)
    rows = "".join(f"q{n}\td{n}\t1\nq{n}\td{numbers[0]}\t1\n" for n in numbers[15::15])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    entry = DataSet(name=folder.name, source=f"path:{folder}")
    content_hash = data_sets.fingerprint(entry, "test").content_hash
    data = DataSpec(entry=entry, split="test", content_hash=content_hash)
    return EvaluationSpec(data=data, score_similarities="all", keep_embeddings=True)


def words(number: int) -> str:
    rng = np.random.default_rng(number)
    return " ".join(rng.choice(["mail", "keys", "disks", "logs", "base64", "traffic", "at", "logon"], 3 + number % 9))


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory) -> list[EvaluationSpec]:
    folder = tmp_path_factory.mktemp("interrupted")
    return [write_beir(folder / "first", range(NUM_DOCUMENTS)), write_beir(folder / "second", range(30, 120))]


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    save_checkpoint(folder, start_encoder(replace(minilm, layers=1), None), gammas=None, similarity=None, scale=None)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.slow
def test_a_killed_evaluation_continues_and_gives_the_same_files(evaluations, checkpoint, tmp_path) -> None:
    evaluations = [replace(evaluation, run_files=True) for evaluation in evaluations]
    code, num_texts = evaluate_in_process(checkpoint, evaluations, tmp_path / "whole", tmp_path / "counted")
    assert (code, num_texts) == (0, 120 + 5 + 5)
    code, before = evaluate_in_process(checkpoint, evaluations, tmp_path / "killed", tmp_path / "x", die_after=75)
    assert (code, before) == (-signal.SIGKILL, 10 + 4 * SHARD)
    store = open_store(str(tmp_path / "killed"))
    [snapshot] = store.list("unfinished")
    assert snapshot.startswith(unfinished_prefix(checkpoint_hash(checkpoint)))
    assert store.list("evaluations") == []
    code, after = evaluate_in_process(checkpoint, evaluations, tmp_path / "killed", tmp_path / "counted")
    assert (code, after) == (0, 10 + 120 - 4 * SHARD)  # queries again, and of the passages only what was missing
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    for evaluation in evaluations:
        for similarity in score_similarities(None, evaluation):
            run = run_file(evaluation_id(checkpoint_hash(checkpoint), evaluation, similarity))
            lines = gzip.decompress(store.read(run)).decode().splitlines()
            assert len(lines) == 5 * NUM_DOCUMENTS  # of each query all documents: the ranking is cut at 100
    assert store.list("unfinished") == []


@pytest.fixture(scope="module")
def questions(evaluations, tmp_path_factory) -> list[EvaluationSpec]:
    """The two collections; the second one's queries have answers, which a reader is to give."""
    reader = tmp_path_factory.mktemp("reader")
    save_t5(reader)
    folder = Path(evaluations[1].data.entry.source.removeprefix("path:"))
    asked = shutil.copytree(folder, tmp_path_factory.mktemp("asked") / "second")
    lines = [json.loads(line) for line in (asked / "queries.jsonl").read_text().splitlines()]
    (asked / "queries.jsonl").write_text(
        "".join(json.dumps(line | {"metadata": {"answers": ["mail"]}}) + "\n" for line in lines)
    )
    weights = WeightsSpec(source=f"path:{reader}")
    rag = RagSpec(
        reader=ReaderSpec(weights=replace(weights, content_hash=reader_hash(weights))),
        num_passages=3,
        prompt="Answer: {question} {passages}",
        max_input_tokens=200,
        max_new_tokens=4,
    )
    entry = DataSet(name="second", source=f"path:{asked}")
    data = DataSpec(entry=entry, split="test", content_hash=data_sets.fingerprint(entry, "test").content_hash)
    return [evaluations[0], EvaluationSpec(data=data, score_similarities="all", keep_embeddings=True, rag=rag)]


@pytest.mark.slow
def test_a_kill_while_the_reader_answers_costs_no_encoding(questions, checkpoint, tmp_path) -> None:
    code, num_texts = evaluate_in_process(checkpoint, questions, tmp_path / "whole", tmp_path / "counted")
    assert (code, num_texts) == (0, 120 + 5 + 5)
    code, _ = evaluate_in_process(checkpoint, questions, tmp_path / "killed", tmp_path / "x", die_reading=2)
    assert code == -signal.SIGKILL
    store, key = open_store(str(tmp_path / "killed")), checkpoint_hash(checkpoint)
    answered = store.list("answers")
    assert answered  # those under the first ranking; and the others are missing
    similarities = score_similarities(None, questions[1])
    missing = [missing_evaluations(key, None, evaluation, store) for evaluation in questions]
    assert missing[0] == []
    assert 0 < len(missing[1]) < len(similarities)
    # Fewer similarities than the pass searched under: what it found under all of them serves.
    code, after = evaluate_in_process(
        checkpoint, questions[1:], tmp_path / "killed", tmp_path / "counted", only_missing=True
    )
    assert (code, after) == (0, 0)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert len(store.list("answers")) == len(similarities)
    assert store.list("unfinished") == []


@pytest.mark.slow
def test_a_pass_goes_on_for_fewer_similarities(evaluations, checkpoint, tmp_path) -> None:
    plain = [replace(evaluation, keep_embeddings=False) for evaluation in evaluations]
    code, _ = evaluate_in_process(checkpoint, plain, tmp_path / "whole", tmp_path / "counted")
    assert code == 0
    code, before = evaluate_in_process(checkpoint, plain, tmp_path / "killed", tmp_path / "x", die_after=75)
    assert (code, before) == (-signal.SIGKILL, 10 + 4 * SHARD)
    store, key = open_store(str(tmp_path / "killed")), checkpoint_hash(checkpoint)
    for evaluation in plain:  # rows that are there already, as after an evaluation under 'own'
        rows = per_query_rows(evaluation_id(key, evaluation, score_similarities(None, evaluation)[0]))
        norms = norm_rows(encoding_id(key, evaluation))
        for name in (rows, norms, judgement_rows(evaluation.data)):
            store.write(name, (tmp_path / "whole" / name).read_bytes())
    assert len(missing_evaluations(key, None, plain[0], store)) == len(score_similarities(None, plain[0])) - 1
    code, after = evaluate_in_process(checkpoint, plain, tmp_path / "killed", tmp_path / "counted", only_missing=True)
    assert (code, after) == (0, 10 + 120 - 4 * SHARD)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.mark.slow
def test_another_question_starts_anew(evaluations, checkpoint, tmp_path) -> None:
    code, _ = evaluate_in_process(checkpoint, evaluations, tmp_path / "sweep", tmp_path / "x", die_after=75)
    assert code == -signal.SIGKILL
    store = open_store(str(tmp_path / "sweep"))
    kept = store.list("encodings")
    assert len(kept) == 4 + 3  # none of the second corpus is in the first shard
    code, encoded = evaluate_in_process(checkpoint, evaluations[1:], tmp_path / "sweep", tmp_path / "counted")
    assert (code, encoded) == (0, 90 + 5)
    assert store.list("unfinished") == []
    encoding = encoding_id(checkpoint_hash(checkpoint), evaluations[1])
    ids = [key for part in kept_parts(store, encoding, "document") for key in part.ids]
    assert sorted(ids) == sorted(f"d{n}" for n in range(30, 120))  # no part of the other pass is left


def test_kept_embeddings_are_unit_directions_and_norms(evaluations, checkpoint, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", SHARD)
    store = open_store(str(tmp_path))
    evaluate_all(checkpoint, {e: score_similarities(None, e) for e in evaluations}, store=store)
    encoder = load_checkpoint(checkpoint).encoder
    for evaluation, num_parts in zip(evaluations, (6, 7), strict=True):
        collection = data_sets.load(evaluation.data.entry)
        rows = collection.corpus.to_pylist()
        vector_NH = encode(encoder, [document_text(row["title"], row["text"]) for row in rows], "document")
        expected = dict(zip([row["id"] for row in rows], vector_NH, strict=True))
        parts = list(kept_parts(store, encoding_id(checkpoint_hash(checkpoint), evaluation), "document"))
        assert len(parts) == num_parts
        ids = [key for part in parts for key in part.ids]
        assert sorted(ids) == sorted(expected)
        for part in parts:
            assert (part.direction_DH.dtype, part.norm_D.dtype) == (np.float16, np.float32)
            np.testing.assert_allclose(np.linalg.norm(part.direction_DH.astype(float), axis=1), 1, atol=1e-3)
            raw = part.direction_DH.astype(np.float32) * part.norm_D[:, None]
            np.testing.assert_allclose(raw, [expected[key] for key in part.ids], atol=2e-3 * np.abs(raw).max())
        # What is kept can be searched again without encoding.
        [queries] = kept_parts(store, encoding_id(checkpoint_hash(checkpoint), evaluation), "query")
        assert len(queries.ids) == 5
        query_QH = queries.direction_DH.astype(np.float32) * queries.norm_D[:, None]
        first = np.cumsum([0, *(len(part.ids) for part in parts)])
        blocks = [part.block(int(n)) for part, n in zip(parts, first[:-1], strict=True)]
        found = search(query_QH, blocks, 1, document_ids=ids)
        scores = query_QH @ np.array([expected[key] for key in ids]).T
        np.testing.assert_allclose(found.score_QK[:, 0], scores.max(axis=1), rtol=1e-3)


def test_embeddings_that_are_asked_for_later_are_encoded_again(evaluations, checkpoint, tmp_path) -> None:
    store, key = open_store(str(tmp_path)), checkpoint_hash(checkpoint)
    plain = replace(evaluations[0], keep_embeddings=False)
    evaluate(checkpoint, plain, score_similarities(None, plain), store=store)
    before = store.read(norm_rows(encoding_id(key, plain)))
    assert missing_evaluations(key, None, plain, store) == []
    assert not any("embeddings" in name for name in store.list("encodings"))
    with pytest.raises(KeyError):
        next(kept_parts(store, encoding_id(key, plain), "document"))
    missing = missing_evaluations(key, None, evaluations[0], store)
    assert missing == list(score_similarities(None, plain))
    evaluate(checkpoint, evaluations[0], missing, store=store)
    assert missing_evaluations(key, None, evaluations[0], store) == []
    assert store.exists(embedding_rows(encoding_id(key, plain), LAST_EMBEDDINGS))
    assert store.read(norm_rows(encoding_id(key, plain))) == before
    table = read_rows(store, embedding_rows(encoding_id(key, plain), LAST_EMBEDDINGS), "embeddings")
    assert table["text_id"].to_pylist() == [f"q{n}" for n in range(15, 90, 15)]


def test_whether_embeddings_are_kept_is_no_part_of_an_identity(evaluations) -> None:
    kept = evaluations[0]
    plain = replace(kept, keep_embeddings=False)
    [similarity, *_] = score_similarities(None, kept)
    assert encoding_id("c", kept) == encoding_id("c", plain)
    assert evaluation_id("c", kept, similarity) == evaluation_id("c", plain, similarity)


def test_snapshots_come_back_as_they_were_and_cost_little(tmp_path) -> None:
    store = open_store(str(tmp_path))
    keys = {0.46000000834465027: np.arange(6).reshape(2, 3) << 40, 1.0: np.full((2, 3), np.iinfo(np.int64).max)}
    state = StreamState(keys=keys, norm_D=np.array([1.5, 0.1], dtype=np.float32))
    snapshots = StoredSnapshots(store, "unfinished/x.npz", every_s=0)
    assert snapshots.last([[1.0], [1.0]]) is None
    snapshots.offer({7, 0, 1}, lambda: [state, state])
    assert snapshots.last([[1.0], [0.0]]) is None  # rankings under this gamma_d are not known
    found = snapshots.last([[1.0], list(keys)])
    assert found is not None
    assert found.shards == [0, 1, 7]
    for other in found.states:
        assert list(other.keys) == list(keys)
        for gamma_d, expected in keys.items():
            np.testing.assert_array_equal(other.keys[gamma_d], expected)
        np.testing.assert_array_equal(other.norm_D, state.norm_D)
        assert other.norm_D.dtype == np.float32
    StoredSnapshots(store, "unfinished/y.npz").offer([0], lambda: [][0])  # too early: nobody asks for the state


@pytest.mark.parametrize(
    "damaged",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data.replace(b"\x00\x00\xc0\x3f", b"\x00\x00\xc1\x3f"),  # 1.5 as float32: the norm
        lambda data: b"",
        lambda data: b"another program's file",
    ],
)
def test_what_was_left_and_cannot_be_read_is_as_if_nothing_was(tmp_path, damaged) -> None:
    store, key = open_store(str(tmp_path)), "unfinished/x.npz"
    state = StreamState(keys={1.0: np.arange(6).reshape(2, 3)}, norm_D=np.array([1.5], dtype=np.float32))
    snapshots = StoredSnapshots(store, key, every_s=0)
    snapshots.offer([0], lambda: [state])
    whole = store.read(key)
    assert damaged(whole) != whole
    assert snapshots.last([[1.0]]) is not None
    store.write(key, damaged(whole))
    assert snapshots.last([[1.0]]) is None


def test_a_pass_that_goes_on_reads_once_what_was_left(evaluations, checkpoint, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", SHARD)
    monkeypatch.setattr("trainers.evaluation.snapshots.EVERY_S", 0.0)
    monkeypatch.setattr("trainers.evaluation.snapshots._MOST_OF_THE_TIME", float("inf"))
    store, read = open_store(str(tmp_path)), []
    wanted = {evaluation: score_similarities(None, evaluation) for evaluation in evaluations}
    encoder = load_checkpoint(checkpoint).encoder
    encoded: list[int] = []

    def fail(_: object, inputs: tuple) -> None:
        encoded.append(len(inputs[0]))
        if sum(encoded) > 75:
            raise RuntimeError("the end")

    with encoder.register_forward_pre_hook(fail), pytest.raises(RuntimeError, match="the end"):
        evaluate_all(checkpoint, wanted, store=store, encoder=encoder)
    [snapshot] = store.list("unfinished")
    original = type(store).read
    monkeypatch.setattr(type(store), "read", lambda self, key: (read.append(key), original(self, key))[1])
    evaluate_all(checkpoint, wanted, store=store, encoder=encoder)
    assert read.count(snapshot) == 1
    assert store.list("unfinished") == []


def test_who_lost_the_lock_leaves_no_snapshot(tmp_path) -> None:
    def verify() -> None:
        raise LostLockError("taken over")

    store = open_store(str(tmp_path))
    with pytest.raises(LostLockError):
        StoredSnapshots(store, "unfinished/x.npz", verify=verify, every_s=0).offer([0], list)
    assert store.list("unfinished") == []
