"""Claims: registered contrasts by hand, choices made on validation alone, verdicts."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats
from statsmodels.stats.multitest import multipletests
from test_gain_intervals import comparisons_of, values_of

from results.claims import CLAIMS, EffectClaim, GainClaim, NonInferiority
from results.claims.contrasts import EFFECT_TYPES
from results.claims.effects import effect_sizes
from results.claims.evaluate import Sides, evaluate_claims
from results.collect import collect
from results.compared import Comparisons
from results.query_scores import QueryScores
from results.store import open_store
from results.tables import TABLES, TableOptions
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.similarities import SIMILARITIES
from tests.results.builders import VALIDATED, SweepFolder, evaluation, seeded_queries, trained

NO_EFFECTS = pl.DataFrame(schema=EFFECT_TYPES)


def sides(collected, effects=NO_EFFECTS, **changes):
    known = {
        "in_domain": ("in_domain",),
        "out_of_domain": collected.record.primary_groups,
        "validation": dict(collected.trials.select("trial_id", "validation_score").iter_rows()),
        "effects": effects,
    }
    return Sides(**(known | changes))


def row_of(frame, claim, family="minilm"):
    same = pl.col("family").is_null() if family is None else pl.col("family") == family
    rows = frame.filter((pl.col("claim") == claim) & same)
    assert rows.height == 1
    return rows.row(0, named=True)


def gain(seeded, similarities, regime, group, family="minilm"):
    """The group's mean gain over cosine, each data set and part averaged by hand."""
    members = {
        "beir": [["nq"], ["fiqa"], ["hotpotqa"], ["cqadupstack/android", "cqadupstack/unix"]],
        "multi_hop": [["hotpotqa"], ["musique"]],
        "in_domain": [["attack"]],
    }[group]

    def score(similarity):
        where = {"family": family, "init_regime": regime, "similarity": similarity}
        return np.mean([np.mean([values_of(seeded, data_set=d, **where).mean() for d in parts]) for parts in members])

    return np.mean([score(name) for name in similarities]) - score("cosine")


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_names_what_there_is_and_says_what_it_holds(name):
    claim = CLAIMS[name]
    assert claim.hypothesis
    assert "arXiv" in claim.source
    test = claim.test
    parts = test.parts if isinstance(test, GainClaim) else (test,)
    for part in parts:
        assert part.regime in INIT_REGIMES
        assert part.side in ("in domain", "out of domain")
    if isinstance(test, GainClaim):
        assert test.expected in (1, -1)
        for part in parts:
            assert {*part.similarities, part.baseline} <= set(SIMILARITIES)
            assert len(part.similarities) > 1  # a mean, never the better one
    elif isinstance(test, NonInferiority):
        assert 0 < test.margin <= 0.005
        assert {test.similarity, *test.others} <= set(SIMILARITIES)
    else:
        assert isinstance(test, EffectClaim)
        assert test.similarity in SIMILARITIES


def test_estimates_are_the_contrasts_by_hand(seeded):
    frame = evaluate_claims(comparisons_of(seeded), sides(seeded))
    both = ("qnorm", "dnorm")

    def out(regime, family="minilm"):
        return np.mean([gain(seeded, both, regime, group, family) for group in ("beir", "multi_hop")])

    inside = gain(seeded, both, "finetune", "in_domain")
    assert row_of(frame, "magnitude_helps")["estimate"] == pytest.approx(out("finetune"))
    assert row_of(frame, "more_out_of_domain")["estimate"] == pytest.approx(out("finetune") - inside)
    assert row_of(frame, "needs_pretraining")["estimate"] == pytest.approx(out("finetune") - out("random"))
    assert row_of(frame, "hurts_from_random")["estimate"] == pytest.approx(out("random"))
    every = row_of(frame, "magnitude_helps", family=None)
    assert (every["scope"], every["num_models"]) == ("all models", 2)
    assert every["estimate"] == pytest.approx((out("finetune") + out("finetune", "bert")) / 2)
    verdicts = {name: row_of(frame, name)["verdict"] for name in CLAIMS}
    assert verdicts["magnitude_helps"] == "confirmed"
    assert verdicts["hurts_from_random"] == "confirmed"
    known = frame.filter(pl.col("p").is_not_null())
    assert known["adjusted_p"].to_list() == pytest.approx(list(multipletests(known["p"].to_list(), method="holm")[1]))


