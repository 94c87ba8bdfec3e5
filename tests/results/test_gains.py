"""Gains against hand-computed numbers and against plain loops."""

import itertools
import random

import polars as pl
import pytest

from results.collect import collect
from results.gains import BASELINE_MISSING, UNTRAINED_MISSING, gains, start_similarity
from results.scores import ROWS_MISSING, MixedMeasuresError
from results.selection import SelectionError
from results.store import open_store
from search_spaces.catalogue.similarities import SIMILARITIES
from tests.results.builders import SweepFolder, evaluation, failed, trained, two_queries, untrained, untrained_queries

IN, OUT = "in_domain", "out_of_domain"


@pytest.fixture
def folder(tmp_path):
    return SweepFolder(
        store=open_store(str(tmp_path / "sweep")),
        evaluations=(evaluation("attack", IN), evaluation("pydoc_small", OUT)),
    )


def gains_of(folder, **options):
    collected = collect(folder.store, folder.record())
    return gains(collected.data_set_scores, collected.expected, **options)


def row(frame, **values):
    found = frame.filter(*(pl.col(name) == value for name, value in values.items()))
    assert found.height == 1, f"{values} picks {found.height} rows"
    return found.row(0, named=True)


def add_all(folder, similarities, seeds=(0,), scores=(0.5, 0.3), **spec):
    for similarity, seed in itertools.product(similarities, seeds):
        folder.add_trial(trained(similarity, seed=seed, **spec), two_queries(scores))


def test_gain_of_the_studys_headline(folder):
    """Contriever on BRIGHT: 12.74 against 7.41 is +71.9 %, +5.33 points (shared paper/README.md)."""
    folder.add_trial(trained("cosine"), lambda *_: [0.0741])
    folder.add_trial(trained("qnorm"), lambda *_: [0.1274])
    folder.add_trial(untrained(), lambda *_: [0.05])
    found = row(gains_of(folder), similarity="qnorm", kind="train", group=OUT)
    assert found["gain"] == pytest.approx(0.0533)
    assert found["gain_ratio"] == pytest.approx(0.719, abs=5e-4)


def test_rows_of_the_small_sweep(small_folder):
    frame = gains_of(small_folder)
    found = row(frame, family="minilm", init_regime="finetune", group=OUT, kind="train", similarity="qnorm")
    assert found["score"] == pytest.approx(0.36)
    assert found["baseline_score"] == pytest.approx(0.30)
    assert found["gain"] == pytest.approx(0.06)
    assert found["gain_ratio"] == pytest.approx(0.2)
    assert found["untrained_score"] == pytest.approx(0.20)  # scored with qnorm, not with cosine (0.25)
    assert (found["rank"], found["num_seeds"], found["training_data"], found["scale"]) == (1, 1, "attack", "fixed(20)")
    own = row(frame, init_regime="finetune", group=OUT, kind="untrained", similarity="cosine")
    assert own["score"] == pytest.approx(0.25)
    assert own["gain"] == pytest.approx(-0.05)
    assert own["rank"] is None
    assert own["training_data"] is None
    assert frame["reason"].null_count() == frame.height
    shown = ["score", "gain", "gain_ratio", "untrained_score"]
    assert frame.select(pl.col(shown).null_count()).row(0) == (0, 0, 0, 0)


def test_learnable_is_held_against_the_untrained_checkpoint_at_its_start(small_folder):
    frame = gains_of(small_folder)
    learnable = row(frame, init_regime="finetune", group=IN, kind="train", similarity="learnable")
    half = row(frame, init_regime="finetune", group=IN, kind="untrained", similarity="half")
    assert learnable["untrained_score"] == half["score"]


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_similarity_starts_at_a_fixed_one(name):
    start = SIMILARITIES[start_similarity(name)]
    assert not start.trained
    assert (start.gamma_q, start.gamma_d) == (SIMILARITIES[name].gamma_q, SIMILARITIES[name].gamma_d)


