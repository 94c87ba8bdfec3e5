"""Contrasts of groups, by both targets, against means and t tests made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from made_scores import COLUMNS, group
from scipy import stats

from results.statistics.contrasts import (
    Term,
    claim_verdict,
    estimate_contrast,
    gain_of,
    mean_against,
    non_inferiority,
    non_inferiority_verdict,
    paired_gain,
)
from results.statistics.estimate import Estimate
from results.statistics.groups import DataSetScores, GroupScores, contrast_layouts, group_means
from results.statistics.two_way import components_of


def by_hand(some, column, baseline):
    """(S, J) gains: forums are averaged before their data set counts."""
    one, base = COLUMNS.index(column), COLUMNS.index(baseline)
    a, b, c1, c2 = (part.values_CSQ[one].mean(axis=1) - part.values_CSQ[base].mean(axis=1) for part in some.data_sets)
    return np.stack([a, b, (c1 + c2) / 2], axis=1)


def test_forums_are_averaged_before_their_data_set_enters_the_mean():
    some = group()
    expected = by_hand(some, "qnorm", "cosine").mean()
    assert paired_gain(some, "qnorm", "cosine").value == pytest.approx(expected)
    assert paired_gain(some, "qnorm", "cosine", target="new data sets").value == pytest.approx(expected)
    means = dict(zip(COLUMNS, group_means(some), strict=True))
    assert means["qnorm"] - means["cosine"] == pytest.approx(expected)


def test_new_data_sets_are_a_two_way_layout_of_seeds_and_data_sets():
    gains = by_hand(group(), "qnorm", "cosine")
    num_seeds, num_sets = gains.shape
    rest = gains - gains.mean(axis=1, keepdims=True) - gains.mean(axis=0) + gains.mean()
    parts = {
        "seeds": (gains.mean(axis=1).var(ddof=1) / num_seeds, 2),
        "sets": (gains.mean(axis=0).var(ddof=1) / num_sets, 2),
        "rest": ((rest**2).sum() / 4 / gains.size, 4),
    }
    found = paired_gain(group(), "qnorm", "cosine", target="new data sets")
    variance = parts["seeds"][0] + parts["sets"][0] - parts["rest"][0]
    if min(parts["seeds"][0], parts["sets"][0]) < parts["rest"][0]:
        variance = max(v for v, _ in parts.values())
    assert found.standard_error == pytest.approx(variance**0.5)
    assert found.target == "new data sets"


def test_shared_seeds_do_not_average_out_over_data_sets():
    """A seed effect that all data sets share stays whole, however many there are."""
    rows = np.array([-1.0, 0.0, 1.0])[:, None] + 0.001 * np.random.default_rng(0).normal(size=(4, 1, 3, 9))
    data_sets = [
        DataSetScores(name=str(j), part_of=str(j), values_CSQ=np.concatenate([r, 0 * r])) for j, r in enumerate(rows)
    ]
    shared = GroupScores(name="g", trainings="t", columns=("one", "base"), data_sets=tuple(data_sets))
    found = paired_gain(shared, "one", "base")
    assert found.standard_error == pytest.approx(np.std([-1, 0, 1], ddof=1) / 3**0.5, rel=0.01)
    assert found.df == pytest.approx(2, rel=0.01)


def test_out_of_domain_minus_in_domain_pairs_what_both_share():
    inside, outside = group(0, name="in_domain", parts={"a": "a"}), group(0, name="beir")
    found = estimate_contrast(
        [
            Term(group=outside, coefficients=gain_of("qnorm", "cosine")),
            Term(group=inside, coefficients=gain_of("qnorm", "cosine"), weight=-1.0),
        ]
    )
    gains = by_hand(outside, "qnorm", "cosine")
    assert found.value == pytest.approx((gains.mean(axis=1) - gains[:, 0]).mean())
    # data set a is in both: two thirds of it are taken off what b and c add, query by query
    a = outside.data_sets[0].values_CSQ[1] - outside.data_sets[0].values_CSQ[0]
    only_a = GroupScores(
        name="x",
        trainings="minilm",
        columns=("d",),
        data_sets=(DataSetScores(name="a", part_of="a", values_CSQ=a[None]),),
    )
    rest = replace(outside, data_sets=outside.data_sets[1:])
    same = estimate_contrast(
        [
            Term(group=only_a, coefficients={"d": 1.0}, weight=-2 / 3),
            Term(group=rest, coefficients=gain_of("qnorm", "cosine"), weight=2 / 3),
        ]
    )
    assert (found.value, found.standard_error, found.df) == pytest.approx((same.value, same.standard_error, same.df))


def test_a_data_set_in_two_groups_gives_no_interval_for_new_data_sets():
    terms = [
        Term(group=group(0, name=name), coefficients=gain_of("qnorm", "cosine"), weight=w)
        for name, w in (("x", 1.0), ("y", -1.0))
    ]
    found = estimate_contrast(terms, target="new data sets")
    assert (found.value, found.low, found.p) == (pytest.approx(0), None, None)
    assert "a, b, c counts in two of the groups" in found.reason


@pytest.mark.parametrize("target", ["these data sets", "new data sets"])
def test_two_trainings_are_paired_by_query_and_data_set_and_not_by_seed(target):
    """What two regimes share by query and data set cancels in their difference; seeds of each add up."""
    finetuned = group(0, trainings="finetune", spread=0.1)
    shifted = tuple(
        replace(part, values_CSQ=part.values_CSQ + np.array([0.0, 0.02, 0.0])[:, None, None])
        for part in reversed(finetuned.data_sets)
    )
    random = replace(finetuned, trainings="random", data_sets=shifted)
    coefficients = gain_of("qnorm", "cosine")
    terms = [
        Term(group=random, coefficients=coefficients),
        Term(group=finetuned, coefficients=coefficients, weight=-1.0),
    ]
    found = estimate_contrast(terms, target=target)
    alone = [paired_gain(some, "qnorm", "cosine", target=target) for some in (random, finetuned)]
    assert found.value == pytest.approx(0.02)
    gains = by_hand(finetuned, "qnorm", "cosine").mean(axis=1)
    vector = np.array([-1.0, 1.0, 0.0])
    rest = components_of(contrast_layouts(finetuned, vector, target=target)).rest.variance
    expected = 2 * max(gains.var(ddof=1) / 3, rest)  # of the seeds of both; query means are equal
    assert found.standard_error == pytest.approx(expected**0.5)
    assert found.standard_error < np.hypot(*(one.standard_error for one in alone)), "less than without pairs"


def test_groups_of_one_name_have_the_same_data_sets():
    some = group(0)
    other = replace(some, trainings="random", data_sets=some.data_sets[1:])
    terms = [Term(group=g, coefficients=gain_of("qnorm", "cosine")) for g in (some, other)]
    with pytest.raises(ValueError, match="group 'beir' comes with and without a: like is compared with like"):
        estimate_contrast(terms)


def test_mean_of_two_against_a_baseline_is_not_the_best_of_two():
    some = group()
    found = estimate_contrast([Term(group=some, coefficients=mean_against(["qnorm", "dnorm"], "cosine"))])
    each = [paired_gain(some, name, "cosine").value for name in ("qnorm", "dnorm")]
    assert found.value == pytest.approx(np.mean(each))


def test_a_gain_against_itself_is_none():
    found = paired_gain(group(), "cosine", "cosine")
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_an_unknown_column_is_named():
    with pytest.raises(ValueError, match="has no 'qnrm' \\(it has cosine, qnorm, dnorm\\)"):
        paired_gain(group(), "qnrm", "cosine")


def one_per_query(values):
    data_set = DataSetScores(name="a", part_of="a", values_CSQ=np.asarray(values)[None, None])
    some = GroupScores(name="g", trainings="t", columns=("d",), data_sets=(data_set,))
    return estimate_contrast([Term(group=some, coefficients={"d": 1.0})])


@pytest.mark.parametrize("shift", [-0.02, -0.005, -0.001, 0.01])
def test_non_inferiority_is_the_t_test_against_minus_the_margin(shift):
    values = shift + 0.02 * np.random.default_rng(2).normal(size=60)
    found = non_inferiority(one_per_query(values), 0.005)
    assert found.p == pytest.approx(stats.ttest_1samp(values, -0.005).pvalue)
    assert (found.p < 0.05) == (found.low > -0.005 or found.high < -0.005)


def estimate(value, low, high, p, sources="seeds and queries"):
    return Estimate(value=value, standard_error=1.0, df=5, low=low, high=high, p=p, num_seeds=3, sources=sources)


def test_verdicts():
    up, down = estimate(0.1, 0.05, 0.15, 0.01), estimate(-0.1, -0.15, -0.05, 0.01)
    assert claim_verdict(up, 0.02, expected_sign=1) == claim_verdict(down, 0.02, expected_sign=-1) == "confirmed"
    assert claim_verdict(down, 0.02, expected_sign=1) == "refuted"
    assert claim_verdict(up, 0.2, expected_sign=1) == claim_verdict(up, None, expected_sign=1) == "undecided"
    assert claim_verdict(estimate(0.1, 0.05, 0.15, 0.01, "these seeds only"), 0.01, expected_sign=1) == "undecided"
    two_seeds = replace(up, num_seeds=2)
    assert claim_verdict(two_seeds, 0.01, expected_sign=1) == "undecided"
    assert non_inferiority_verdict(up, 0.01) == "confirmed"
    assert non_inferiority_verdict(down, 0.01) == "refuted"
    assert non_inferiority_verdict(down, 0.2) == "undecided", "its interval alone is not adjusted for the other tests"
    assert non_inferiority_verdict(estimate(0.0, -0.01, 0.01, 0.5), 0.5) == "undecided"


def test_a_margin_is_above_0():
    with pytest.raises(ValueError, match=r"margin -0\.1"):
        non_inferiority(estimate(0, -1, 1, 1), -0.1)