def test_the_best_manual_similarity_is_chosen_by_validation_and_not_by_what_is_tested(seeded):
    cells = comparisons_of(seeded)
    shown = row_of(evaluate_claims(cells, sides(seeded)), "learnable_keeps_up")
    assert shown["chosen"] == "best by validation: qnorm"
    learnable, qnorm = (
        np.mean([gain(seeded, (name,), "finetune", group) for group in ("beir", "multi_hop")])
        for name in ("learnable", "qnorm")
    )
    assert shown["estimate"] == pytest.approx(learnable - qnorm)
    trials = seeded.trials.select("trial_id", "similarity").iter_rows()
    for_dot = {trial_id: 0.9 if similarity == "dot" else 0.1 for trial_id, similarity in trials}
    other = row_of(evaluate_claims(cells, sides(seeded, validation=for_dot)), "learnable_keeps_up")
    assert other["chosen"] == "best by validation: dot"
    absent = row_of(evaluate_claims(cells, sides(seeded, validation={})), "learnable_keeps_up")
    assert (absent["estimate"], absent["verdict"]) == (None, "undecided")
    assert "was not validated" in absent["reason"]


def test_learnable_within_the_margin_is_confirmed_although_it_is_worse(tmp_path):
    """0.1 points worse than qnorm on every query and seed, with noise far below the margin of 0.5."""
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("nq", "out_of_domain"),))
    rng = np.random.default_rng(3)
    less = {"cosine": 0.05, "dot": 0.04, "qnorm": 0.0, "dnorm": 0.03, "learnable": 0.001}
    for similarity, seed in [(name, seed) for name in less for seed in (0, 1, 2)]:
        values = 0.5 - less[similarity] + rng.normal(0, 0.001, 20)
        folder.add_trial(
            trained(similarity, seed=seed), lambda *_, v=values: v, validation_score=0.5 - less[similarity]
        )
    collected = collect(folder.store, folder.record())
    found = row_of(evaluate_claims(comparisons_of(collected), sides(collected)), "learnable_keeps_up")
    assert -0.005 < found["low"] < found["estimate"] < 0
    assert found["verdict"] == "confirmed"


def test_a_claim_on_the_other_side_is_refuted_and_fewer_than_three_seeds_decide_nothing(tmp_path):
    for num_seeds, verdict in ((3, "refuted"), (2, "undecided")):
        folder = SweepFolder(
            store=open_store(str(tmp_path / str(num_seeds))), evaluations=(evaluation("nq", "out_of_domain"),)
        )
        rng = np.random.default_rng(1)
        for similarity, worse in (("cosine", 0.0), ("qnorm", 0.1), ("dnorm", 0.12)):
            for seed in range(num_seeds):
                values = 0.5 - worse + rng.normal(0, 0.005, 20)
                folder.add_trial(trained(similarity, seed=seed), lambda *_, v=values: v)
        collected = collect(folder.store, folder.record())
        found = row_of(evaluate_claims(comparisons_of(collected), sides(collected)), "magnitude_helps")
        assert (found["verdict"], found["num_seeds"]) == (verdict, num_seeds)
        assert found["estimate"] == pytest.approx(-0.11, abs=0.005)


