"""Identities: the same for what gives the same result, another for what does not."""

from dataclasses import fields, replace

import pytest

from search_spaces.catalogue.families import FAMILIES
from search_spaces.expand import expand
from search_spaces.identity import UnstableIdentityError, encoding_id, evaluation_id, probe_id, trial_id
from search_spaces.specs import (
    EvaluationSpec,
    Execution,
    ProbeSpec,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    ValidationSpec,
    from_json,
    to_json,
    with_data_hash,
)

COSINE = SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False)


def _resolved(spec):
    weights = replace(spec.encoder.weights, content_hash="weights")
    data = spec.training_data and with_data_hash(spec.training_data, content_hash="data", num_pairs=10)
    return replace(spec, encoder=replace(spec.encoder, weights=weights), training_data=data)


@pytest.fixture
def expansion(parse, raw):
    return expand(parse(raw), where="sweep.yaml")


@pytest.fixture
def trial(expansion):
    return _resolved(expansion.trials[0])


@pytest.fixture
def evaluation(expansion):
    spec = expansion.evaluations[0].spec
    return replace(spec, data=with_data_hash(spec.data, content_hash="data", num_pairs=10))


def test_specs_survive_json(trial, evaluation, expansion):
    for kind, spec in ((TrialSpec, trial), (EvaluationSpec, evaluation), (ProbeSpec, _resolved(expansion.probes[0]))):
        assert from_json(kind, to_json(spec)) == spec
    assert trial_id(from_json(TrialSpec, to_json(trial))) == trial_id(trial)


def test_whole_numbers_on_a_float_axis_have_one_identity(parse, raw):
    raw["axes"]["hyperparameters"] = {"clip_norm": [1, 5], "weight_decay": [0]}
    for spec in map(_resolved, expand(parse(raw), where="sweep.yaml").trials):
        assert trial_id(from_json(TrialSpec, to_json(spec))) == trial_id(spec)


def test_what_does_not_change_the_result_is_not_identity(trial):
    encoder = replace(trial.encoder, weights=replace(trial.encoder.weights, source="path:/moved"))
    data = replace(trial.training_data, entry=trial.training_data.entry.model_copy(update={"licence": "other"}))
    for other in (
        replace(trial, execution=Execution(threads=8)),
        replace(trial, execution=Execution(device="gpu", num_devices=2, chunk_size=8, torch_compile=True)),
        replace(trial, encoder=encoder),
        replace(trial, training_data=data),
    ):
        assert trial_id(other) == trial_id(trial)


CHANGED = {
    "steps": 11, "global_batch": 9, "learning_rate": 3e-4, "gamma_learning_rate": 0.01, "weight_decay": 0.1,
    "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-6, "warmup_steps": 1, "schedule": "linear", "clip_norm": 2.0,
    "precision": "bf16", "hard_negatives": 2, "loss_directions": "both", "lora_rank": 8, "lora_alpha": 8.0,
    "lora_dropout": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in fields(TrainingSettings)])
def test_every_training_setting_is_identity(trial, name):
    other = replace(trial, training=replace(trial.training, **{name: CHANGED[name]}))
    assert trial_id(other) != trial_id(trial)


def test_what_changes_the_result_is_identity(trial):
    weights = replace(trial.encoder.weights, content_hash="other")
    strict = trial.training_data.entry.model_copy(update={"relevance_threshold": 2})  # other training pairs
    others = [
        replace(trial, training_data=replace(trial.training_data, entry=strict)),
        replace(trial, seed=5),
        replace(trial, similarity=replace(trial.similarity, gamma_d=0.0)),
        replace(trial, scale=ScaleSpec(mode="fixed", value=10.0)),
        replace(trial, scale=ScaleSpec(mode="matched", value=20.0)),
        replace(trial, validation=ValidationSpec(data=trial.training_data, every_steps=5)),
        replace(trial, validation=ValidationSpec(data=trial.training_data, every_steps=5, patience=2)),
        replace(trial, training_data=replace(trial.training_data, content_hash="other")),
        *(
            replace(trial, encoder=replace(trial.encoder, **change))
            for change in (
                {"weights": weights},
                {"layers": 3},
                {"pooling": "cls"},
                {"init_regime": "random"},
                {"query_prompt": "query: "},
                {"max_query_length": 16},
                {"towers": "separate"},
            )
        ),
    ]
    ids = {trial_id(other) for other in others}
    assert len(ids) == len(others)
    assert trial_id(trial) not in ids


def test_a_catalogue_edit_changes_the_identity(trial, parse, raw, monkeypatch):
    """Identity hashes the resolved spec: an edited entry cannot reuse a stale checkpoint."""
    edited = FAMILIES["minilm"].model_copy(update={"query_prompt": "query: "})
    monkeypatch.setitem(FAMILIES._entries, "minilm", edited)
    assert trial_id(_resolved(expand(parse(raw), where="x").trials[0])) != trial_id(trial)


def test_ids_are_final():
    """A change here means that every finished sweep would run again: raise a VERSION on purpose instead."""
    from search_spaces.identity import _digest

    assert _digest({"b": [1, 2.5, None, True], "a": "é"}) == "0b8cc543e984d4d7"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_has_no_stable_form_is_refused(trial, value):
    with pytest.raises(UnstableIdentityError, match="cannot be part of an identity"):
        trial_id(replace(trial, scale=ScaleSpec(mode="fixed", value=value)))


def test_an_unresolved_spec_has_no_identity(expansion):
    with pytest.raises(UnstableIdentityError, match=r"content hash of .* is not known yet"):
        trial_id(expansion.trials[0])
    with pytest.raises(UnstableIdentityError):
        probe_id(expansion.probes[0])


def test_evaluations_are_keyed_by_checkpoint_data_and_scoring(evaluation):
    entry = evaluation.data.entry
    base = evaluation_id("checkpoint", evaluation, COSINE)
    assert encoding_id("checkpoint", replace(evaluation, score_similarities="all")) == encoding_id(
        "checkpoint", evaluation
    )
    others = [
        evaluation_id("other", evaluation, COSINE),
        evaluation_id("checkpoint", evaluation, replace(COSINE, name="dot", gamma_d=0.0)),
        evaluation_id("checkpoint", replace(evaluation, precision="bf16"), COSINE),
        *(
            evaluation_id(
                "checkpoint",
                replace(evaluation, data=replace(evaluation.data, entry=entry.model_copy(update=change))),
                COSINE,
            )
            for change in ({"exclusion": "query_id"}, {"measures": ("R@10",)}, {"relevance_threshold": 2})
        ),
        evaluation_id("checkpoint", replace(evaluation, data=replace(evaluation.data, content_hash="x")), COSINE),
    ]
    assert len({base, *others}) == len(others) + 1