def test_against_plain_loops(tmp_path):
    """Two families, three seeds, overlapping groups, data sets of unequal size: every number by nested loops."""
    draw = random.Random(7)
    sizes = {"hotpotqa": 5, "nq": 2, "musique": 3}
    groups = {"beir": ["hotpotqa", "nq"], "multi_hop": ["hotpotqa", "musique"]}
    similarities, seeds, families = ("cosine", "qnorm", "dnorm"), (0, 1, 2), ("minilm", "bert")
    folder = SweepFolder(
        store=open_store(str(tmp_path)),
        evaluations=tuple(evaluation(d, *(g for g in groups if d in groups[g])) for d in sizes),
    )
    values, start = {}, {}
    for family, similarity, seed in itertools.product(families, similarities, seeds):
        drawn = {d: [draw.random() for _ in range(n)] for d, n in sizes.items()}
        values[family, similarity, seed] = drawn
        folder.add_trial(trained(similarity, seed=seed, family=family), lambda d, _, drawn=drawn: drawn[d])
    for family in families:
        start[family] = {(d, s): [draw.random() for _ in range(n)] for d, n in sizes.items() for s in SIMILARITIES}
        folder.add_trial(untrained(family=family), lambda d, s, drawn=start[family]: drawn[d, s])

    def mean(numbers):
        numbers = list(numbers)
        return sum(numbers) / len(numbers)

    def score(family, similarity, group):
        return mean(mean(mean(values[family, similarity, seed][d]) for d in groups[group]) for seed in seeds)

    frame = gains_of(folder)
    for family, similarity, group in itertools.product(families, similarities, groups):
        found = row(frame, family=family, similarity=similarity, group=group, kind="train")
        ours, base = score(family, similarity, group), score(family, "cosine", group)
        assert found["score"] == pytest.approx(ours, abs=1e-12)
        assert found["gain"] == pytest.approx(ours - base, abs=1e-12)
        assert found["gain_ratio"] == pytest.approx(ours / base - 1, abs=1e-12)
        assert found["untrained_score"] == pytest.approx(
            mean(mean(start[family][d, similarity]) for d in groups[group]), abs=1e-12
        )
        assert found["num_seeds"] == 3
        better = sum(score(family, other, group) > ours for other in similarities)
        assert found["rank"] == better + 1


def test_another_baseline(folder):
    folder.add_trial(trained("cosine"), two_queries((0.4, 0.2)))
    folder.add_trial(trained("dot"), two_queries((0.5, 0.4)))
    found = row(gains_of(folder, baseline="dot"), similarity="cosine", kind="train", group=OUT)
    assert found["gain"] == pytest.approx(-0.2)
    assert found["gain_ratio"] == pytest.approx(-0.5)


def test_a_baseline_that_nothing_was_trained_with_names_the_nearest(folder):
    add_all(folder, ["cosine", "dot"])
    with pytest.raises(SelectionError, match="did you mean 'cosine'"):
        gains_of(folder, baseline="cosin")


def test_a_group_with_a_missing_data_set_has_no_score_rather_than_a_mean_of_the_rest(tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path)), evaluations=(evaluation("nq", "beir"), evaluation("fiqa", "beir"))
    )
    folder.add_trial(trained("cosine"), lambda *_: [0.5])
    folder.add_trial(trained("qnorm"), lambda d, _: [0.9] if d == "nq" else None)
    folder.add_trial(untrained(), lambda *_: [0.1])
    found = row(gains_of(folder), similarity="qnorm", kind="train")
    assert (found["score"], found["gain"], found["rank"], found["reason"]) == (None, None, None, ROWS_MISSING)


