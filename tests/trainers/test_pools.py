"""Pools: who is in them, by a brute-force oracle; what is evaluated on them; and what a kill leaves of them."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from results.layout import (
    PoolRecord,
    from_bytes,
    norm_rows,
    per_query_rows,
    pool_part_rows,
    pool_record,
    pool_rows,
)
from results.rows import provenance_of, read_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import encoding_id, evaluation_id, pool_id, pool_part_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec, PoolSettings, PoolSpec, StartingEncoder, WeightsSpec
from tests.trainers.building_pools import SHARD, build_in_process
from tests.trainers.evaluating import evaluate
from trainers import data_sets, weights
from trainers.encoders.checkpoints import checkpoint_hash, save_checkpoint
from trainers.encoders.encode import encode
from trainers.evaluation import pool_building
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.pool_building import Building, build_missing, build_parts, publish
from trainers.evaluation.pools import MissingPoolError, contributors, load_searched, unbuilt_pools
from trainers.init_regimes import start_encoder
from trainers.provenance import provenance
from trainers.similarity import scores

FIXED = [s for s in SIMILARITIES.values() if not s.trained]
WORDS = ["mail", "keys", "disks", "logs", "base64", "traffic", "at", "logon", "worm", "loader", "registry"]
SMALL = PoolSettings(bm25_top=2, per_similarity_top=3, longest=4, random=5, seed=1)
NUM_DOCUMENTS = 90


def words(number: int) -> str:
    rng = np.random.default_rng(number)
    return " ".join(rng.choice(WORDS, 3 + number % 9))


def write_beir(folder: Path, numbers: range) -> Path:
    """Each fifteenth document has a query that names it as excluded; the last ten texts stand there twice."""
    (folder / "qrels").mkdir(parents=True)
    copies = [(f"copy{n}", n) for n in numbers[-10:]]
    corpus = [{"_id": key, "title": "", "text": words(n)} for key, n in [*((f"d{n}", n) for n in numbers), *copies]]
    queries = [
        {"_id": f"d{n}", "text": f"which report has {words(n)}", "metadata": {"excluded_ids": [f"d{n}", "gone"]}}
        for n in numbers[::15]
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)) + "\n")
    judged = "".join(f"d{n}\td{n + 1}\t1\nd{n}\td{n + 2}\t0\n" for n in numbers[15::15])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


@pytest.fixture(scope="module")
def encoders(minilm) -> tuple[StartingEncoder, StartingEncoder]:
    """Two families: one layer of MiniLM, and random weights of two layers."""
    found = WeightsSpec(source=minilm.weights.source, content_hash=weights.content_hash(minilm.weights))
    one = replace(minilm, weights=found, layers=1, max_document_length=32)
    other = replace(one, family="other", init_regime="random", layers=2)
    return StartingEncoder(encoder=one, seed=None), StartingEncoder(encoder=other, seed=7)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("collections")
    return write_beir(folder / "first", range(NUM_DOCUMENTS)), write_beir(folder / "second", range(30, 120))


def evaluation_of(folder: Path, encoders=(), settings: PoolSettings = SMALL, exclusion="none") -> EvaluationSpec:
    entry = DataSet(name=folder.name, source=f"path:{folder}", exclusion=exclusion)
    content_hash = data_sets.fingerprint(entry, "test").content_hash
    return EvaluationSpec(
        data=DataSpec(entry=entry, split="test", content_hash=content_hash),
        score_similarities="all",
        tier="pool",
        pool=PoolSpec(settings=settings, encoders=tuple(encoders)),
    )


@pytest.fixture(scope="module")
def built(folders, encoders, tmp_path_factory):
    """A sweep folder with the pools of both collections, to which both encoders contributed."""
    evaluations = [evaluation_of(folder, encoders, exclusion="excluded_ids") for folder in folders]
    store = open_store(str(tmp_path_factory.mktemp("built")))
    said: list[str] = []
    build_missing(evaluations, Building(store=store, say=said.append))
    return evaluations, store


def reasons_of(evaluation: EvaluationSpec, store) -> dict[str, list[str]]:
    rows = read_rows(store, pool_rows(pool_id(evaluation)), "pools").to_pylist()
    return {row["document_id"]: row["reasons"] for row in rows}


def with_reason(reasons: dict[str, list[str]], wanted: str) -> set[str]:
    return {key for key, why in reasons.items() if wanted in why}


def best(scored: dict[str, float], k: int) -> list[str]:
    """Score descending, then id descending."""
    return sorted(scored, key=lambda key: (np.float32(scored[key]), key), reverse=True)[:k]


def test_a_pool_is_what_brute_force_says(built, encoders):
    evaluations, store = built
    for evaluation in evaluations:
        collection, reasons = data_sets.load(evaluation.data.entry), reasons_of(evaluation, store)
        ids = collection.corpus["id"].to_pylist()
        assert list(reasons) == [key for key in ids if key in reasons]  # the corpus's order
        judged = set(collection.qrels["test"]["document_id"].to_pylist())
        assert with_reason(reasons, "judged") == judged & set(ids)
        queries = [
            q for q in collection.queries.to_pylist() if q["id"] in collection.qrels["test"]["query_id"].to_pylist()
        ]
        for encoder in encoders:
            model = start_encoder(encoder.encoder, encoder.seed)
            document_NH = torch.from_numpy(encode(model, collection.corpus["text"].to_pylist(), "document"))
            query_QH = torch.from_numpy(encode(model, [query["text"] for query in queries], "query"))
            norms = dict(zip(ids, document_NH.norm(dim=1).tolist(), strict=True))
            shortest_in = min(norms[key] for key in with_reason(reasons, f"longest {encoder.title}"))
            assert len(with_reason(reasons, f"longest {encoder.title}")) == SMALL.longest
            assert sum(norm > shortest_in * (1 + 1e-5) for norm in norms.values()) < SMALL.longest
            for similarity in FIXED:
                expected: set[str] = set()
                score_QN = scores(query_QH, document_NH, similarity.gamma_q, similarity.gamma_d).numpy()
                for query, score_N in zip(queries, score_QN, strict=True):
                    found = dict(zip(ids, score_N.round(4), strict=True))
                    for key in query["excluded_ids"]:
                        found.pop(key, None)
                    expected |= set(best(found, SMALL.per_similarity_top))
                assert with_reason(reasons, f"top {similarity.name} {encoder.title}") == expected
        assert len(with_reason(reasons, "random")) == SMALL.random
        assert 0 < len(with_reason(reasons, "bm25")) <= SMALL.bm25_top * len(queries)
        assert len(reasons) < len(ids), "a pool that is everything shows nothing"
        assert all(reasons.values())


def test_what_a_query_must_not_find_gives_its_place_to_others(folders, built):
    evaluations, store = built
    plain = replace(evaluation_of(folders[0]), pool=replace(evaluations[0].pool, encoders=()))
    open_to_all = open_store(store.uri)
    build_missing([plain], Building(store=open_to_all))
    assert pool_id(plain) != pool_id(evaluations[0])
    own = {row["id"] for row in data_sets.load(plain.data.entry).queries.to_pylist()}
    # The text of each query's own document is in the query: without an exclusion it is BM25's best.
    judged = set(data_sets.load(plain.data.entry).qrels["test"]["query_id"].to_pylist())
    assert with_reason(reasons_of(plain, open_to_all), "bm25") >= own & judged
    excluded = replace(plain, data=evaluations[0].data)
    build_missing([excluded], Building(store=open_to_all))
    assert with_reason(reasons_of(excluded, open_to_all), "bm25") != with_reason(reasons_of(plain, open_to_all), "bm25")


def test_the_record_says_what_a_pool_is_made_of(built, encoders):
    evaluations, store = built
    record = from_bytes(PoolRecord, store.read(pool_record(pool_id(evaluations[0]))))
    reasons = reasons_of(evaluations[0], store)
    assert (record.num_corpus_documents, record.num_documents) == (NUM_DOCUMENTS + 10, len(reasons))
    assert record.settings == SMALL
    assert record.encoders == ("minilm-1l/finetune", "other-2l/random/s7")
    assert set(record.counts) == {reason for why in reasons.values() for reason in why}
    assert all(record.counts[reason] == len(with_reason(reasons, reason)) for reason in record.counts)
    rows = read_rows(store, pool_rows(pool_id(evaluations[0])), "pools")
    assert record.made_by == provenance_of(rows) == provenance().to_json()
    assert store.list("unfinished") == []


def test_no_part_and_no_pool_is_built_twice(built, encoders, monkeypatch):
    evaluations, store = built
    monkeypatch.setattr(pool_building, "search_corpora", None)
    monkeypatch.setattr(pool_building, "bm25_top", None)
    build_missing(evaluations, Building(store=store))
    build_parts(encoders[0], evaluations, Building(store=store))
    assert unbuilt_pools(evaluations, store) == []


def test_another_family_reads_the_corpus_alone(built, encoders, tmp_path, monkeypatch):
    """The pool is another one; the parts of those that were there before are not made again."""
    evaluations, _ = built
    store = open_store(str(tmp_path))
    first = replace(evaluations[0], pool=replace(evaluations[0].pool, encoders=encoders[:1]))
    build_missing([first], Building(store=store))
    kept = {key: store.read(key) for key in store.list("pool_parts")}
    started = []
    monkeypatch.setattr(pool_building, "start_encoder", lambda *a: started.append(a) or start_encoder(*a))
    build_missing([evaluations[0]], Building(store=store))
    assert started == [(encoders[1].encoder, 7)]
    assert {key: store.read(key) for key in kept} == kept
    assert len(store.list("pool_parts")) == 2
    assert len([key for key in store.list("pools") if key.endswith(".parquet")]) == 2
    assert reasons_of(first, store).keys() < reasons_of(evaluations[0], store).keys()


def test_identities(folders, encoders):
    one = evaluation_of(folders[0], encoders)
    [cosine, *_] = score_similarities(None, one)
    turned = replace(one, pool=replace(one.pool, encoders=encoders[::-1]))
    assert pool_id(turned) == pool_id(one)
    assert encoding_id("c", turned) == encoding_id("c", one)
    others = [
        *(replace(one, pool=replace(one.pool, settings=replace(SMALL, **{name: 9}))) for name in
          ("bm25_top", "per_similarity_top", "longest", "random", "seed")),
        replace(one, pool=replace(one.pool, encoders=encoders[:1])),
        replace(one, pool=replace(one.pool, encoders=(encoders[0], replace(encoders[1], seed=8)))),
        one.whole,
    ]  # fmt: skip
    ids = {evaluation_id("c", evaluation, cosine) for evaluation in (one, *others)}
    assert len(ids) == len(others) + 1
    on_gpu = replace(one, pool=replace(one.pool, execution=replace(one.pool.execution, device="gpu", threads=4)))
    assert pool_id(on_gpu) == pool_id(one)
    parts = {pool_part_id(evaluation, encoders[0]) for evaluation in (one, turned, *others[5:7])}
    assert len(parts) == 1  # whoever else contributes
    with pytest.raises(ValueError, match="has no pool"):
        pool_id(one.whole)
    with pytest.raises(ValueError, match="tier 'full' has a pool"):
        replace(one, tier="full")


@pytest.fixture(scope="module")
def checkpoint(minilm, tmp_path_factory) -> Path:
    """A checkpoint that did not contribute."""
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    save_checkpoint(folder, start_encoder(replace(minilm, layers=2), None), gammas=None, similarity=None, scale=None)
    return folder


def rows_of(evaluation: EvaluationSpec, similarity, checkpoint: Path, store) -> list[dict]:
    key = per_query_rows(evaluation_id(checkpoint_hash(checkpoint), evaluation, similarity))
    return read_rows(store, key, "per_query").to_pylist()


def test_rows_are_those_of_a_collection_that_has_the_documents_of_the_pool_alone(built, checkpoint, tmp_path):
    """The oracle is a BEIR folder of the pool's documents, evaluated whole."""
    [evaluation, other], store = built
    similarities = score_similarities(None, evaluation)
    evaluate_all(checkpoint, {evaluation: similarities, other: similarities}, store=store)
    assert missing_evaluations(checkpoint_hash(checkpoint), None, evaluation, store) == []
    folder, source = tmp_path / "first", Path(evaluation.data.entry.source.removeprefix("path:"))
    (folder / "qrels").mkdir(parents=True)
    members = reasons_of(evaluation, store)
    lines = source.joinpath("corpus.jsonl").read_text().splitlines()
    folder.joinpath("corpus.jsonl").write_text("".join(f"{x}\n" for x in lines if json.loads(x)["_id"] in members))
    folder.joinpath("queries.jsonl").write_text(source.joinpath("queries.jsonl").read_text())
    folder.joinpath("qrels/test.tsv").write_text(source.joinpath("qrels/test.tsv").read_text())
    whole = evaluation_of(folder, exclusion="excluded_ids").whole
    alone = open_store(str(tmp_path / "sweep"))
    evaluate(checkpoint, whole, similarities, store=alone)
    for similarity in similarities:
        ours = rows_of(evaluation, similarity, checkpoint, store)
        theirs = rows_of(whole, similarity, checkpoint, alone)
        assert {row["tier"] for row in ours} == {"pool"}
        assert [(row["query_id"], row["measure"], row["value"]) for row in ours] == [
            (row["query_id"], row["measure"], row["value"]) for row in theirs
        ]
    norms = read_rows(store, norm_rows(encoding_id(checkpoint_hash(checkpoint), evaluation)), "norms").to_pylist()
    assert [row["text_id"] for row in norms if row["side"] == "document"] == list(members)


