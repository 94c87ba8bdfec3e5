"""What trials took, by hand; and what is not known is absent."""

from dataclasses import replace

import pytest

from results.collect import collect
from results.layout import Status, probe_prefix, status_key, to_bytes
from results.selection import SelectionError
from results.store import open_store
from results.tables import TABLES
from results.tables.table import TableOptions
from search_spaces.specs import Execution
from tests.results.builders import (
    SweepFolder,
    evaluation,
    failed,
    probe,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)

SCORES = two_queries((0.5, 0.3))
TOOK = {"steps_done": 15, "pairs_per_s": 64.0, "tokens_per_s": 4096.0}


@pytest.fixture
def folder(tmp_path):
    return SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "in_domain"),))


def cost(folder, **options):
    return TABLES["cost"].build(collect(folder.store, folder.record()), TableOptions(**options))


def on(spec, **execution):
    return replace(spec, execution=Execution(**execution))


def test_sums_by_hand(folder):
    spec = on(trained("cosine"), threads=4, device="gpu", num_devices=2)
    folder.add_trial(spec, SCORES, train_wall_s=1800.0, peak_memory_bytes=3 * 2**30, **TOOK)
    spec = on(trained("cosine", seed=1), threads=4, device="gpu", num_devices=2)
    folder.add_trial(spec, SCORES, train_wall_s=5400.0, peak_memory_bytes=2**30, **TOOK)
    table = cost(folder)
    [row] = table.rows.to_dicts()
    assert (row["kind"], row["model"], row["init_regime"], row["device"]) == ("train", "minilm-3l", "finetune", "gpu")
    assert row["num_trials"] == 2
    assert row["train_wall_h"] == pytest.approx(2.0)
    assert row["device_h"] == pytest.approx(4.0)  # two devices each
    assert row["core_h"] == pytest.approx(16.0)  # four threads of two processes
    assert row["run_wall_h"] == pytest.approx(0.2)  # two trials of six minutes, by their statuses
    assert row["num_tokens"] == pytest.approx(2 * 15 * 32 * 64)  # steps x batch x 64 tokens a pair
    assert row["peak_gib"] == pytest.approx(3.0)
    assert row["trial_ids"].split() == [trial.trial_id for trial in folder.trials]
    assert any("4.000 device hours of gpu in 2 trials" in note for note in table.notes)


def test_a_sum_that_lacks_a_trial_is_absent(folder):
    folder.add_trial(trained("cosine"), SCORES, train_wall_s=60.0, **TOOK)
    folder.add_trial(trained("qnorm"), SCORES)
    table = cost(folder)
    [row] = table.rows.to_dicts()
    assert (row["train_wall_h"], row["device_h"], row["mega_tokens"], row["peak_gib"]) == (None, None, None, None)
    assert any("No training time, tokens or memory" in note for note in table.notes)


def test_untrained_checkpoints_and_probes_have_the_run_alone(folder):
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    key = folder.add_probe(probe(), {16: 0.1})
    times = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:30:00+00:00"}
    folder.store.write(status_key(probe_prefix(key)), to_bytes(Status(state="finished", **times)))
    rows = {row["kind"]: row for row in cost(folder).rows.to_dicts()}
    assert rows["untrained"]["run_wall_h"] == pytest.approx(0.1)
    assert rows["probe"]["run_wall_h"] == pytest.approx(0.5)
    assert {row["train_wall_h"] for row in rows.values()} == {None}


def test_kinds_models_regimes_and_devices_stand_apart(folder):
    for changes in ({}, {"init_regime": "random"}, {"family": "bert"}, {"layers": 6}):
        folder.add_trial(trained("cosine", **changes), SCORES, train_wall_s=60.0)
    folder.add_trial(on(trained("qnorm"), device="gpu"), SCORES, train_wall_s=60.0)
    rows = cost(folder).rows
    assert rows.select("model", "init_regime", "device").rows() == [
        ("minilm-3l", "finetune", "cpu"),
        ("minilm-3l", "random", "cpu"),
        ("bert-3l", "finetune", "cpu"),
        ("minilm-6l", "finetune", "cpu"),
        ("minilm-3l", "finetune", "gpu"),
    ]
    assert cost(folder, where={"init_regime": "random"}).rows["num_trials"].to_list() == [1]
    with pytest.raises(SelectionError, match="no trial has it"):
        cost(folder, where={"family": "t5"})


def test_a_trial_that_has_no_row_is_a_hole(folder):
    folder.add_trial(trained("cosine"), SCORES)
    folder.plan_trial(trained("qnorm"), status=failed("out of memory"))
    assert cost(folder).holes == ("minilm-3l/finetune/qnorm/s0: whole trial: failed: out of memory",)
    assert cost(folder, where={"seed": "0"}).holes == cost(folder).holes