def test_effect_sizes_are_judged_over_seeds_and_data_sets(seeded):
    """One d for each trial and data set; those in two groups count once."""
    names = ("nq", "fiqa", "hotpotqa", "cqadupstack", "musique")
    of_qnorm = seeded.trials.filter(pl.col("similarity") == "qnorm")
    rng = np.random.default_rng(0)
    sign = {"finetune": 1, "random": 1}  # from random weights the claim is the other sign
    rows = [
        (trial["trial_id"], name, sign[trial["init_regime"]] * (0.4 + rng.normal(0, 0.05)))
        for trial in of_qnorm.iter_rows(named=True)
        for name in names
    ]
    effects = pl.DataFrame(rows, schema=EFFECT_TYPES, orient="row")
    frame = evaluate_claims(comparisons_of(seeded), sides(seeded, effects=effects))
    found = row_of(frame, "relevant_longer_finetuned")
    of_minilm = of_qnorm.filter((pl.col("family") == "minilm") & (pl.col("init_regime") == "finetune"))
    known = {(trial_id, name): d for trial_id, name, d in rows}
    d_SJ = np.array([[known[trial_id, name] for name in names] for trial_id in of_minilm["trial_id"]])
    assert found["estimate"] == pytest.approx(d_SJ.mean())
    assert (found["verdict"], found["unit"], found["target"]) == (
        "confirmed",
        "pooled standard deviations of document norms",
        "new data sets",
    )
    assert row_of(frame, "relevant_shorter_from_random")["verdict"] == "refuted"
    # The interval is about as wide as that of the five means: hardly narrower than with seeds left aside.
    low, high = stats.t.interval(0.95, 4, d_SJ.mean(), stats.sem(d_SJ.mean(axis=0)))
    assert 0.3 < (found["high"] - found["low"]) / (high - low) < 3
    one_less = effects.filter(pl.col("data_set") != "musique")
    absent = row_of(
        evaluate_claims(comparisons_of(seeded), sides(seeded, effects=one_less)), "relevant_longer_finetuned"
    )
    assert "not known on musique" in absent["reason"]


def test_effect_sizes_are_of_unjudged_documents_and_a_whole_is_the_mean_of_its_parts(seeded):
    trial = seeded.trials.filter((pl.col("similarity") == "qnorm") & (pl.col("family") == "bert"))["trial_id"][0]
    rows = [
        {"trial_id": trial, "data_set": name, "data_hash": f"hash-of-{name}-test", "split": "test", **of}
        for name, of in [
            ("nq", {"irrelevant": "unjudged", "cohen_d": 0.5}),
            ("nq", {"irrelevant": "judged 0", "cohen_d": 0.1}),
            ("fiqa", {"irrelevant": "judged 0", "cohen_d": 0.1}),
            ("cqadupstack/android", {"irrelevant": "unjudged", "cohen_d": 0.2}),
            ("cqadupstack/unix", {"irrelevant": "unjudged", "cohen_d": 0.4}),
        ]
    ]
    found = effect_sizes(pl.DataFrame(rows), seeded.expected)
    assert found.rows() == [(trial, "nq", 0.5), (trial, "cqadupstack", pytest.approx(0.3))]
    assert dict(found.schema) == EFFECT_TYPES
    one_forum = effect_sizes(pl.DataFrame(rows[:-1]), seeded.expected)
    assert one_forum["data_set"].to_list() == ["nq"]


def test_groups_of_unlike_measures_are_no_contrast(tmp_path):
    evaluations = (evaluation("nq", "beir"), evaluation("dev", "in_domain", main_measure="RR@10"))
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=evaluations, primary_groups=("beir",))
    for similarity in ("cosine", "qnorm", "dnorm"):
        spec = trained(similarity)
        folder.add_trial(spec, seeded_queries(0, spec))
    collected = collect(folder.store, folder.record())
    frame = evaluate_claims(comparisons_of(collected), sides(collected))
    assert "different main measures (RR@10, nDCG@10)" in row_of(frame, "more_out_of_domain")["reason"]
    assert row_of(frame, "magnitude_helps")["estimate"] is not None


