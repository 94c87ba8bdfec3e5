"""What MLflow's parent run shows of gains: the same numbers as the gain table, few enough for its pages."""

import polars as pl
import pytest

from orchestrator.exports import export_all
from results.store import open_store
from results.tables import TABLES, TableOptions, applicable
from tests.results.builders import SweepFolder, evaluation, noisy_queries, trained


def test_gains_and_the_ends_of_their_intervals_are_metrics(seeded_folder, seeded):
    exported = export_all(seeded_folder.store, seeded_folder.record())
    rows = (
        TABLES["gains"]
        .build(seeded, TableOptions())
        .rows.filter((pl.col("kind") == "train") & (pl.col("similarity") != "cosine"))
    )
    row = rows.filter(pl.col("similarity") == "dot", pl.col("group") == "beir").row(0, named=True)
    for metric, column in (("gain", "gain"), ("gain_low", "gain_low"), ("gain_high", "gain_high")):
        assert exported.metrics[f"{metric}/beir/minilm/finetune/dot"] == pytest.approx(100 * row[column])
    assert len([name for name in exported.metrics if name.startswith("gain/")]) == rows.height == 24
    assert len(exported.metrics) <= 48
    assert sum(name.startswith("gain_low/") for name in exported.metrics) == (48 - 24) // 2
    assert {f"tables/{name}.{suffix}" for name in applicable(seeded.record) for suffix in ("md", "csv", "tex")} <= set(
        exported.files
    )


def test_a_baseline_has_no_gain_over_itself(tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "in_domain"),), primary_groups=("in_domain",)
    )
    for similarity in ("cosine", "qnorm"):
        folder.add_trial(trained(similarity), noisy_queries((0.5, 0.3)))
    assert set(export_all(folder.store, folder.record()).metrics) == {
        *(f"{name}/in_domain/minilm-3l/finetune/qnorm" for name in ("gain", "gain_low", "gain_high")),
    }


def test_where_there_is_no_room_for_all_the_primary_groups_stay(tmp_path):
    groups = [f"g{number}" for number in range(50)]
    folder = SweepFolder(
        store=open_store(str(tmp_path)),
        evaluations=tuple(evaluation(name, name) for name in groups),
        primary_groups=("g49", "g48"),
    )
    for similarity in ("cosine", "qnorm"):
        folder.add_trial(trained(similarity), lambda *_, s=similarity: [0.3, 0.5 if s == "qnorm" else 0.4, 0.2])
    metrics = export_all(folder.store, folder.record()).metrics
    shown = [name.split("/")[1] for name in metrics if name.startswith("gain/")]
    assert shown[:3] == ["g48", "g49", "g0"]
    assert len(shown) == 40
    assert {name.split("/")[1] for name in metrics if name.startswith("gain_low/")} == {"g48", "g49", "g0", "g1"}
