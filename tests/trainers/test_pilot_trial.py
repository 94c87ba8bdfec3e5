"""A pilot as a trial: trained, scored query by query, its weights removed; killed and resumed like any other."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_trials import NEVER, data_spec, trial_spec, write_collection

from results import layout
from results.rows import read_rows
from results.store import open_store
from search_spaces.identity import trial_id
from search_spaces.specs import SimilaritySpec, ValidationSpec
from trainers.data_sets import load
from trainers.encoders.checkpoints import load_checkpoint
from trainers.encoders.encode import encode
from trainers.similarity import Gammas
from trainers.training.resume import CheckpointPolicy
from trainers.training.retriever import Retriever
from trainers.training.train import train
from trainers.training.validation import ranking_score
from trainers.trial import run_trial
from trainers.trial_hooks import Hooks

QNORM = SimilaritySpec(name="qnorm", gamma_q=1.0, gamma_d=0.0, trained=False)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilot_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        yield write_collection(folder / "collection")


@pytest.fixture
def spec(collection, tiny_bert, make_spec):
    trained = trial_spec(
        data_spec(collection, "train"), make_spec(tiny_bert), similarity=QNORM, steps=4, schedule="constant"
    )
    return replace(trained, kind="pilot", validation=ValidationSpec(data=data_spec(collection, "test"), every_steps=4))


def run(spec, folder, *, hooks=None, policy=NEVER):
    store = open_store(str(folder))
    status = run_trial(spec, (), store=store, hooks=hooks or Hooks(), checkpoint_policy=policy, provenance_json="{}")
    return status, store


def rows_of(store, spec):
    return read_rows(store, layout.pilot_rows(trial_id(spec)), "per_query").to_pylist()


def test_it_leaves_what_its_queries_gave_and_no_weights(spec, tmp_path):
    status, store = run(spec, tmp_path / "sweep")
    assert (status.state, status.error) == ("finished", None)
    rows = rows_of(store, spec)
    scores = {row["query_id"]: row["value"] for row in rows if row["measure"] == "nDCG@10"}
    norms = {row["query_id"]: row["value"] for row in rows if row["measure"] == "query_norm"}
    assert set(scores) == set(norms) == {f"t{i}" for i in range(10)}
    assert {(row["data_set"], row["split"], row["score_similarity"]) for row in rows} == {("tiny", "test", "qnorm")}
    [own] = read_rows(store, layout.trial_rows(trial_id(spec)), "trials").to_pylist()
    assert (own["kind"], own["steps"], own["best_step"]) == ("pilot", 4, None)
    assert own["validation_score"] == pytest.approx(sum(scores.values()) / 10)
    left = {key.rpartition("/")[2] for key in store.list("trials")}
    assert left == {"history.parquet", "pilot.parquet", "spec.json", "status.json", "trial.parquet"}


def test_its_scores_are_those_of_a_validation_of_the_same_training(spec, tmp_path):
    """A trial of as many steps, validated after the last, has the same weights: its score is the pilot's mean."""
    _, store = run(spec, tmp_path / "pilot")
    plain = replace(spec, kind="train", validation=None)
    other = open_store(str(tmp_path / "plain"))
    train(plain, store=other, report=lambda _: None, verify=lambda: None, checkpoint_policy=NEVER)
    with other.get_folder(layout.checkpoint_prefix(trial_id(plain))) as folder:
        encoder = load_checkpoint(folder).encoder
    expected = ranking_score(spec.validation, "fp32")(Retriever(encoder, Gammas.from_spec(QNORM)))
    rows = rows_of(store, spec)
    scores = [row["value"] for row in rows if row["measure"] == "nDCG@10"]
    assert sum(scores) / len(scores) == pytest.approx(expected, abs=1e-12)
    table = load(spec.validation.data.entry).queries
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    norms = {row["query_id"]: row["value"] for row in rows if row["measure"] == "query_norm"}
    lengths = np.linalg.norm(encode(encoder, [texts[key] for key in norms], "query"), axis=1)
    assert norms == pytest.approx(dict(zip(norms, lengths.tolist(), strict=True)), rel=1e-5)


class Killed(BaseException):
    pass


def test_one_that_was_stopped_goes_on_and_ends_as_if_it_had_not_been(spec, tmp_path):
    _, whole = run(spec, tmp_path / "whole")

    def stop(report):
        if report.numbers.step == 3:
            raise Killed

    policy = CheckpointPolicy(every_steps=2)
    with pytest.raises(Killed):
        run(spec, tmp_path / "stopped", hooks=Hooks(report=stop), policy=policy)
    steps = []
    status, resumed = run(
        spec, tmp_path / "stopped", hooks=Hooks(report=lambda r: steps.append(r.numbers.step)), policy=policy
    )
    assert status.state == "finished"
    assert steps == [3, 4]
    assert rows_of(resumed, spec) == rows_of(whole, spec)
