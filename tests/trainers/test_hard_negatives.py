"""Hard negatives against brute force over the texts themselves, on many small random sets of pairs."""

from collections import Counter

import numpy as np
import pytest

from tests.trainers.text_pairs import pairs_of_texts
from trainers.training.batches import false_negatives, plan_batches
from trainers.training.hard_negatives import negatives_fault

SEEDS = range(25)


def random_pairs(seed, most=5):
    """A few dozen queries; relevant documents and negatives overlap between queries, and some have few negatives."""
    generator = np.random.default_rng(seed)
    documents = [f"d{i}" for i in range(20)]
    pairs, negatives = [], []
    for query in range(int(generator.integers(8, 20))):
        relevant = generator.choice(documents, size=generator.integers(1, 4), replace=False).tolist()
        others = [document for document in documents if document not in relevant]
        num_negatives = most if query == 0 else int(generator.integers(0, most + 1))
        pairs += [(f"q{query}", document) for document in relevant]
        negatives += [(f"q{query}", d) for d in generator.choice(others, size=num_negatives, replace=False).tolist()]
    return sorted(pairs), sorted(negatives)


def texts_of_batch(pairs, pair_B, negative_BK):
    queries = [pairs.query_texts[pairs.query_index[p]] for p in pair_B]
    positives = [pairs.document_texts[pairs.document_index[p]] for p in pair_B]
    return queries, positives, [[pairs.document_texts[d] for d in row] for row in negative_BK]


def expected_mask(queries, positives, negatives, relevant):
    """As the definition reads, cell by cell."""
    documents = [*positives, *(text for row in negatives for text in row)]
    mask = np.zeros((len(queries), len(documents)), dtype=bool)
    for row, query in enumerate(queries):
        for column, text in enumerate(documents):
            is_own = row == column
            is_relevant = (query, text) in relevant
            is_again = column >= len(positives) and text in documents[:column]
            mask[row, column] = not is_own and (is_relevant or is_again)
    return mask


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mask_is_the_definition_cell_by_cell(seed):
    positive, negative = random_pairs(seed)
    pairs = pairs_of_texts(positive, negative)
    plan = plan_batches(pairs, global_batch=6, steps=8, seed=seed, hard_negatives=3)
    for pair_B, negative_BK in zip(plan.pair_SB, plan.negative_SBK, strict=True):
        mask = false_negatives(pairs, pair_B, negative_BK)
        assert mask.shape == (6, 6 * 4)
        assert mask.dtype == np.bool_
        assert np.array_equal(mask, expected_mask(*texts_of_batch(pairs, pair_B, negative_BK), set(positive)))
        # The positives' block is the one without hard negatives, and each query has itself.
        assert np.array_equal(mask[:, :6], false_negatives(pairs, pair_B))
        assert not mask.diagonal().any()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_candidate_text_is_an_unmasked_hard_negative_twice(seed):
    positive, negative = random_pairs(seed)
    pairs = pairs_of_texts(positive, negative)
    plan = plan_batches(pairs, global_batch=8, steps=4, seed=seed, hard_negatives=4)
    for pair_B, negative_BK in zip(plan.pair_SB, plan.negative_SBK, strict=True):
        document_D = np.concatenate([pairs.document_index[pair_B], negative_BK.ravel()])
        for row, masked_D in enumerate(false_negatives(pairs, pair_B, negative_BK)):
            hard = document_D[8:][~masked_D[8:]].tolist()
            assert max(Counter(hard).values(), default=1) == 1
            assert not set(hard) & set(document_D[:8][~masked_D[:8]].tolist())
            assert pairs.document_index[pair_B[row]] not in hard


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_negatives_are_the_querys_own_then_others_that_are_not_relevant(seed):
    positive, negative = random_pairs(seed)
    pairs = pairs_of_texts(positive, negative)
    own, relevant = {}, {}
    for query, document in negative:
        own.setdefault(query, set()).add(document)
    for query, document in positive:
        relevant.setdefault(query, set()).add(document)
    plan = plan_batches(pairs, global_batch=6, steps=10, seed=seed, hard_negatives=4)
    num_random = 0
    for pair_B, negative_BK in zip(plan.pair_SB, plan.negative_SBK, strict=True):
        queries, _, negatives = texts_of_batch(pairs, pair_B, negative_BK)
        for query, drawn in zip(queries, negatives, strict=True):
            available = own.get(query, set())
            assert len(set(drawn)) == 4
            assert not set(drawn) & relevant[query]
            assert len(set(drawn) & available) == min(4, len(available))
            assert set(drawn[: len(available)]) <= available, "its own negatives stand first"
            num_random += 4 - min(4, len(available))
    assert plan.num_random == num_random


