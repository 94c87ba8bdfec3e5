"""Scored pairs: trained on, evaluated both ways round, and held against arithmetic of its own and published figures."""

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import spearmanr
from tiny_trials import train_here, trial_spec, with_hash

from results.layout import norm_rows, sts_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import DataSpec, EvaluationSpec, ScaleSpec, SimilaritySpec
from tests.trainers.evaluating import evaluate
from trainers import data_sets
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.evaluation.encoding_meter import EncodingMeter
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.evaluate_sts import embed_pairs
from trainers.evaluation.evaluations import missing_evaluations
from trainers.evaluation.kept_embeddings import kept_parts
from trainers.init_regimes import start_encoder
from trainers.training.resume import CheckpointPolicy
from trainers.training.sts_pairs import scored_pairs
from trainers.trial import run_trial
from trainers.trial_hooks import Hooks

SIMILAR = [
    ("A girl is styling her hair.", "A girl is brushing her hair.", 2.5),
    ("A group of men play soccer on the beach.", "A group of boys are playing soccer on the beach.", 3.6),
    ("One woman is measuring another woman's ankle.", "A woman measures another woman's ankle.", 5.0),
    ("A man is cutting up a cucumber.", "A man is slicing a cucumber.", 4.2),
    ("A man is playing a harp.", "A man is playing a keyboard.", 1.5),
    ("A woman is cutting onions.", "A woman is cutting tofu.", 1.8),
    ("A man is riding an electric bicycle.", "A man is riding a bicycle.", 3.5),
    ("A man is playing the drums.", "The price of oil rose on Monday.", 0.0),
    ("A man is playing the drums.", "A man plays the drum.", 5.0),
    ("A man is playing guitar.", "A lady is playing the guitar.", 2.2),
]
FIXED = [
    SimilaritySpec(name=s.name, gamma_q=s.gamma_q, gamma_d=s.gamma_d, trained=False)
    for s in SIMILARITIES.values()
    if not s.trained
]
# Spearman x 100 of all-MiniLM-L6-v2 by cosine, 256 tokens.
PUBLISHED = {"stsb": 82.0, "sickr": 77.2, "sts12": 72.4, "sts13": 80.6, "sts14": 75.6, "sts15": 85.4, "sts16": 79.0}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def data_of(entry, split):
    found = data_sets.fingerprint(entry, split)
    return DataSpec(entry=entry, split=split, content_hash=found.content_hash, num_pairs=found.num_pairs)


@pytest.fixture
def entry(tmp_path):
    folder = tmp_path / "pairs"
    folder.mkdir()
    lines = ["score\tsentence1\tsentence2", *(f"{gold}\t{first}\t{second}" for first, second, gold in SIMILAR)]
    for split in ("train", "test"):
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return DataSet(name="pairs", source=f"path:{folder}", reader="sts", score_range=(0, 5), train_split="train")


@pytest.fixture
def checkpoint(tmp_path, minilm):
    encoder = start_encoder(replace(minilm, query_prompt="query: ", document_prompt="passage: "), None)
    save_checkpoint(tmp_path / "checkpoint", encoder, gammas=None, similarity=None, scale=None)
    return tmp_path / "checkpoint"


def oracle(encoder, text):
    """One text alone, with the query prompt, in float64."""
    ids, mask = encoder.pad(encoder.tokenise([text], "query"))
    return encoder.eval()(ids, mask, "query")[0].detach().double().numpy()


