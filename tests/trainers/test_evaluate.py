"""Evaluation of real MiniLM checkpoints against trec_eval called directly on the training scores."""

import functools
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
import torch

from results.layout import judgement_rows, norm_rows, per_query_rows
from results.rows import provenance_of, read_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.specs import DataSpec, EvaluationSpec, ScaleSpec, SimilaritySpec
from tests.trainers.evaluating import evaluate
from tests.trainers.whole_search import search
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.encoders.encode import encode
from trainers.evaluation import corpus_pass
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.judged_queries import split_queries
from trainers.init_regimes import start_encoder
from trainers.provenance import provenance
from trainers.similarity import Gammas, query_vectors, scores, search_vectors

SHARED = Path(__file__).parents[3] / "shared" / "data"
LEARNED = SimilaritySpec(name="learnable", gamma_q=0.46, gamma_d=0.54, trained=True)
FIXED = [
    SimilaritySpec(name=s.name, gamma_q=s.gamma_q, gamma_d=s.gamma_d, trained=False)
    for s in SIMILARITIES.values()
    if not s.trained
]
SUBJECTS = ["malware", "the group", "a loader", "an implant", "the operator", "a worm", "this backdoor"]
ACTIONS = ["encodes traffic", "runs a task", "steals passwords", "hides files", "scans the network", "waits an hour"]
MEANS = ["with base64", "at logon", "from memory", "over DNS", "in the registry", "through a proxy", "twice a day"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def write_beir(folder: Path, documents: dict[str, str], queries: Iterable[dict], qrels: Iterable[tuple]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in documents.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)) + "\n")
    rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in qrels)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def beir(tmp_path_factory) -> Path:
    """Sentences put together from parts; a document is the more relevant the more parts it shares with the query.

    Query ids are ids of documents too, and each query names the document it was made of as excluded. One query has
    only irrelevant judgements, and one has none.
    """
    rng = np.random.default_rng(0)
    parts = [(s, a, m) for s in SUBJECTS for a in ACTIONS for m in MEANS]
    chosen = [parts[index] for index in rng.permutation(len(parts))[:150]]
    documents = {f"d{index * 7919 % 150}": " ".join(part) for index, part in enumerate(chosen)}
    ids, queries, qrels = list(documents), [], []
    for number in range(20):
        own = ids[number]
        queries.append({"_id": own, "text": f"{documents[own]} now", "metadata": {"excluded_ids": [own, "gone"]}})
        for key, part in zip(ids, chosen, strict=True):
            shared = sum(x == y for x, y in zip(part, chosen[number], strict=True))
            if shared and rng.random() < 0.4 and number < 19:
                qrels.append((own, key, 0 if number == 18 else shared))
    return write_beir(tmp_path_factory.mktemp("beir"), documents, queries, qrels)


@pytest.fixture(scope="module")
def checkpoints(minilm, tmp_path_factory) -> dict[str, Path]:
    """A checkpoint that says it was trained with gammas of its own, and an untrained one."""
    folder = tmp_path_factory.mktemp("checkpoints")
    encoder = start_encoder(replace(minilm, query_prompt="query: ", document_prompt="what was seen: "), None)
    gammas = Gammas(LEARNED.gamma_q, LEARNED.gamma_d, trained=True)
    scale = ScaleSpec(mode="fixed", value=20.0)
    save_checkpoint(folder / "learned", encoder, gammas=gammas, similarity=LEARNED, scale=scale)
    save_checkpoint(folder / "untrained", encoder, gammas=None, similarity=None, scale=None)
    return {path.name: path for path in folder.iterdir()}


def evaluation_of(folder: Path, *, scored: str = "all", **entry_changes) -> EvaluationSpec:
    entry = DataSet(name="small", source=f"path:{folder}", **entry_changes)
    content_hash = data_sets.fingerprint(entry, "test").content_hash
    return EvaluationSpec(
        data=DataSpec(entry=entry, split="test", content_hash=content_hash), score_similarities=scored
    )


