"""Instructed encoders: what a data set says of its queries stands before them, and before nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from results.layout import norm_rows, scored_rows
from results.rows import read_rows
from results.store import open_store
from search_spaces.identity import encoding_id, evaluation_id, probe_id, trial_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    EvaluationSpec,
    ProbeSpec,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    ValidationSpec,
    evaluation_for,
)
from tests.trainers.small_beir import write_small_beir
from trainers.encoders.checkpoint_settings import found_settings
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.encoders.encode import encode
from trainers.evaluation import corpus_pass
from trainers.evaluation.evaluate import evaluate_all
from trainers.init_regimes import start_encoder
from trainers.training.token_store import tokenised
from trainers.weights.encoder_files import encoder_faults

OWN = "Given a web search query, find passages"
FIND, REFUTE = "Given a report number, find the report", "Given a claim, find what refutes it"


@pytest.fixture(scope="module")
def plain(minilm) -> EncoderSpec:
    return replace(minilm, layers=1, weights=replace(minilm.weights, content_hash="weights"))


@pytest.fixture(scope="module")
def instructed(plain) -> EncoderSpec:
    return replace(plain, query_prompt="Instruct: {instruction}\nQuery: ", instruction=OWN)


@pytest.fixture(scope="module")
def collections(tmp_path_factory) -> list[EvaluationSpec]:
    """One collection under two instructions, and without one."""
    folder = tmp_path_factory.mktemp("instructions")
    told = {"find": FIND, "refute": REFUTE, "nothing": None}
    return [write_small_beir(folder / name, range(60), instruction=text) for name, text in told.items()]


def saved(spec: EncoderSpec, folder):
    encoder = start_encoder(spec, None)
    save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None)
    return folder


def test_each_data_set_has_its_own_queries_and_all_share_the_passages(instructed, collections, tmp_path, monkeypatch):
    folder = saved(instructed, tmp_path / "checkpoint")
    encoded: list[int] = []
    shards = corpus_pass.encode_shards

    def counting(encoder, texts, side, **options):
        for vector_DH in shards(encoder, texts, side, **options):
            encoded.append(len(vector_DH))
            yield vector_DH

    monkeypatch.setattr(corpus_pass, "encode_shards", counting)
    store, key = open_store(str(tmp_path / "sweep")), checkpoint_hash(folder)
    asked = [evaluation_for(instructed, evaluation) for evaluation in collections]
    evaluate_all(folder, {e: score_similarities(None, e) for e in asked}, store=store)
    assert sum(encoded) == 60

    norms = [read_rows(store, norm_rows(encoding_id(key, e)), "norms") for e in asked]
    of_side = {
        side: [np.array([r["norm"] for r in table.to_pylist() if r["side"] == side]) for table in norms]
        for side in ("query", "document")
    }
    assert all(np.array_equal(other, of_side["document"][0]) for other in of_side["document"])
    # By hand: an encoder without any place for instructions, whose prompt has the words already.
    for evaluation, norm_Q, told in zip(asked, of_side["query"], (FIND, REFUTE, OWN), strict=True):
        fixed = start_encoder(replace(instructed, query_prompt=f"Instruct: {told}\nQuery: ", instruction=None), None)
        texts = {row["text_id"]: None for row in norms[0].to_pylist() if row["side"] == "query"}
        queries = corpus_queries(evaluation)
        vectors = encode(fixed, [queries[name] for name in texts], "query")
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), norm_Q, rtol=1e-5)
    assert not np.allclose(of_side["query"][0], of_side["query"][1], rtol=1e-4)
    assert len({scored_rows(e, evaluation_id(key, e, score_similarities(None, e)[0])) for e in asked}) == 3


def corpus_queries(evaluation: EvaluationSpec) -> dict[str, str]:
    from trainers import data_sets

    queries = data_sets.load(evaluation.data.entry).queries
    return dict(zip(queries["id"].to_pylist(), queries["text"].to_pylist(), strict=True))


def with_instruction(data: DataSpec, instruction: str | None) -> DataSpec:
    return replace(data, entry=data.entry.model_copy(update={"instruction": instruction}))


def test_an_instruction_is_part_of_an_evaluations_identity_only_where_it_is_read(plain, instructed, collections):
    find = collections[0]
    other = replace(find, data=with_instruction(find.data, REFUTE))
    silent = replace(find, data=with_instruction(find.data, None))
    ids = {
        encoder.is_instructed: [encoding_id("c", evaluation_for(encoder, e)) for e in (find, other, silent)]
        for encoder in (plain, instructed)
    }
    assert len(set(ids[True])) == 3
    assert set(ids[False]) == {encoding_id("c", silent)} == {ids[True][2]}


def trial(encoder: EncoderSpec, data: DataSpec, validated: DataSpec | None = None) -> TrialSpec:
    return TrialSpec(
        kind="train",
        task="contrastive",
        training_data=data,
        encoder=encoder,
        similarity=SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
        scale=ScaleSpec(mode="fixed", value=20.0),
        seed=0,
        training=TrainingSettings(steps=1, global_batch=4, learning_rate=1e-4),
        validation=ValidationSpec(data=validated, every_steps=1) if validated else None,
    )


def test_so_it_is_of_a_trial_and_a_probe(plain, instructed, collections):
    data = collections[0].data
    told = with_instruction(data, REFUTE)
    assert trial_id(trial(plain, data, data)) == trial_id(trial(plain, told, told))
    assert len({trial_id(trial(instructed, a, b)) for a in (data, told) for b in (data, told)}) == 4
    probes = [
        ProbeSpec(
            task="contrastive",
            encoder=encoder,
            seed=None,
            training_data=split,
            scale=ScaleSpec(mode="fixed", value=20.0),
            num_queries=8,
            candidates_per_query=4,
        )
        for encoder in (plain, instructed)
        for split in (data, told)
    ]
    assert probe_id(probes[0]) == probe_id(probes[1])
    assert probe_id(probes[2]) != probe_id(probes[3])


def test_training_tokens_are_those_of_the_instruction(instructed):
    encoder = start_encoder(instructed, None)
    ids = {}
    for told in (None, FIND):
        encoder.instruct(told)
        ids[told] = tokenised(encoder, ["report 7"], "query").ids(0)
        text = encoder.tokenizer.decode(ids[told], skip_special_tokens=True)
        assert text.startswith(f"instruct : {(told or OWN).lower()[:20]}")
    with encoder.instructed(REFUTE):
        assert REFUTE in encoder.prompt("query")
    assert FIND in encoder.prompt("query")
    assert encoder.prompt("document") == ""


def test_a_checkpoint_keeps_the_place_and_what_stands_there_by_default(plain, instructed, tmp_path):
    folder = saved(instructed, tmp_path / "instructed")
    assert load_checkpoint(folder).encoder.spec.query_prompt == instructed.query_prompt
    found = found_settings(replace(instructed.weights, source=f"path:{folder}"))
    assert (found.query_prompt, found.instruction) == (instructed.query_prompt, OWN)
    assert f"Instruct: {OWN}\\nQuery: " in (folder / "config_sentence_transformers.json").read_text()
    assert checkpoint_hash(folder) != checkpoint_hash(saved(plain, tmp_path / "plain"))


def test_an_instruction_that_leaves_a_query_no_room_is_found_before_anything_starts(instructed):
    short = replace(instructed, max_query_length=24)
    assert list(encoder_faults(short, "content-of-minilm", [None])) == []
    [fault] = encoder_faults(short, "content-of-minilm", [None, "find what is asked for " * 5])
    assert fault.startswith("max_query_length is 24")