def test_no_query_scores_lower_on_a_pool_than_on_the_corpus(folders, encoders, checkpoint, tmp_path):
    """All judged documents are in it: what is left away can only have stood before them."""
    tiny = PoolSettings(bm25_top=1, per_similarity_top=1, longest=0, random=2)
    evaluation, store = evaluation_of(folders[0], encoders[1:], tiny), open_store(str(tmp_path))
    build_missing([evaluation], Building(store=store))
    similarities = score_similarities(None, evaluation)
    for asked in (evaluation, evaluation.whole):
        missing = missing_evaluations(checkpoint_hash(checkpoint), None, asked, store)
        evaluate(checkpoint, asked, missing, store=store)
    differ = 0
    for similarity in similarities:
        pairs = zip(rows_of(evaluation, similarity, checkpoint, store),
                    rows_of(evaluation.whole, similarity, checkpoint, store), strict=True)  # fmt: skip
        for on_pool, on_corpus in pairs:
            assert (on_pool["query_id"], on_pool["measure"]) == (on_corpus["query_id"], on_corpus["measure"])
            assert on_pool["value"] >= on_corpus["value"] - 1e-12
            differ += on_pool["value"] > on_corpus["value"]
    assert differ, "a pool that changes nothing shows nothing"


@pytest.mark.parametrize("size", ["random", "bm25_top", "per_similarity_top", "longest"])
def test_a_pool_that_covers_the_corpus_gives_the_rows_of_the_corpus(folders, encoders, checkpoint, tmp_path, size):
    nothing = PoolSettings(bm25_top=0, per_similarity_top=0, longest=0, random=0)
    evaluation = evaluation_of(folders[0], encoders[:1], replace(nothing, **{size: 10_000}))
    store = open_store(str(tmp_path))
    build_missing([evaluation], Building(store=store))
    reasons = reasons_of(evaluation, store)
    ids = data_sets.load(evaluation.data.entry).corpus["id"].to_pylist()
    assert list(reasons) == ids
    similarities = score_similarities(None, evaluation)
    evaluate_all(checkpoint, {evaluation: similarities, evaluation.whole: similarities}, store=store)
    for similarity in similarities:
        ours, theirs = (rows_of(e, similarity, checkpoint, store) for e in (evaluation, evaluation.whole))
        assert [row | {"tier": ""} for row in ours] == [row | {"tier": ""} for row in theirs]