def test_rows_are_both_orders_under_every_similarity_and_nothing_is_missing_after(tmp_path, entry, checkpoint):
    store, evaluation = open_store(str(tmp_path / "sweep")), EvaluationSpec(data=data_of(entry, "test"))
    key = checkpoint_hash(checkpoint)
    assert missing_evaluations(key, None, evaluation, store) == list(score_similarities(None, evaluation))
    evaluate(checkpoint, evaluation, FIXED, store=store)
    assert missing_evaluations(key, None, evaluation, store) == []
    encoder = load_checkpoint(checkpoint).encoder
    ids = {(first, second): pair for pair, first, second in ids_of(entry)}
    for similarity in FIXED:
        rows = read_rows(store, sts_rows(evaluation_id(key, evaluation, similarity)), "sts").to_pylist()
        found = {(row["pair_id"], row["order"]): (row["score"], row["gold"]) for row in rows}
        assert len(found) == len(rows) == 2 * len(SIMILAR)
        assert {row["score_similarity"] for row in rows} == {similarity.name}
        for first, second, gold in SIMILAR:
            a, b = oracle(encoder, first), oracle(encoder, second)
            for order, query, document in (("forward", a, b), ("swapped", b, a)):
                size = np.linalg.norm(query) ** similarity.gamma_q * np.linalg.norm(document) ** similarity.gamma_d
                expected = (query @ document / size, gold / 5)
                assert found[ids[first, second], order] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_embeddings_are_kept_where_that_is_asked_for(tmp_path, entry, checkpoint):
    store, key = open_store(str(tmp_path / "sweep")), checkpoint_hash(checkpoint)
    evaluation = EvaluationSpec(data=data_of(entry, "test"), keep_embeddings=True)
    evaluate(checkpoint, evaluation, FIXED[:1], store=store)
    assert FIXED[0] not in missing_evaluations(key, None, evaluation, store)
    encoder = load_checkpoint(checkpoint).encoder
    texts = {pair: {"query": first, "document": second} for pair, first, second in ids_of(entry)}
    for side in ("query", "document"):
        [part] = kept_parts(store, encoding_id(key, evaluation), side)
        assert sorted(part.ids) == sorted(texts)
        for pair, direction, norm in zip(part.ids, part.direction_DH, part.norm_D, strict=True):
            expected = oracle(encoder, texts[pair][side])
            np.testing.assert_allclose(direction.astype(float) * norm, expected, atol=2e-3 * np.abs(expected).max())


def ids_of(entry):
    pairs = scored_pairs(data_sets.load(entry), "test")
    return zip(pairs.ids, pairs.first_texts, pairs.second_texts, strict=True)


def test_norms_are_kept_and_only_what_is_missing_is_scored_again(tmp_path, entry, checkpoint):
    store, evaluation = open_store(str(tmp_path / "sweep")), EvaluationSpec(data=data_of(entry, "test"))
    key = checkpoint_hash(checkpoint)
    evaluate(checkpoint, evaluation, FIXED, store=store)
    norms = read_rows(store, norm_rows(encoding_id(key, evaluation)), "norms").to_pylist()
    encoder = load_checkpoint(checkpoint).encoder
    found = {(row["side"], row["text_id"]): row["norm"] for row in norms}
    for pair, first, second in ids_of(entry):
        assert found["query", pair] == pytest.approx(np.linalg.norm(oracle(encoder, first)), rel=1e-5)
        assert found["document", pair] == pytest.approx(np.linalg.norm(oracle(encoder, second)), rel=1e-5)
    lost = FIXED[2]
    store.delete(sts_rows(evaluation_id(key, evaluation, lost)))
    assert missing_evaluations(key, None, evaluation, store) == [lost]


def test_changed_pairs_and_a_diverged_encoder_write_nothing(tmp_path, entry, checkpoint):
    store, evaluation = open_store(str(tmp_path / "sweep")), EvaluationSpec(data=data_of(entry, "test"))
    changed = replace(evaluation, data=replace(evaluation.data, content_hash="another"))
    with pytest.raises(ValueError, match="is not the one that was planned"):
        evaluate(checkpoint, changed, FIXED, store=store)
    encoder = load_checkpoint(checkpoint).encoder
    for parameter in encoder.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="vectors hold NaN or infinity: the encoder has diverged"):
        evaluate(checkpoint, evaluation, FIXED, store=store, encoder=encoder)
    assert store.list("evaluations") == []


@pytest.mark.parametrize("name", [pytest.param("cosine", marks=pytest.mark.slow), "learnable"])
def test_a_trial_learns_the_scores_and_evaluates_what_is_missing_once(tmp_path, entry, minilm, name):
    entry_of = SIMILARITIES[name]
    similarity = SimilaritySpec(name=name, gamma_q=entry_of.gamma_q, gamma_d=entry_of.gamma_d, trained=entry_of.trained)
    spec = replace(
        trial_spec(data_of(entry, "train"), minilm, similarity=similarity, steps=8, global_batch=8, learning_rate=1e-4),
        task="sts",
        scale=ScaleSpec(mode="fixed", value=1.0 if name == "cosine" else 0.2),
    )
    store, evaluation = open_store(str(tmp_path / "sweep")), EvaluationSpec(data=data_of(entry, "test"))
    losses = []
    hooks = Hooks(report=lambda report: losses.append(report.numbers.loss))
    for _ in range(2):  # starting is resuming: the second run finds all done
        status = run_trial(
            spec,
            [evaluation],
            store=store,
            hooks=hooks,
            checkpoint_policy=CheckpointPolicy(),
            provenance_json=json.dumps({}),
        )
        assert status.state == "finished", status.error
    assert len(losses) == 8
    assert losses[-1] < losses[0] / 2
    [key] = [key for key in store.list("evaluations") if key.endswith("sts.parquet")]
    assert read_rows(store, key, "sts").num_rows == 2 * len(SIMILAR)


