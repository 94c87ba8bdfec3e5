"""The best trial of a cell, by its validation score."""

from dataclasses import replace

from results.best import best_trials
from search_spaces.cell_names import cell_name
from search_spaces.identity import trial_id
from search_spaces.specs import to_json
from tests.results.builders import trained, untrained


def row(spec, validation_score=None):
    key = trial_id(spec)
    return {
        "kind": spec.kind,
        "trial_id": key,
        "seed": spec.seed,
        "checkpoint_hash": f"checkpoint-of-{key}",
        "validation_score": validation_score,
        "spec_json": to_json(spec),
    }


def chosen(*rows):
    return {best.name: best.trial_id for best in best_trials(rows)}


def test_the_highest_validation_score_of_each_cell_wins():
    low, high, other = trained("qnorm"), trained("qnorm", seed=1, learning_rate=2e-4), trained("dot")
    assert chosen(row(low, 0.2), row(high, 0.3), row(other, 0.1), row(untrained())) == {
        "attack.minilm-3l.finetune.qnorm.fixed-20": trial_id(high),
        "attack.minilm-3l.finetune.dot.fixed-20": trial_id(other),
    }


def test_the_lowest_seed_wins_a_tie_in_any_order():
    first, second = trained("qnorm", seed=1), trained("qnorm", seed=2)
    for rows in ([first, second], [second, first]):
        assert list(chosen(*(row(spec, 0.5) for spec in rows)).values()) == [trial_id(first)]


def test_a_score_of_zero_is_a_score():
    zero, below = trained("qnorm", seed=1), trained("qnorm", seed=0)
    assert list(chosen(row(zero, 0.0), row(below, -0.1)).values()) == [trial_id(zero)]


def test_without_validation_only_a_single_trial_is_best():
    first, second = trained("qnorm"), trained("qnorm", seed=1)
    assert list(chosen(row(first)).values()) == [trial_id(first)]
    assert chosen(row(first, 0.5), row(second)) == {}


def test_cells_differ_by_everything_but_seed_and_hyperparameters():
    spec = trained("qnorm")
    assert cell_name(trained("qnorm", seed=3, weight_decay=0.1)) == cell_name(spec)
    others = [
        trained("dot"),
        trained("qnorm", scale=30.0),
        trained("qnorm", scale_mode="matched"),
        trained("qnorm", data="pydoc"),
        trained("qnorm", init_regime="random"),
        trained("qnorm", layers=2),
        replace(spec, task="sts"),
        replace(spec, training_data=replace(spec.training_data, split="other")),
        replace(spec, encoder=replace(spec.encoder, towers="separate")),
    ]
    assert len({cell_name(other) for other in (spec, *others)}) == 1 + len(others)