def test_hard_negatives_do_not_move_the_pairs_and_more_steps_only_append():
    pairs = pairs_of_texts(*random_pairs(3))
    plain, short, long, other = (
        plan_batches(pairs, global_batch=5, steps=steps, seed=seed, hard_negatives=k)
        for steps, seed, k in [(30, 1, 0), (12, 1, 2), (30, 1, 2), (30, 2, 2)]
    )
    assert np.array_equal(plain.pair_SB, long.pair_SB)
    assert plain.negative_SBK.shape == (30, 5, 0)
    assert np.array_equal(short.negative_SBK, long.negative_SBK[:12])
    assert not np.array_equal(other.negative_SBK, long.negative_SBK)
    assert plain.num_random == 0


def test_all_negatives_of_a_query_are_drawn_equally_often():
    pairs = pairs_of_texts([("q", "p"), ("r", "p2")], [("q", f"n{i}") for i in range(6)])
    plan = plan_batches(pairs, global_batch=1, steps=6000, seed=0, hard_negatives=2)
    drawn = plan.negative_SBK[pairs.query_index[plan.pair_SB] == 0]
    counts = np.bincount(drawn.ravel())[2:]
    assert counts.sum() == drawn.size
    assert counts.min() > 0.9 * counts.mean()
    assert counts.max() < 1.1 * counts.mean()


def test_random_documents_in_place_of_lacking_negatives_are_drawn_equally_often():
    pairs = pairs_of_texts([("q", "p"), ("r", "p2")], [("r", f"n{i}") for i in range(6)])
    plan = plan_batches(pairs, global_batch=1, steps=6000, seed=0, hard_negatives=2)
    drawn = plan.negative_SBK[pairs.query_index[plan.pair_SB] == 0]
    counts = np.bincount(drawn.ravel(), minlength=8)
    assert counts[0] == 0  # its positive
    assert counts[1:].min() > 0.9 * counts[1:].mean()


def test_asking_for_more_than_any_query_has_is_refused():
    pairs = pairs_of_texts([("q", "p"), ("r", "p2")], [("r", f"n{i}") for i in range(6)])
    with pytest.raises(ValueError, match="hard_negatives is 7, but no query of the training data has more than 6"):
        plan_batches(pairs, global_batch=1, steps=1, seed=0, hard_negatives=7)
    assert negatives_fault(6, 6) is None


def test_asking_where_there_are_none_is_refused():
    pairs = pairs_of_texts([("q", "p"), ("r", "p2")])
    message = r"hard_negatives is 1, but the training data has no negatives .*negatives/SPLIT\.tsv"
    with pytest.raises(ValueError, match=message):
        plan_batches(pairs, global_batch=1, steps=1, seed=0, hard_negatives=1)


def test_too_few_documents_to_fill_up_with_are_refused():
    pairs = pairs_of_texts([("q", "p"), ("q", "p2"), ("r", "p3")], [("r", "p"), ("r", "p2")])
    with pytest.raises(ValueError, match=r"hard_negatives is 2, but .* only 1 documents .* relevant to the query 'q'"):
        plan_batches(pairs, global_batch=1, steps=1, seed=0, hard_negatives=2)
