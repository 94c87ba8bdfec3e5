"""Train similarity x score similarity, and what became of trained gammas."""

from dataclasses import replace

import pytest

from results.collect import collect
from results.layout import evaluations_key, evaluations_to_bytes
from results.learned_gammas import learned_gammas
from results.score_matrix import score_columns, score_matrix
from results.store import open_store
from results.tables import TABLES, TableOptions, applicable
from tests.results.builders import SweepFolder, evaluation, evaluation_spec, failed, similarity_spec, trained, untrained


@pytest.fixture
def folder(tmp_path):
    data = (evaluation("a", "beir"), evaluation("b", "beir"))
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data)


def score_with_all(folder, spec, values):
    """A trained trial scored with several similarities, `values` by (data set, similarity)."""
    key = folder.add_trial(spec, lambda data_set, name: [values[data_set, name]] * 2)
    for planned in folder.evaluations:
        for name in {similarity for _, similarity in values}:
            if name != spec.similarity.name:
                folder.write_evaluation(key, planned, name, [values[planned.data_set, name]] * 2)
    specs = [replace(evaluation_spec(planned), score_similarities="all") for planned in folder.evaluations]
    folder.store.write(evaluations_key(key), evaluations_to_bytes(specs))


VALUES = {("a", "cosine"): 0.2, ("b", "cosine"): 0.4, ("a", "dot"): 0.3, ("b", "dot"): 0.7}


def test_a_cell_is_the_mean_over_data_sets_and_seeds_under_that_score_similarity(folder):
    for seed in (0, 1):
        score_with_all(folder, trained("dot", seed=seed), {key: v + 0.1 * seed for key, v in VALUES.items()})
    folder.add_trial(untrained(), lambda data_set, name: [0.1 if name == "cosine" else 0.05] * 2)
    collected = collect(folder.store, folder.record())
    rows = score_matrix(collected.data_set_scores, collected.expected)
    assert score_columns(rows) == ["cosine", "dot", "qnorm", "dnorm", "half"]
    before, after = rows.iter_rows(named=True)
    assert (before["kind"], before["similarity"], before["score_cosine"]) == ("untrained", None, pytest.approx(0.1))
    assert (after["similarity"], after["num_seeds"]) == ("dot", 2)
    assert (after["score_cosine"], after["score_dot"]) == pytest.approx((0.35, 0.55))
    assert after["score_qnorm"] is None


def test_a_score_that_one_data_set_lacks_is_no_mean_of_the_rest(folder):
    values = {("a", "cosine"): 0.2, ("b", "cosine"): 0.4}
    key = folder.add_trial(trained("cosine"), lambda data_set, name: [values[data_set, name]] * 2)
    folder.write_evaluation(key, folder.evaluations[0], "dot", [0.3, 0.3])
    specs = [replace(evaluation_spec(planned), score_similarities="all") for planned in folder.evaluations]
    folder.store.write(evaluations_key(key), evaluations_to_bytes(specs))
    collected = collect(folder.store, folder.record())
    [row] = score_matrix(collected.data_set_scores, collected.expected).iter_rows(named=True)
    assert row["score_cosine"] == pytest.approx(0.3)
    assert row["score_dot"] is None


def test_gammas_start_before_the_first_step_and_end_in_the_checkpoint(folder):
    flat = lambda *_: None  # noqa: E731
    last = folder.add_trial(trained("learnable", seed=0), flat, gamma_q=0.4, gamma_d=0.62)
    best = folder.add_trial(trained("learnable", seed=1), flat, gamma_q=0.45, gamma_d=0.5, best_step=2)
    folder.add_trial(trained("cosine", seed=0), flat)
    folder.write_history(last, [(0.5, 0.5), (0.47, 0.55), (0.43, 0.58), (0.41, 0.6)])
    folder.write_history(best, [(0.5, 0.5), (0.45, 0.5), (0.52, 0.49)])
    collected = collect(folder.store, folder.record())
    first, second = learned_gammas(collected.history(), collected.trials, collected.expected).iter_rows(named=True)
    q = [first[f"gamma_q_{what}"] for what in ("start", "half", "end", "min", "max", "checkpoint")]
    d = [first[f"gamma_d_{what}"] for what in ("start", "half", "end", "min", "max", "checkpoint")]
    assert (first["seed"], first["last_step"]) == (0, 4)
    assert q == pytest.approx([0.5, 0.47, 0.4, 0.4, 0.5, 0.4])
    assert d == pytest.approx([0.5, 0.55, 0.62, 0.5, 0.62, 0.62])
    assert first["gamma_difference_end"] == pytest.approx(-0.22)
    # The best step was kept: the end is where training ended, not the checkpoint.
    assert (second["gamma_q_end"], second["gamma_q_checkpoint"], second["gamma_q_max"]) == pytest.approx(
        (0.52, 0.45, 0.52)
    )
    assert similarity_spec("learnable").gamma_q == first["gamma_q_start"]


def test_a_training_without_history_is_a_hole(folder):
    folder.add_trial(trained("learnable"), lambda *_: None)
    folder.plan_trial(trained("learnable", seed=1), status=failed("out of memory"))
    table = TABLES["learned_gamma"].build(collect(folder.store, folder.record()), TableOptions())
    assert table.holes == (
        "minilm-3l/finetune/learnable/s1: whole trial: failed: out of memory",
        "minilm-3l/finetune/learnable/s0: its history rows are missing",
    )
    assert table.rows["gamma_q_end"].to_list() == [None, None]


def test_gammas_are_a_table_only_where_some_are_trained(folder):
    folder.plan_trial(trained("cosine"))
    assert "learned_gamma" not in applicable(folder.record())
    folder.plan_trial(trained("learnable"))
    assert "learned_gamma" in applicable(folder.record())
