"""What MLflow's parent run shows of gains: the same numbers as the gain table, few enough for its pages."""

import polars as pl
import pytest
from builders import SweepFolder, evaluation, noisy_queries, trained

from orchestrator.exports import export_all
from results.store import open_store
from results.tables import TABLES, TableOptions, applicable


def test_gains_and_the_ends_of_their_intervals_are_metrics(seeded_folder, seeded):
    exported = export_all(seeded_folder.store, seeded_folder.record())
    rows = TABLES["gains"].build(seeded, TableOptions()).rows.filter(pl.col("kind") == "train")
    row = rows.filter(pl.col("similarity") == "dot", pl.col("group") == "beir").row(0, named=True)
    for metric, column in (("gain", "gain"), ("gain_low", "gain_low"), ("gain_high", "gain_high")):
        assert exported.metrics[f"{metric}/beir/minilm/finetune/dot"] == pytest.approx(100 * row[column])
    assert len([name for name in exported.metrics if name.startswith("gain/")]) == rows.height == 33
    assert len(exported.metrics) <= 48
    assert sum(name.startswith("gain_low/") for name in exported.metrics) == (48 - 33) // 2
    assert {f"tables/{name}.{suffix}" for name in applicable(seeded.record) for suffix in ("md", "csv", "tex")} <= set(
        exported.files
    )


def test_a_baseline_has_no_interval_against_itself(tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "in_domain"),), primary_groups=("in_domain",)
    )
    for similarity in ("cosine", "qnorm"):
        folder.add_trial(trained(similarity), noisy_queries((0.5, 0.3)))
    assert set(export_all(folder.store, folder.record()).metrics) == {
        "gain/in_domain/minilm-3l/finetune/cosine",
        *(f"{name}/in_domain/minilm-3l/finetune/qnorm" for name in ("gain", "gain_low", "gain_high")),
    }