def test_the_same_training_gives_the_same_checkpoint(tmp_path, entry, minilm):
    spec = replace(
        trial_spec(data_of(entry, "train"), minilm, steps=2), task="sts", scale=ScaleSpec(mode="matched", value=1.0)
    )
    hashes = {train_here(spec, tmp_path / folder)[1] for folder in ("one", "two")}
    assert len(hashes) == 1


@pytest.fixture(scope="module")
def whole_minilm(minilm):
    spec = with_hash(replace(minilm, layers=None, max_query_length=256, max_document_length=256))
    return start_encoder(spec, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_untrained_minilm_has_its_published_correlation(shared_data, whole_minilm, name):
    score_range = (1, 5) if name == "sickr" else (0, 5)
    source = f"path:{shared_data('sts')}"
    entry = DataSet(name=name, source=source, reader="sts", config=name, score_range=score_range)
    evaluation = EvaluationSpec(data=DataSpec(entry=entry, split="test"))
    pairs = scored_pairs(data_sets.load(entry), "test")
    embedded = embed_pairs(whole_minilm, pairs, evaluation=evaluation)
    found = {
        (similarity.name, order): 100 * spearmanr(score_P, pairs.gold).statistic
        for similarity in FIXED
        for order, score_P in embedded.scores(similarity).items()
    }
    assert found["cosine", "forward"] == pytest.approx(PUBLISHED[name], abs=0.1)
    assert found["cosine", "swapped"] == found["cosine", "forward"]
    # One side's norm alone: the orders differ, and each is the other similarity's other order.
    assert found["qnorm", "forward"] == pytest.approx(found["dnorm", "swapped"])
    assert found["qnorm", "forward"] != found["qnorm", "swapped"]
    assert found["qnorm", "forward"] < found["cosine", "forward"] - 3


def test_how_far_the_encoding_is_is_told(tmp_path, entry, checkpoint, monkeypatch):
    monkeypatch.setattr("trainers.evaluation.evaluate_sts.EncodingMeter", partial(EncodingMeter, every_s=0.0))
    store, evaluation = open_store(str(tmp_path / "sweep")), EvaluationSpec(data=data_of(entry, "test"))
    said = []
    evaluate_all(checkpoint, {evaluation: FIXED}, store=store, say=said.append)
    texts = {text for first, second, _ in SIMILAR for text in (first, second)}
    assert said[0] == "evaluating pairs"
    assert re.fullmatch(rf"evaluating pairs: {len(texts)} of {len(texts)} texts encoded, [\d,.]+ texts/s", said[-1])


@pytest.mark.slow
def test_the_catalogues_figure_of_sick_is_of_all_its_splits_as_one(shared_data, whole_minilm, tmp_path):
    """As MTEB has it; SentEval's test split, above, is half of them."""
    files = [shared_data("sts") / f"sickr-{split}.tsv" for split in ("train", "dev", "test")]
    lines = [line for file in files for line in file.read_text().splitlines()[1:]]
    (tmp_path / "test.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *lines]) + "\n")
    [figure] = DATA_SETS["sickr"].reference
    entry = DATA_SETS["sickr"].read_from(f"path:{tmp_path}").model_copy(update={"config": None})
    pairs = scored_pairs(data_sets.load(entry), "test")
    embedded = embed_pairs(whole_minilm, pairs, evaluation=EvaluationSpec(data=DataSpec(entry=entry, split="test")))
    found = spearmanr(embedded.scores(FIXED[0])["forward"], pairs.gold).statistic
    assert FIXED[0].name == figure.method.similarity
    assert found == pytest.approx(figure.value, abs=figure.tolerance)
