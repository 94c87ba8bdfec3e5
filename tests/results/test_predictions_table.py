"""Table `predictions`: a row for each predictor and probe, those without rows included, whatever was trained."""

import pytest

from results.collect import collect
from results.layout import probe_prefix, spec_key
from results.predictions import PREDICTORS
from results.selection import SelectionError
from results.store import open_store
from results.tables import TABLES, applicable
from results.tables.table import TableOptions
from search_spaces.specs import to_json
from tests.results.builders import SweepFolder, probe


@pytest.fixture
def folder(tmp_path):
    """A sweep that evaluates nothing."""
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=())


def build(folder, **where):
    return TABLES["predictions"].build(collect(folder.store, folder.record()), TableOptions(where=where))


def calls(table):
    rows = table.rows.filter(table.rows["predictor"] == "fisher_condition")
    return {(row["regime"], row["scale"]): row["call"] for row in rows.iter_rows(named=True)}


def test_calls_stand_without_any_trial(folder):
    folder.add_probe(probe(), {16: -0.2, 32: -0.12}, softmax={"saturated_share": (0.5, 0.25)})
    folder.add_probe(probe(init_regime="random", seed=1), {16: 0.2, 32: 0.12})
    folder.add_probe(probe(scale_mode="matched"), {16: 0.2, 32: -0.12})
    table = build(folder)
    assert applicable(folder.record()) == ("predictions", "cost", "missing")
    assert calls(table) == {
        ("finetune", "fixed(20)"): "qnorm",
        ("random (seed 1)", "fixed(20)"): "dnorm",
        ("finetune", "matched(20)"): "undecided",
    }
    first = table.rows.row(0, named=True)
    assert (first["qnorm_saturated_share"], first["dnorm_saturated_share"]) == (0.5, 0.25)
    assert (first["difference_min"], first["difference_max"]) == pytest.approx((-0.2, -0.12))
    assert (first["low"], first["high"]) == pytest.approx((-0.25, -0.07))
    assert set(table.rows["predictor"]) == {"fisher_condition"}  # of the others the probes have no rows
    assert table.rows.height == 3
    assert table.holes == ()
    predictor = PREDICTORS["fisher_condition"]
    [note] = [note for note in table.notes if note.startswith("fisher_condition ")]
    assert all(said in note for said in (predictor.rule, predictor.source, predictor.needs, predictor.costs))


@pytest.mark.parametrize("has_spec", [True, False])
def test_a_probe_without_rows_is_a_row_without_a_call_and_a_hole(folder, has_spec):
    folder.add_probe(probe(), {16: -0.2, 32: -0.12})
    failed = probe(init_regime="random", seed=1)
    folder.fail_probe(failed, "out of memory")
    if has_spec:
        folder.store.write(spec_key(probe_prefix(folder.probes[-1].trial_id)), to_json(failed).encode())
    table = build(folder)
    [hole] = table.holes
    assert "out of memory" in hole
    absent = table.rows.filter(table.rows["call"].is_null())
    assert set(absent["predictor"]) == {"fisher_condition"}
    assert set(absent["reason"]) == {"failed: out of memory"}
    assert set(absent["training_data"]) == ({"attack"} if has_spec else {None})


def test_a_choice_takes_probes_by_what_they_have(folder):
    folder.add_probe(probe(), {16: -0.2, 32: -0.12})
    folder.add_probe(probe(scale=10.0), {16: 0.2, 32: 0.12})
    assert calls(build(folder, scale_value="10")) == {("finetune", "fixed(10)"): "dnorm"}
    assert len(calls(build(folder, similarity="qnorm", seed="none"))) == 2
    with pytest.raises(SelectionError, match=r"no probe has it \(there are: minilm\)"):
        build(folder, family="bert")
