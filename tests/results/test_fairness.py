"""Similarities that got different budgets, seeds or scales are told, and those that did not are not."""

from dataclasses import replace

import pytest

from results.cells import cell_of, settings_of
from results.collect import collect
from results.fairness import fairness_notes
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, trained, two_queries, untrained, untrained_queries

FAIR = [trained(similarity, seed=seed) for similarity in ("cosine", "qnorm", "dnorm") for seed in (0, 1)]


def notes(trials):
    return fairness_notes({**cell_of(trial), **settings_of(trial)} for trial in trials)


def with_settings(trial, **settings):
    return replace(trial, training=replace(trial.training, **settings))


def test_equal_terms_need_no_note():
    assert notes(FAIR) == ()
    assert notes([*FAIR, untrained(), *FAIR]) == ()
    assert notes([with_settings(t, learning_rate=r) for t in FAIR for r in (1e-4, 1e-5)]) == ()
    # A model that only some similarities were trained on is another comparison, not an unfair one.
    assert notes([*FAIR, trained("cosine", family="other")]) == ()


def test_each_similarity_may_have_a_learning_rate_of_its_own():
    rates = {"cosine": 1e-4, "qnorm": 2e-4, "dnorm": 5e-5}
    assert notes([with_settings(t, learning_rate=rates[t.similarity.name]) for t in FAIR]) == ()


@pytest.mark.parametrize(
    ("unfair", "note"),
    [
        ([with_settings(t, steps=30) if t.similarity.name == "qnorm" else t for t in FAIR],
         "minilm-3l/finetune on attack: steps: 15 under cosine, dnorm; 30 under qnorm"),
        ([with_settings(t, hard_negatives=2) if t.similarity.name == "qnorm" else t for t in FAIR],
         "minilm-3l/finetune on attack: hard_negatives: 0 under cosine, dnorm; 2 under qnorm"),
        ([*FAIR, trained("qnorm", seed=2)],
         "minilm-3l/finetune on attack: seeds: 0, 1 under cosine, dnorm; 0, 1, 2 under qnorm"),
        ([t for t in FAIR if (t.similarity.name, t.seed) != ("dnorm", 1)],
         "minilm-3l/finetune on attack: seeds: 0, 1 under cosine, qnorm; 0 under dnorm"),
        ([*FAIR, *(trained("qnorm", seed=s, scale_mode="matched") for s in (0, 1))],
         "minilm-3l/finetune on attack: scales: fixed(20) under cosine, dnorm; fixed(20), matched(20) under qnorm"),
        ([*FAIR, *(trained("qnorm", seed=s, learning_rate=1e-3) for s in (0, 1))],
         "minilm-3l/finetune on attack: tried settings: 1 under cosine, dnorm; 2 under qnorm"),
    ],
    ids=["steps", "hard negatives", "more seeds", "fewer seeds", "scales", "settings"],
)  # fmt: skip
def test_what_differs_is_told(unfair, note):
    assert notes(unfair) == (note,)


def test_both_regimes_are_told_of():
    unfair = [*FAIR, trained("qnorm", seed=7), *(trained(s, init_regime="random") for s in ("cosine", "dot"))]
    assert len(notes(unfair)) == 1
    unfair.append(trained("dot", init_regime="random", seed=5))
    assert [note.split(" on ")[0] for note in notes(unfair)] == ["minilm-3l/finetune", "minilm-3l/random"]


def gain_notes(tmp_path, trials):
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=(evaluation("attack", "in_domain"),))
    for trial in trials:
        folder.add_trial(trial, two_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    return [
        note
        for note in TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions()).notes
        if note.startswith("Not on equal terms")
    ]


def test_the_gain_table_says_so(tmp_path):
    assert gain_notes(tmp_path / "fair", FAIR) == []
    [note] = gain_notes(tmp_path / "unfair", FAIR[:-1])
    told = "minilm-3l/finetune on attack: seeds: 0, 1 under cosine, qnorm; 0 under dnorm"
    assert note == f"Not on equal terms: {told}."
