"""What a sweep's own run shows: a description in MLflow's limits, tables, plots, under 50 numbers."""

from dataclasses import replace

import pytest
from mirrored_sweeps import (
    COSINE,
    ENCODER,
    QNORM,
    RECORD,
    UNTRAINED,
    end_everything,
    end_trial,
    planned_evaluation,
    pooled_sweep,
)
from mirrors import all_runs, close, open_tracking, place_of

from orchestrator.exports import export_all
from results.layout import PlannedTrial
from results.tables import applicable
from search_spaces.identity import trial_id


def test_the_files_lie_in_the_sweep_folder_and_are_the_same_each_time(store):
    end_everything(store)
    summary = export_all(store, RECORD)
    assert summary.num_missing == 8  # of the untrained one: it is scored with cosine alone here
    assert summary.files == {key: store.read(key) for key in summary.files} == export_all(store, RECORD).files
    tables = {f"tables/{name}.{kind}" for name in applicable(RECORD) for kind in ("md", "csv", "tex")}
    assert tables <= set(summary.files)
    plots = {f"plots/gains_{group}.svg" for group in ("in_domain", "out", "both")}
    assert plots | {"plots/losses_minilm-3l_finetune.svg", "report.html"} <= set(summary.files)
    assert summary.metrics["gain/out/minilm-3l/finetune/qnorm"] == pytest.approx(0.0)
    assert "| minilm-3l | finetune | out | 30.00 | 0.00 |" in summary.description
    assert "`tables/gains.md`" in summary.description
    assert summary.description.endswith("3 trials, 1 probe, 8 missing.")


def test_a_sweep_on_pools_says_so(store):
    record = pooled_sweep(store)
    of_pools = replace(record, evaluations=record.evaluations[-1:])
    summary = export_all(store, of_pools)
    assert summary.metrics.keys() >= {"gain/out.pool/minilm-3l/finetune/qnorm"}
    assert "Scores on pools, parts of each corpus: `tables/gains.md` says" in summary.description
    assert b"in points, on pools" in summary.files["plots/gains_out.svg"]
    assert "pools" not in export_all(store, replace(record, evaluations=record.evaluations[:2])).description
    of_both = export_all(store, record)  # no table may have both
    assert "tables/gains.md" not in of_both.files
    assert not of_both.metrics


def test_a_sweep_that_has_only_begun_says_so(store):
    summary = export_all(store, RECORD)
    assert summary.num_missing > 0
    assert f"{summary.num_missing} missing" in summary.description


@pytest.mark.slow
def test_a_huge_sweep_fits_into_mlflow(store):
    """4 models in 30 groups: far more lines than a description has room for."""
    groups = [f"group_{number:02d}" for number in range(30)]
    encoders = [replace(ENCODER, layers=layers) for layers in range(1, 5)]
    specs = [replace(spec, encoder=encoder) for encoder in encoders for spec in (COSINE, QNORM, UNTRAINED)]
    for spec in specs:
        end_trial(store, spec, layers=spec.encoder.layers)
    record = replace(
        RECORD,
        trials=tuple(PlannedTrial(trial_id=trial_id(spec), title=spec.title) for spec in specs),
        probes=(),
        evaluations=(planned_evaluation("attack", *groups), planned_evaluation("pydoc", *groups)),
        primary_groups=("group_17",),
    )
    summary = export_all(store, record)
    assert len(summary.files["tables/gains.md"]) > 8000
    assert 5000 < len(summary.description) <= 7500
    assert summary.description.count("| group_17 |") == len(encoders)
    tracking = open_tracking(store, record=record)
    tracking.finish_sweep("finished", summary)
    close(tracking)
    runs = {run.info.run_name: run for run in all_runs(place_of(store))}
    parent = runs.pop("small")
    assert parent.data.tags["mlflow.note.content"] == summary.description
    assert 0 < len(parent.data.metrics) < 50
    assert all(len(run.data.metrics) < 50 for run in runs.values())
    assert all(len(value) < 8000 for run in (parent, *runs.values()) for value in run.data.tags.values())