def run(checkpoint: Path, evaluation: EvaluationSpec, store) -> list[SimilaritySpec]:
    """What a trial does: evaluate what is missing."""
    loaded = load_checkpoint(checkpoint)
    missing = missing_evaluations(checkpoint_hash(checkpoint), loaded.similarity, evaluation, store)
    evaluate(checkpoint, evaluation, missing, store=store, encoder=loaded.encoder)
    return missing


def per_query(checkpoint: Path, evaluation: EvaluationSpec, similarity: SimilaritySpec, store) -> list[dict]:
    key = per_query_rows(evaluation_id(checkpoint_hash(checkpoint), evaluation, similarity))
    return read_rows(store, key, "per_query").to_pylist()


@functools.cache
def embedded(checkpoint: Path, evaluation: EvaluationSpec):
    """(query ids, document ids, raw embeddings of both) of a data set, without anything of `evaluate`."""
    collection = data_sets.load(evaluation.data.entry)
    judged = set(collection.qrels["test"]["query_id"].to_pylist())
    queries = [row for row in collection.queries.to_pylist() if row["id"] in judged]
    encoder = load_checkpoint(checkpoint).encoder
    texts = [f"{row['title']} {row['text']}".strip() for row in collection.corpus.to_pylist()]
    query_QH = torch.from_numpy(encode(encoder, [row["text"] for row in queries], "query"))
    document_NH = torch.from_numpy(encode(encoder, texts, "document"))
    return queries, collection.corpus["id"].to_pylist(), query_QH, document_NH


def assert_equals_trec_eval(checkpoint: Path, evaluation: EvaluationSpec, similarity: SimilaritySpec, store) -> None:
    """The rows are trec_eval's own numbers for the whole corpus ranked by the training scores."""
    queries, document_ids, query_QH, document_NH = embedded(checkpoint, evaluation)
    score_QN = scores(query_QH, document_NH, similarity.gamma_q, similarity.gamma_d)
    entry, qrels, trec_run = evaluation.data.entry, {}, {}
    for row in data_sets.load(entry).qrels["test"].to_pylist():
        qrels.setdefault(row["query_id"], {})[row["document_id"]] = row["relevance"]
    for query, score_N in zip(queries, score_QN.tolist(), strict=True):
        hidden = {"none": [], "query_id": [query["id"]], "excluded_ids": query["excluded_ids"]}[entry.exclusion]
        pairs = zip(document_ids, score_N, strict=True)
        trec_run[query["id"]] = {document: score for document, score in pairs if document not in hidden}
    names = {"nDCG@10": "ndcg_cut_10", "R@100": "recall_100", "R@5": "recall_5", "RR@10": "recip_rank"}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, {names[m] for m in entry.measures}, relevance_level=entry.relevance_threshold
    )
    expected = evaluator.evaluate(trec_run)
    found = per_query(checkpoint, evaluation, similarity, store)
    assert len(found) == len(queries) * len(entry.measures)
    for row in found:
        value = expected[row["query_id"]][names[row["measure"]]]
        if row["measure"] == "RR@10" and value < 0.1:
            value = 0.0
        assert row["value"] == pytest.approx(value, abs=1e-9), row


@pytest.fixture(scope="module")
def scored(beir, checkpoints, tmp_path_factory):
    """The checkpoint's own similarity, an evaluation, and a store with its rows under every similarity."""
    store = open_store(str(tmp_path_factory.mktemp("scored")))
    evaluation = evaluation_of(beir, measures=("nDCG@10", "R@5", "R@100", "RR@10"), exclusion="excluded_ids")
    own = load_checkpoint(checkpoints["learned"]).similarity
    assert own is not None
    evaluate(checkpoints["learned"], evaluation, [*FIXED, own], store=store)
    return own, evaluation, store


