"""Calls by scale and over seeds: counts, agreement and spread by hand."""

import numpy as np
import polars as pl
import pytest

from results.collect import collect
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, probe, trained, two_queries


@pytest.fixture
def folder(tmp_path):
    data = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=data)


def train(folder, **cell):
    for similarity, value in (("qnorm", 0.4), ("dnorm", 0.3)):
        folder.add_trial(trained(similarity, **cell), two_queries((0.5, value)))


def rows_of(folder):
    return TABLES["fisher_calls"].build(collect(folder.store, folder.record()), TableOptions()).rows


def test_seeds_of_random_weights_are_one_row_with_their_agreement_and_spread(folder):
    differences = {0: -0.3, 1: -0.2, 2: 0.01, 3: 0.4}
    for seed, difference in differences.items():
        train(folder, init_regime="random", seed=seed)
        folder.add_probe(probe(init_regime="random", seed=seed), {8: difference, 16: difference + 0.02})
    [row] = rows_of(folder).iter_rows(named=True)
    counted = [row[name] for name in ("num_probes", "num_qnorm", "num_dnorm", "num_undecided", "num_unknown")]
    assert counted == [4, 2, 1, 1, 0]
    assert (row["answer"], row["agreement"]) == ("qnorm", 0.5)
    assert (row["difference_min"], row["difference_max"]) == pytest.approx((-0.3, 0.42))
    assert row["spread"] == pytest.approx(np.std([d + 0.01 for d in differences.values()], ddof=1))
    assert row["across_scales"] is None
    assert len(row["probe_ids"].split("; ")) == 4


@pytest.mark.parametrize(("matched", "across"), [(-0.3, "same"), (0.01, "differs"), (0.3, "differs")])
def test_both_scales_stand_side_by_side_with_what_is_saturated(folder, matched, across):
    for mode, difference, saturated in (("fixed", -0.2, (0.6, 0.5)), ("matched", matched, (0.1, 0.2))):
        train(folder, scale_mode=mode)
        train(folder, scale_mode=mode, family="bert")
        folder.add_probe(probe(scale_mode=mode), {16: difference}, softmax={"saturated_share": saturated})
        folder.add_probe(probe(scale_mode=mode, family="bert"), {16: -0.2}, softmax={"saturated_share": saturated})
    rows = rows_of(folder)
    assert rows.select("family", "scale").rows() == [
        ("minilm", "fixed(20)"),
        ("minilm", "matched(20)"),
        ("bert", "fixed(20)"),
        ("bert", "matched(20)"),
    ]
    assert rows["across_scales"].to_list() == [across, across, "same", "same"]
    shares = rows.select("qnorm_saturated_share", "dnorm_saturated_share").rows()
    assert shares == [(0.6, 0.5), (0.1, 0.2)] * 2


def test_a_probe_that_is_missing_is_counted_as_unknown_and_has_no_answer(folder):
    train(folder)
    folder.fail_probe(probe(), "out of memory")
    rows = rows_of(folder)
    assert set(rows["num_unknown"]) == {1}
    assert rows["answer"].null_count() == rows.height
    assert rows["agreement"].null_count() == rows.height


def test_each_group_counts_its_call_once(folder):
    train(folder)
    folder.add_probe(probe(), {16: -0.2})
    assert rows_of(folder).filter(pl.col("predictor") == "fisher_condition")["num_probes"].to_list() == [1]
