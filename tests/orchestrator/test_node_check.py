"""A node that trials cannot run on says why."""

from orchestrator.node_check import node_problem, versions
from results.layout import SWEEP_RECORD
from results.store import open_store


def test_a_node_that_has_all_is_fine(tmp_path):
    open_store(str(tmp_path)).write(SWEEP_RECORD, b"{}")
    assert node_problem(str(tmp_path), versions()) is None


def test_a_node_that_does_not_see_the_sweep_folder_says_so(tmp_path):
    problem = node_problem(str(tmp_path / "absent"), versions())
    assert problem.startswith(f"the sweep folder {tmp_path / 'absent'} is not there")
    assert not (tmp_path / "absent").exists()


def test_a_node_with_another_densesweep_says_in_what(tmp_path):
    problem = node_problem(str(tmp_path), versions() | {"trainings": "999"})
    assert problem == f"its densesweep is not that of the driver: trainings {versions()['trainings']} instead of 999"