def test_two_splits_of_one_data_set_have_queries_of_their_own(tmp_path):
    evaluations = (evaluation("nq", "in_domain"), evaluation("nq", "out", split="train"))
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=evaluations, primary_groups=("out",))
    for similarity in ("cosine", "qnorm", "dnorm"):
        spec = trained(similarity)
        folder.add_trial(spec, seeded_queries(0, spec))
    collected = collect(folder.store, folder.record())
    scores = {
        key: QueryScores(values_RQ=found.values_RQ[:, : 5 if key.split == "train" else None], rows=found.rows)
        for key, found in collected.query_scores.items()
    }
    cells = Comparisons(scores, collected.expected)
    assert {data.name for cell in cells.like() for data in cell.scores.data_sets} == {"nq (test)", "nq (train)"}
    assert row_of(evaluate_claims(cells, sides(collected)), "more_out_of_domain")["estimate"] is not None


def test_what_the_sweep_does_not_hold_is_undecided_with_the_reason(seeded):
    frame = evaluate_claims(comparisons_of(seeded), sides(seeded, in_domain=()))
    assert row_of(frame, "more_out_of_domain")["reason"] == "the sweep evaluates no group in domain"
    assert row_of(frame, "needs_pretraining", "bert")["reason"] == "the sweep does not train it in the regime random"
    assert "dot: the sweep trains none here" in row_of(frame, "learnable_keeps_up", "bert")["reason"]
    assert set(frame.filter(pl.col("p").is_null())["verdict"]) == {"undecided"}


def test_the_table_takes_sides_and_validation_from_the_sweep(seeded):
    table = TABLES["claims"].build(seeded, TableOptions())
    row = table.rows.filter((pl.col("claim") == "learnable_keeps_up") & (pl.col("model") == "minilm")).row(
        0, named=True
    )
    assert row["chosen"] == f"best by validation: {max(list(VALIDATED)[:4], key=VALIDATED.get)}"
    assert any("out of domain: the unweighted mean over beir, multi_hop" in note for note in table.notes)
    assert all(any(note.startswith(f"{name}: ") for note in table.notes) for name in CLAIMS)


@pytest.mark.parametrize("name", ["claims", "winners"])
def test_a_baseline_changes_nothing_of_what_names_none(tmp_path, name):
    """Even one whose seeds are others: cosine, qnorm and dnorm have three, dot one."""
    folder = SweepFolder(
        store=open_store(str(tmp_path)), evaluations=(evaluation("nq", "out"),), primary_groups=("out",)
    )
    for similarity in ("cosine", "dot", "qnorm", "dnorm"):
        for seed in (0,) if similarity == "dot" else (0, 1, 2):
            spec = trained(similarity, seed=seed)
            folder.add_trial(spec, seeded_queries(seed, spec))
    collected = collect(folder.store, folder.record())
    tables = [TABLES[name].build(collected, TableOptions(baseline=b)) for b in ("cosine", "dot")]
    assert_frame_equal(tables[0].rows, tables[1].rows)
    if name == "claims":
        found = row_of(tables[1].rows, "magnitude_helps")
        assert (found["num_seeds"], found["estimate"] is None) == (3, False)
    else:
        assert tables[1].rows.select("num_compared", "num_seeds").rows() == [(3, 3)]


def test_a_claim_takes_the_seeds_of_its_own_similarities_even_where_most_others_have_fewer(tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path)), evaluations=(evaluation("nq", "out"),), primary_groups=("out",)
    )
    for similarity in ("cosine", "dot", "qnorm", "dnorm", "learnable"):
        for seed in (0, 1, 2) if similarity in ("qnorm",) else (0,):
            spec = trained(similarity, seed=seed)
            folder.add_trial(spec, seeded_queries(seed, spec))
    cells = comparisons_of(collect(folder.store, folder.record()))
    assert cells.like()[0].scores.columns == ("cosine", "dot", "dnorm", "learnable")
    assert cells.like("qnorm")[0].scores.columns == ("qnorm",)
    assert cells.like("qnorm")[0].seeds == (0, 1, 2)
    assert cells.like("dot")[0] is cells.like("cosine")[0], "alike is made once"