def test_a_pool_of_nothing_but_judgements(folders, encoders, checkpoint, tmp_path):
    nothing = PoolSettings(bm25_top=0, per_similarity_top=0, longest=0, random=0)
    evaluation, store = evaluation_of(folders[0], (), nothing), open_store(str(tmp_path))
    build_missing([evaluation], Building(store=store))
    assert {reason for why in reasons_of(evaluation, store).values() for reason in why} == {"judged"}
    evaluate(checkpoint, evaluation, score_similarities(None, evaluation), store=store)


def test_what_cannot_be_evaluated_says_so(folders, encoders, checkpoint, tmp_path):
    evaluation, store = evaluation_of(folders[0], encoders), open_store(str(tmp_path))
    with pytest.raises(MissingPoolError, match=r"the pool of 'first' is not built .*densesweep run"):
        evaluate(checkpoint, evaluation, score_similarities(None, evaluation), store=store)
    with pytest.raises(KeyError):
        publish(evaluation, Building(store=store))
    changed = replace(encoders[0].encoder, weights=replace(encoders[0].encoder.weights, content_hash="other"))
    gone = evaluation_of(folders[0], [StartingEncoder(encoder=changed, seed=None)])
    with pytest.raises(ValueError, match=r"content hash is .* and other was planned"):
        build_missing([gone], Building(store=store))
    assert store.list("") == []
    assert load_searched(evaluation.whole, store).corpus.num_rows == NUM_DOCUMENTS + 10