@pytest.mark.parametrize("similarity", [*FIXED, LEARNED], ids=lambda s: s.name)
def test_rows_are_trec_evals_numbers(checkpoints, scored, similarity: SimilaritySpec) -> None:
    own, evaluation, store = scored
    checkpoint = checkpoints["learned"]
    similarity = own if similarity.trained else similarity  # its gammas went through float32
    assert_equals_trec_eval(checkpoint, evaluation, similarity, store)
    values = [row["value"] for row in per_query(checkpoint, evaluation, similarity, store)]
    assert 0.1 < np.mean(values) < 0.9
    assert per_query(checkpoint, evaluation, similarity, store)[0] == {
        "checkpoint_hash": checkpoint_hash(checkpoint),
        "data_set": "small",
        "data_hash": evaluation.data.content_hash,
        "split": "test",
        "tier": "full",
        "score_similarity": similarity.name,
        "query_id": data_sets.load(evaluation.data.entry).queries["id"][0].as_py(),
        "measure": "nDCG@10",
        "value": values[0],
    }


@pytest.mark.parametrize("exclusion", ["none", "query_id", "excluded_ids"])
def test_exclusion_is_part_of_the_entry(beir, checkpoints, tmp_path, exclusion: str) -> None:
    store = open_store(str(tmp_path))
    evaluation = evaluation_of(beir, exclusion=exclusion, relevance_threshold=2)
    evaluate(checkpoints["learned"], evaluation, FIXED[:1], store=store)
    assert_equals_trec_eval(checkpoints["learned"], evaluation, FIXED[0], store)
    first = [row["value"] for row in per_query(checkpoints["learned"], evaluation, FIXED[0], store)]
    if exclusion != "none":
        plain = evaluation_of(beir, relevance_threshold=2)
        evaluate(checkpoints["learned"], plain, FIXED[:1], store=store)
        assert first != [row["value"] for row in per_query(checkpoints["learned"], plain, FIXED[0], store)]


def test_rankings_depend_on_gamma_d_alone(beir, checkpoints, tmp_path) -> None:
    store = open_store(str(tmp_path))
    evaluation = evaluation_of(beir)
    run(checkpoints["untrained"], evaluation, store)
    values = {
        s.name: [row["value"] for row in per_query(checkpoints["untrained"], evaluation, s, store)] for s in FIXED
    }
    assert values["qnorm"] == values["dot"]
    assert values["dnorm"] == values["cosine"]
    assert values["dot"] != values["cosine"]
    # Not only since they share a search: searched apart, with the query's norm taken out, they rank the same.
    _, ids, query_QH, document_NH = embedded(checkpoints["untrained"], evaluation)
    ranked = {}
    for s in FIXED:
        query, document = query_vectors(query_QH, s.gamma_q), search_vectors(document_NH, s.gamma_d)
        ranked[s.name] = search(query.numpy(), [document.numpy()], 100, document_ids=ids)
    np.testing.assert_array_equal(ranked["qnorm"].document_QK, ranked["dot"].document_QK)
    np.testing.assert_array_equal(ranked["dnorm"].document_QK, ranked["cosine"].document_QK)
    assert (ranked["dot"].document_QK != ranked["cosine"].document_QK).any()


@pytest.mark.parametrize("similarity", [*FIXED, LEARNED], ids=lambda s: s.name)
def test_training_scores_are_search_scores(beir, checkpoints, similarity: SimilaritySpec) -> None:
    _, ids, query_QH, document_NH = embedded(checkpoints["untrained"], evaluation_of(beir))
    trained_QN = scores(query_QH, document_NH, similarity.gamma_q, similarity.gamma_d).numpy()
    query, document = query_vectors(query_QH, similarity.gamma_q), search_vectors(document_NH, similarity.gamma_d)
    found = search(query.numpy(), [document.numpy()], len(ids), document_ids=ids)
    expected = np.take_along_axis(trained_QN, found.document_QK, axis=1)
    np.testing.assert_allclose(found.score_QK, expected, rtol=2e-6)


def test_norms_are_those_of_the_raw_embeddings(beir, checkpoints, tmp_path) -> None:
    store = open_store(str(tmp_path))
    evaluation = evaluation_of(beir)
    evaluate(checkpoints["learned"], evaluation, FIXED[:1], store=store)
    key = checkpoint_hash(checkpoints["learned"])
    rows = read_rows(store, norm_rows(encoding_id(key, evaluation)), "norms").to_pylist()
    queries, ids, query_QH, document_NH = embedded(checkpoints["learned"], evaluation)
    assert [(row["side"], row["text_id"]) for row in rows] == [
        *(("query", query["id"]) for query in queries),
        *(("document", document) for document in ids),
    ]
    expected = torch.cat([query_QH, document_NH]).double().norm(dim=1)
    np.testing.assert_allclose([row["norm"] for row in rows], expected, rtol=1e-6)
    assert {row["checkpoint_hash"] for row in rows} == {key}


