from collections import Counter

import numpy as np
import pytest

from tests.trainers.text_pairs import pairs_of_texts
from trainers.training.batches import false_negatives, plan_batches


def one_positive_each(num_pairs):
    return pairs_of_texts([(f"q{i}", f"d{i % 7}") for i in range(num_pairs)])


def several_positives(seed=0, num_queries=30, num_documents=20, num_pairs=150):
    """Queries of very different numbers of positives: the first has one with each document."""
    generator = np.random.default_rng(seed)
    drawn = {
        (int(q), int(d))
        for q, d in zip(
            generator.integers(num_queries, size=num_pairs),
            generator.integers(num_documents, size=num_pairs),
            strict=True,
        )
    }
    drawn |= {(0, d) for d in range(num_documents)} | {(q, 0) for q in range(num_queries)}
    return pairs_of_texts([(f"q{q}", f"d{d}") for q, d in sorted(drawn)])


@pytest.mark.parametrize("pairs", [one_positive_each(53), several_positives()], ids=["one", "several"])
def test_batches_are_full_and_hold_no_query_twice(pairs):
    plan = plan_batches(pairs, global_batch=16, steps=40, seed=3).pair_SB
    assert plan.shape == (40, 16)
    assert plan.dtype == np.int64
    for batch in plan:
        assert len(set(pairs.query_index[batch].tolist())) == 16


def test_an_epoch_uses_each_pair_at_most_once_and_leaves_out_less_than_a_batch():
    pairs = one_positive_each(53)
    plan = plan_batches(pairs, global_batch=16, steps=6, seed=3).pair_SB  # 53 // 16 = 3 batches an epoch
    for epoch in (plan[:3], plan[3:]):
        assert max(Counter(epoch.ravel().tolist()).values()) == 1
    assert set(plan[:3].ravel().tolist()) != set(plan[3:].ravel().tolist())


def test_every_positive_of_a_query_comes_up_before_any_repeats():
    pairs = several_positives(num_pairs=400)
    per_query = Counter(pairs.query_index.tolist())
    size = 6
    # Even the query with most positives fits into the batches of one epoch, so only an unfilled end is left out.
    num_batches = len(pairs) // size - 2
    assert max(per_query.values()) < num_batches
    plan = plan_batches(pairs, global_batch=size, steps=num_batches, seed=0).pair_SB
    assert max(Counter(plan.ravel().tolist()).values()) == 1


def test_all_pairs_of_a_query_are_trained_on_one_batch_after_the_other():
    pairs = pairs_of_texts([(f"q{q}", f"d{q}-{place}") for q in range(8) for place in range(6)])
    plan = plan_batches(pairs, global_batch=8, steps=6, seed=1).pair_SB  # each batch needs every query
    assert sorted(plan.ravel().tolist()) == list(range(48))


def test_the_seed_alone_decides():
    pairs = several_positives()
    first, again, other = (plan_batches(pairs, global_batch=8, steps=30, seed=s).pair_SB for s in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_more_steps_only_append():
    pairs = several_positives()
    short, long = (plan_batches(pairs, global_batch=8, steps=s, seed=5).pair_SB for s in (9, 90))
    assert np.array_equal(short, long[:9])


def test_the_plan_of_a_seed_is_this_one():
    plan = plan_batches(several_positives(), global_batch=6, steps=2, seed=11)
    assert plan.pair_SB.tolist() == [[162, 165, 30, 57, 63, 68], [167, 20, 159, 100, 150, 133]]
    assert plan.negative_SBK.shape == (2, 6, 0)


def test_a_batch_larger_than_the_data_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"global_batch is 31, .* 30 different queries in \d+ pairs"):
        plan_batches(several_positives(), global_batch=31, steps=1, seed=0)
    assert plan_batches(several_positives(), global_batch=30, steps=2, seed=0).pair_SB.shape == (2, 30)


def test_false_negatives_are_the_relevant_documents_off_the_diagonal():
    pairs = several_positives()
    relevant = {
        (pairs.query_texts[q], pairs.document_texts[d])
        for q, d in zip(pairs.query_index, pairs.document_index, strict=True)
    }
    num_masked = 0
    for batch in plan_batches(pairs, global_batch=16, steps=20, seed=2).pair_SB:
        queries = [pairs.query_texts[i] for i in pairs.query_index[batch]]
        documents = [pairs.document_texts[i] for i in pairs.document_index[batch]]
        expected = [[i != j and (q, d) in relevant for j, d in enumerate(documents)] for i, q in enumerate(queries)]
        assert false_negatives(pairs, batch).tolist() == expected
        num_masked += np.sum(expected)
    assert num_masked > 100


def test_the_positive_text_under_another_pair_is_masked():
    pairs = pairs_of_texts([("a", "same"), ("b", "same"), ("c", "other")])
    assert false_negatives(pairs, np.array([0, 1, 2])).tolist() == [
        [False, True, False],
        [True, False, False],
        [False, False, False],
    ]