def test_a_failed_trial_leaves_its_row_empty_and_a_failed_baseline_all_gains(folder):
    folder.plan_trial(trained("cosine"), status=failed("out of memory"))
    folder.add_trial(trained("qnorm"), two_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    frame = gains_of(folder)
    cosine = row(frame, similarity="cosine", kind="train", group=IN)
    qnorm = row(frame, similarity="qnorm", kind="train", group=IN)
    assert (cosine["score"], cosine["reason"]) == (None, ROWS_MISSING)
    assert (qnorm["gain"], qnorm["gain_ratio"], qnorm["reason"]) == (None, None, BASELINE_MISSING)
    assert qnorm["score"] == pytest.approx(0.5)


def test_a_lost_query_is_a_hole_not_a_higher_mean(folder):
    folder.add_trial(trained("cosine"), lambda *_: [0.9, 0.1])
    folder.add_trial(trained("qnorm"), lambda *_: [0.9])
    found = row(gains_of(folder), similarity="qnorm", kind="train", group=IN)
    assert (found["score"], found["reason"]) == (None, ROWS_MISSING)


def test_a_query_of_value_zero_counts(folder):
    folder.add_trial(trained("cosine"), lambda *_: [0.8, 0.0])
    assert row(gains_of(folder), similarity="cosine", kind="train", group=IN)["score"] == pytest.approx(0.4)


def test_unlike_seeds_have_no_gain(folder):
    add_all(folder, ["cosine"], seeds=(0, 1))
    add_all(folder, ["qnorm"], seeds=(0,))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    found = row(gains_of(folder), similarity="qnorm", kind="train", group=IN)
    assert found["score"] == pytest.approx(0.5)
    assert (found["gain"], found["reason"]) == (None, "its seeds are not those of the baseline")
    same = row(gains_of(folder, where={"seed": "0"}), similarity="qnorm", kind="train", group=IN)
    assert (same["gain"], same["reason"]) == (pytest.approx(0.0), None)


def test_a_cell_without_baseline_says_so(folder):
    add_all(folder, ["cosine", "qnorm"])
    add_all(folder, ["qnorm"], init_regime="from_base")
    found = row(gains_of(folder), similarity="qnorm", kind="train", group=IN, init_regime="from_base")
    assert (found["gain"], found["reason"]) == (None, "the sweep trains no cosine here")


def test_a_baseline_of_zero_has_points_but_no_ratio(folder):
    folder.add_trial(trained("cosine"), lambda *_: [0.0])
    folder.add_trial(trained("qnorm"), lambda *_: [0.1])
    found = row(gains_of(folder), similarity="qnorm", kind="train", group=IN)
    assert found["gain"] == pytest.approx(0.1)
    assert found["gain_ratio"] is None
    assert "scores 0" in found["reason"]


def test_a_missing_untrained_checkpoint_is_named(folder):
    add_all(folder, ["cosine"])
    found = row(gains_of(folder), similarity="cosine", kind="train", group=IN)
    assert (found["untrained_score"], found["reason"]) == (None, "the sweep has no untrained checkpoint here")
    folder.plan_trial(untrained())
    assert row(gains_of(folder), similarity="cosine", kind="train", group=IN)["reason"] == UNTRAINED_MISSING


def test_random_starts_are_averaged_over_their_seeds(folder):
    add_all(folder, ["cosine"], seeds=(0, 1), init_regime="random")
    folder.add_trial(untrained(init_regime="random", seed=0), two_queries((0.2, 0.2)))
    folder.add_trial(untrained(init_regime="random", seed=1), two_queries((0.4, 0.4)))
    found = row(gains_of(folder), similarity="cosine", kind="train", group=IN)
    assert found["untrained_score"] == pytest.approx(0.3)
    one = row(gains_of(folder, where={"seed": "1"}), similarity="cosine", kind="train", group=IN)
    assert one["untrained_score"] == pytest.approx(0.4)


def test_two_training_data_sets_are_not_pooled_unless_asked_for(folder):
    for data, more in (("attack", 0.0), ("conala", 0.1)):
        folder.add_trial(trained("cosine", data=data), two_queries((0.4 + more, 0.3)))
        folder.add_trial(trained("qnorm", data=data), two_queries((0.6 + more, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    with pytest.raises(SelectionError) as refused:
        gains_of(folder)
    assert "'attack'" in str(refused.value)
    assert "'conala'" in str(refused.value)
    assert "--where training_data=attack" in str(refused.value)
    assert "--pool" in str(refused.value)
    chosen = row(gains_of(folder, where={"training_data": "conala"}), similarity="qnorm", kind="train", group=IN)
    assert (chosen["score"], chosen["training_data"]) == (pytest.approx(0.7), "conala")
    pooled = row(gains_of(folder, pool=True), similarity="qnorm", kind="train", group=IN)
    assert (pooled["score"], pooled["training_data"]) == (pytest.approx(0.65), "attack + conala")
    assert pooled["gain"] == pytest.approx(0.2)
    assert pooled["num_seeds"] == 1
    assert pooled["untrained_score"] == pytest.approx(0.35)


SCALES = {"fixed(20)": (0.4, 0.5), "fixed(50)": (0.3, 0.6), "matched(20)": (0.6, 0.6)}  # cosine, qnorm on attack


@pytest.mark.parametrize("pool", [False, True])
def test_scales_are_never_mixed_in_one_gain(folder, pool):
    for scale, scores in SCALES.items():
        mode, value = scale[:-1].split("(")
        for similarity, score in zip(("cosine", "qnorm"), scores, strict=True):
            spec = trained(similarity, scale=float(value), scale_mode=mode)
            folder.add_trial(spec, two_queries((score, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    frame = gains_of(folder, pool=pool).filter(pl.col("group") == IN)
    assert frame["scale"].unique(maintain_order=True).to_list() == list(SCALES)
    for scale, (cosine, qnorm) in SCALES.items():
        found = row(frame, similarity="qnorm", kind="train", scale=scale)
        assert found["gain"] == pytest.approx(qnorm - cosine)
        assert found["baseline_score"] == pytest.approx(cosine)
        assert found["untrained_score"] == pytest.approx(0.35)
        assert (found["rank"], found["reason"]) == (1, None)
        beside = row(frame, similarity="cosine", kind="untrained", scale=scale)
        assert beside["gain"] == pytest.approx(0.4 - cosine)
    assert frame.height == len(SCALES) * (2 + 5)
    for where in ({"scale_mode": "matched"}, {"scale_value": "50"}):
        chosen = gains_of(folder, where=where, pool=pool)
        assert chosen["scale"].unique().to_list() == ["matched(20)" if "scale_mode" in where else "fixed(50)"]


def test_a_baseline_at_another_scale_is_no_baseline(folder):
    add_all(folder, ["cosine", "qnorm"])
    add_all(folder, ["qnorm"], scale_mode="matched")
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    found = row(gains_of(folder), similarity="qnorm", kind="train", group=IN, scale="matched(20)")
    assert (found["gain"], found["reason"]) == (None, "the sweep trains no cosine here")


def test_softmax_numbers_are_means_over_seeds_and_none_of_a_trial_that_is_missing(folder):
    for seed, saturated in ((0, 0.5), (1, 0.7)):
        softmax = {"start_saturated_share": saturated, "end_perplexity": 4.0 * saturated}
        folder.add_trial(trained("dot", seed=seed), two_queries((0.5, 0.3)), **softmax)
        folder.add_trial(trained("cosine", seed=seed), two_queries((0.5, 0.3)), **softmax)
    folder.plan_trial(trained("cosine", seed=2))
    frame = gains_of(folder)
    dot = row(frame, similarity="dot", kind="train", group=IN)
    assert (dot["start_saturated_share"], dot["end_perplexity"]) == (pytest.approx(0.6), pytest.approx(2.4))
    assert dot["end_logit_std"] is None
    cosine = row(frame, similarity="cosine", kind="train", group=IN)
    assert cosine["start_saturated_share"] is None


def test_a_hyperparameter_axis_is_not_averaged_as_if_it_were_seeds(folder):
    folder.add_trial(trained("cosine", weight_decay=0.0), two_queries((0.4, 0.3)))
    folder.add_trial(trained("cosine", weight_decay=0.1), two_queries((0.6, 0.3)))
    with pytest.raises(SelectionError, match=r"weight_decay=0 and weight_decay=0.1.*--where weight_decay=0\)"):
        gains_of(folder, pool=True)
    found = row(gains_of(folder, where={"weight_decay": "0.1"}), similarity="cosine", kind="train", group=IN)
    assert found["score"] == pytest.approx(0.6)


def test_a_choice_of_similarity_keeps_the_baseline_it_is_compared_with(small_folder):
    frame = gains_of(
        small_folder, where={"similarity": "qnorm", "family": "minilm", "init_regime": "finetune", "kind": "train"}
    )
    assert frame["similarity"].unique().to_list() == ["qnorm"]
    assert frame["gain"].to_list() == pytest.approx([0.05, 0.06])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"famly": "minilm"}, "did you mean 'family'"),
        ({"family": "minilmm"}, r"no trial has it \(did you mean 'minilm'\? there are: minilm\)"),
        ({"layers": "three"}, "'three' is not a number"),
        ({"similarity": "half", "kind": "train"}, "no row of this table has it"),
    ],
)
def test_a_choice_that_cannot_be_made_says_what_can(folder, where, message):
    add_all(folder, ["cosine"])
    with pytest.raises(SelectionError, match=message):
        gains_of(folder, where=where)


def test_an_empty_value_is_chosen_by_none(folder):
    add_all(folder, ["cosine"], layers=None)
    folder.add_trial(trained("cosine", layers=2), two_queries((0.1, 0.1)))
    assert gains_of(folder, where={"layers": "none"})["layers"].unique().to_list() == [None]
    assert gains_of(folder, where={"layers": "2"})["layers"].unique().to_list() == [2]


def test_whole_and_cut_models_are_apart(folder):
    add_all(folder, ["cosine"], layers=None, scores=(0.6, 0.6))
    add_all(folder, ["cosine"], layers=2, scores=(0.2, 0.2))
    assert gains_of(folder).filter(pl.col("group") == IN)["score"].to_list() == pytest.approx([0.6, 0.2])


def test_groups_of_unlike_measures_are_refused(tmp_path):
    evaluations = (evaluation("nq", "mixed"), evaluation("msmarco_dev", "mixed", main_measure="RR@10"))
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=evaluations)
    add_all(folder, ["cosine"])
    with pytest.raises(MixedMeasuresError, match=r"'mixed'.*RR@10, nDCG@10"):
        gains_of(folder)


def test_nothing_trained_is_said(folder):
    with pytest.raises(SelectionError, match="no trial"):
        gains_of(folder)