def test_precision_reaches_the_encoder(beir, checkpoints, tmp_path) -> None:
    store, key = open_store(str(tmp_path)), checkpoint_hash(checkpoints["learned"])
    fine = evaluation_of(beir)
    norms = []
    for evaluation in (fine, replace(fine, precision="bf16")):
        evaluate(checkpoints["learned"], evaluation, FIXED[:1], store=store)
        norms.append(read_rows(store, norm_rows(encoding_id(key, evaluation)), "norms")["norm"].to_numpy())
    difference = np.abs(norms[0] / norms[1] - 1).max()
    assert 1e-5 < difference < 0.05


def test_only_what_is_missing_is_computed(beir, checkpoints, tmp_path) -> None:
    store = open_store(str(tmp_path))
    evaluation, checkpoint = evaluation_of(beir), checkpoints["learned"]
    assert len(run(checkpoint, evaluation, store)) == 6
    assert run(checkpoint, evaluation, store) == []
    keys = [key for folder in ("evaluations", "encodings") for key in store.list(folder)]
    assert len(keys) == 7
    tables = [read_rows(store, key, "norms" if key.endswith("norms.parquet") else "per_query") for key in keys]
    assert {provenance_of(table) for table in tables} == {provenance().to_json()}
    before = {key: store.read(key) for key in keys}
    store.delete(per_query_rows(evaluation_id(checkpoint_hash(checkpoint), evaluation, FIXED[2])))
    assert run(checkpoint, evaluation, store) == [FIXED[2]]
    assert {key: store.read(key) for key in keys} == before  # to the last bit
    store.delete(norm_rows(encoding_id(checkpoint_hash(checkpoint), evaluation)))
    assert len(run(checkpoint, evaluation, store)) == 6