@pytest.mark.slow
def test_a_killed_building_goes_on_where_it_was_and_builds_the_same_pools(built, encoders, tmp_path):
    evaluations, _ = built
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert build_in_process(evaluations, whole, tmp_path / "n") == 0
    num_texts = int((tmp_path / "n").read_text())
    per_encoder = num_texts // 2
    # Within the second encoder's pass.
    die_after = per_encoder + 12 + 2 * SHARD + 3
    assert build_in_process(evaluations, killed, tmp_path / "n", die_after=die_after) == -signal.SIGKILL
    left = open_store(str(killed))
    assert left.list("pools") == []
    assert len(left.list("pool_parts")) == 2  # of the first encoder, for both data sets
    assert len(left.list("unfinished")) == 1
    assert build_in_process(evaluations, killed, tmp_path / "n") == 0
    assert int((tmp_path / "n").read_text()) <= per_encoder - 2 * SHARD + 12
    keys = [key for key in left.list("") if key.endswith(".parquet")]
    assert keys == [key for key in open_store(str(whole)).list("") if key.endswith(".parquet")]
    for key in keys:
        assert read_rows(left, key, "pools") == read_rows(open_store(str(whole)), key, "pools")
    assert left.list("unfinished") == []
    assert unbuilt_pools(evaluations, left) == []


def test_contributors_are_listed_once(built, encoders):
    assert contributors(built[0]) == list(encoders)
    assert pool_part_rows("x").startswith("pool_parts/x/")
