from dataclasses import replace

import pytest
import torch
from tiny_trials import data_spec, hash_of, reproducible, train_here, train_in_process, trial_spec, write_collection

from results.layout import checkpoint_prefix, last_checkpoint_prefix
from results.store import open_store
from search_spaces.identity import trial_id
from search_spaces.specs import ValidationSpec
from trainers import data_sets
from trainers.encoders.checkpoints import load_checkpoint
from trainers.encoders.encode import encode
from trainers.evaluation.judged_queries import split_queries
from trainers.threads import set_threads
from trainers.training.resume import CheckpointPolicy


@pytest.fixture(scope="module")
def spec(tmp_path_factory, tiny_bert, make_spec):
    """Eight steps with a learning rate so high that validation scores go up and down."""
    folder = tmp_path_factory.mktemp("validation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        set_threads(1)
        collection = write_collection(folder / "collection")

        def make(**changes):
            validation = ValidationSpec(data=data_spec(collection, "test"), **{"every_steps": 2, **changes})
            trial = trial_spec(data_spec(collection, "train"), make_spec(tiny_bert), steps=8, learning_rate=8e-3)
            return replace(trial, validation=validation)

        yield make


def checkpoint(trial, folder, prefix=checkpoint_prefix):
    with open_store(str(folder)).get_folder(prefix(trial_id(trial))) as found:
        return load_checkpoint(found).encoder


def ndcg_by_hand(encoder, data):
    """nDCG@10 of cosine over the whole collection: one relevant document a query, so 1 / log2(rank + 1)."""
    collection = data_sets.load(data.entry)
    queries = split_queries(collection, data.split, "none")
    texts = [f"{t} {x}" for t, x in zip(*(collection.corpus[c].to_pylist() for c in ("title", "text")), strict=True)]
    vectors = [torch.nn.functional.normalize(torch.from_numpy(encode(encoder, *side)), dim=1)
               for side in ((queries.texts, "query"), (texts, "document"))]  # fmt: skip
    scores = vectors[0] @ vectors[1].T
    ids = collection.corpus["id"].to_pylist()
    gains = []
    for key, row in zip(queries.ids, scores, strict=True):
        [relevant] = queries.qrels[key]
        rank = int((row > row[ids.index(relevant)]).sum()) + 1
        gains.append(float(1 / torch.log2(torch.tensor(rank + 1.0))) if rank <= 10 else 0.0)
    return sum(gains) / len(gains)


def test_the_best_checkpoint_is_the_trials_and_the_last_is_kept(spec, tmp_path):
    trial = spec()
    result, _ = train_here(trial, tmp_path)
    scores = {step.step: step.validation_score for step in result.history}
    assert [step for step, score in scores.items() if score is not None] == [2, 4, 6, 8]
    best = max((2, 4, 6, 8), key=lambda step: (scores[step], -step))
    assert (result.best_step, result.validation_score) == (best, scores[best])
    assert len({scores[step] for step in (2, 4, 6, 8)}) > 1
    assert ndcg_by_hand(checkpoint(trial, tmp_path), trial.validation.data) == pytest.approx(scores[best], abs=1e-6)
    last = checkpoint(trial, tmp_path, last_checkpoint_prefix)
    assert ndcg_by_hand(last, trial.validation.data) == pytest.approx(scores[8], abs=1e-6)


def test_the_best_weights_are_those_of_a_training_that_ended_there(spec, tmp_path):
    trial = spec()
    trial = replace(trial, training=replace(trial.training, schedule="constant"))
    result, _ = train_here(trial, tmp_path / "whole")
    ended = replace(trial, training=replace(trial.training, steps=result.best_step))
    train_here(ended, tmp_path / "ended")
    ours, theirs = checkpoint(trial, tmp_path / "whole"), checkpoint(ended, tmp_path / "ended")
    for (name, weight), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert torch.equal(weight, other), name


def test_training_ends_when_patience_is_over(spec, tmp_path):
    trial = spec(every_steps=1, patience=2)
    trial = replace(trial, training=replace(trial.training, steps=40))
    result, _ = train_here(trial, tmp_path)
    scores = [step.validation_score for step in result.history]
    assert len(scores) < 40
    assert scores[-3] == max(scores)
    assert max(scores[-2:]) <= scores[-3]
    assert result.best_step == len(scores) - 2


def test_validation_changes_no_step(spec, tmp_path):
    trial = spec()
    with_validation, _ = train_here(trial, tmp_path / "with")
    without, _ = train_here(replace(trial, validation=None), tmp_path / "without")
    drop = lambda history: [{k: v for k, v in row.items() if k != "validation_score"} for row in reproducible(history)]  # noqa: E731
    assert drop(with_validation.history) == drop(without.history)
    assert without.best_step is None


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["step 5", "step 7", "writing best/00000002", "writing last_checkpoint"])
def test_a_killed_training_keeps_its_best_to_the_last_bit(spec, killed, tmp_path):
    trial = spec()
    undisturbed, digest = train_here(trial, tmp_path / "undisturbed")
    assert train_in_process(trial, tmp_path / "killed", killed=killed) != 0
    resumed, resumed_digest = train_here(trial, tmp_path / "killed", policy=CheckpointPolicy(every_steps=3))
    assert resumed_digest == digest == hash_of(trial, tmp_path / "killed")
    assert reproducible(resumed.history) == reproducible(undisturbed.history)
    assert resumed.best_step == undisturbed.best_step


def test_the_best_weights_are_of_the_attempt_that_the_history_is_of(spec, tmp_path):
    trial = replace(spec(every_steps=2), training=replace(spec().training, steps=3))
    one_by_one = replace(trial, execution=replace(trial.execution, chunk_size=1))  # draws dropout otherwise
    assert trial_id(one_by_one) == trial_id(trial)
    _, digest = train_here(trial, tmp_path / "alone")

    def die(report):
        if report.numbers.step == 2:  # its best weights are kept, and no training checkpoint
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_here(one_by_one, tmp_path / "taken over", report=die)
    assert train_here(trial, tmp_path / "taken over")[1] == digest


def test_a_split_without_a_relevant_document_is_refused_before_the_first_step(spec, tmp_path):
    trial = spec()
    folder = write_collection(tmp_path / "collection")
    (folder / "qrels" / "dev.tsv").write_text("t0\td1\t0\n")
    trial = replace(trial, validation=replace(trial.validation, data=data_spec(folder, "dev")))
    seen = []
    with pytest.raises(ValueError, match="split 'dev' of data set 'tiny' has no query with a relevant document"):
        train_here(trial, tmp_path / "sweep", report=seen.append)
    assert not seen


def test_the_pool_is_cut_as_the_spec_says(spec, tmp_path, monkeypatch):
    seen = {}
    import trainers.training.validation as module

    original = module.search_collection

    def look(encoder, asked, gammas_d):
        seen["sizes"] = (asked.collection.corpus.num_rows, len(asked.queries.ids))
        return original(encoder, asked, gammas_d)

    monkeypatch.setattr(module, "search_collection", look)
    trial = spec(num_queries=4, num_documents=6)
    train_here(replace(trial, training=replace(trial.training, steps=2)), tmp_path)
    assert seen["sizes"] == (6, 4)