def test_judgements_are_kept_beside_the_norms_and_made_again_where_they_are_missing(
    beir, checkpoints, tmp_path
) -> None:
    store = open_store(str(tmp_path))
    evaluation, checkpoint = evaluation_of(beir), checkpoints["learned"]
    run(checkpoint, evaluation, store)
    key = judgement_rows(evaluation.data)
    rows = read_rows(store, key, "judgements").to_pylist()
    lines = [line.split("\t") for line in (beir / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    assert {(r["query_id"], r["document_id"], r["relevance"]) for r in rows} == {(q, d, int(g)) for q, d, g in lines}
    assert len(rows) == len(lines)
    assert {row["data_hash"] for row in rows} == {evaluation.data.content_hash}
    before = store.read(key)
    store.delete(key)
    assert len(run(checkpoint, evaluation, store)) == 6
    assert store.read(key) == before
    assert run(checkpoint, evaluation, store) == []


@pytest.mark.slow
def test_blocks_of_the_corpus_change_nothing(beir, checkpoints, tmp_path, monkeypatch) -> None:
    evaluation, values = evaluation_of(beir, exclusion="excluded_ids"), []
    for rows in (corpus_pass.BLOCK_DOCUMENTS, 7):
        monkeypatch.setattr(corpus_pass, "BLOCK_DOCUMENTS", rows)
        store = open_store(str(tmp_path / str(rows)))
        run(checkpoints["learned"], evaluation, store)
        values.append([row["value"] for s in FIXED for row in per_query(checkpoints["learned"], evaluation, s, store)])
    assert values[0] == values[1]


def test_data_that_changed_since_planning_are_refused(beir, checkpoints, tmp_path) -> None:
    evaluation = evaluation_of(beir)
    stale = replace(evaluation, data=replace(evaluation.data, content_hash="0" * 64))
    with pytest.raises(ValueError, match="'small' is not the one that was planned"):
        evaluate(checkpoints["learned"], stale, FIXED[:1], store=open_store(str(tmp_path)))


def test_who_lost_the_lock_writes_nothing(beir, checkpoints, tmp_path) -> None:
    store = open_store(str(tmp_path))

    def verify() -> None:
        raise PermissionError("lock lost")

    with pytest.raises(PermissionError, match="lock lost"):
        evaluate(checkpoints["learned"], evaluation_of(beir), FIXED[:1], store=store, verify=verify)
    assert store.list("encodings") == store.list("evaluations") == []


def test_a_diverged_encoder_is_named_as_such(beir, checkpoints, tmp_path) -> None:
    encoder = load_checkpoint(checkpoints["learned"]).encoder
    with torch.no_grad():
        next(encoder.backbones["shared"].encoder.parameters()).fill_(float("nan"))
    with pytest.raises(ValueError, match="query vectors hold NaN"):
        evaluate(
            checkpoints["learned"], evaluation_of(beir), FIXED[:1], store=open_store(str(tmp_path)), encoder=encoder
        )


def test_split_queries_are_the_judged_ones(beir) -> None:
    collection = data_sets.load(evaluation_of(beir).data.entry)
    queries = split_queries(collection, "test", "excluded_ids")
    assert len(queries.ids) == len(queries.qrels) == 19  # the twentieth has no judgement
    corpus = collection.corpus["id"].to_pylist()
    assert [[corpus[place] for place in places] for places in queries.excluded] == [[key] for key in queries.ids]
    assert set(queries.qrels[queries.ids[18]].values()) == {0}


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not there")
def test_cranfield_with_its_exclusions(checkpoints, tmp_path) -> None:
    source = SHARED / "cranfield"
    queries = [json.loads(line) for line in (source / "queries.jsonl").open()][:60]
    corpus = {row["_id"]: f"{row['title']} {row['text']}" for row in map(json.loads, (source / "corpus.jsonl").open())}
    rows = [line.split("\t") for line in (source / "qrels/test.tsv").read_text().splitlines()[1:]]
    rows = [row for row in rows if row[0] in {query["_id"] for query in queries}]
    kept = (
        {row[1] for row in rows} | set(list(corpus)[:300]) | {query["metadata"]["excluded_ids"][0] for query in queries}
    )
    folder = write_beir(tmp_path / "data", {key: corpus[key] for key in sorted(kept)}, queries, rows)
    store = open_store(str(tmp_path / "sweep"))
    evaluation = evaluation_of(folder, exclusion="excluded_ids", relevance_threshold=2)
    run(checkpoints["untrained"], evaluation, store)
    for similarity in FIXED:
        assert_equals_trec_eval(checkpoints["untrained"], evaluation, similarity, store)


@pytest.mark.slow
def test_queries_and_documents_go_through_towers_of_their_own(minilm, beir, tmp_path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = start_encoder(replace(minilm, towers="separate", query_prompt="query: "), None)
    with torch.no_grad():
        for weight in encoder.backbones["document"].parameters():
            weight.mul_(0.97)
    folder, store, evaluation = tmp_path / "checkpoint", open_store(str(tmp_path / "rows")), evaluation_of(beir)
    save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None)
    evaluate(folder, evaluation, FIXED, store=store)
    for similarity in FIXED:
        assert_equals_trec_eval(folder, evaluation, similarity, store)
    peer = SentenceTransformer(str(folder), device="cpu")
    rows = read_rows(store, norm_rows(encoding_id(checkpoint_hash(folder), evaluation)), "norms").to_pylist()
    found = {(row["side"], row["text_id"]): row["norm"] for row in rows}
    collection = data_sets.load(evaluation.data.entry)
    for side, texts, embed in (
        ("query", collection.queries, peer.encode_query),
        ("document", collection.corpus, peer.encode_document),
    ):
        norms = np.linalg.norm(embed(texts["text"].to_pylist()), axis=1)
        expected = dict(zip(texts["id"].to_pylist(), norms.tolist(), strict=True))
        own = {key: norm for (of, key), norm in found.items() if of == side}
        assert own == pytest.approx({key: expected[key] for key in own}, rel=1e-5)
