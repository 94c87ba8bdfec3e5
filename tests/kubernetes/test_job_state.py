"""A RayJob's two states, which may disagree, and what a person is told."""

import pytest

from orchestrator.kubernetes.job_state import state_of


def rayjob(deployment="", job="", spec=None, **status):
    metadata = {"name": "tiny", "uid": "u", "resourceVersion": "7"}
    return {
        "metadata": metadata,
        "spec": spec or {},
        "status": {"jobDeploymentStatus": deployment, "jobStatus": job, **status},
    }


@pytest.mark.parametrize(
    ("deployment", "job", "outcome"),
    [
        ("", "", None),
        ("Running", "RUNNING", None),
        ("Running", "SUCCEEDED", None),  # its submitter has not ended yet
        ("Running", "FAILED", None),  # may be tried again
        ("Retrying", "FAILED", None),
        ("Suspended", "", None),
        ("Complete", "SUCCEEDED", "succeeded"),
        ("Complete", "STOPPED", "stopped"),
        ("Complete", "RUNNING", "failed"),
        ("Failed", "FAILED", "failed"),
        ("Failed", "SUCCEEDED", "failed"),
        ("Failed", "RUNNING", "failed"),
    ],
)
def test_only_what_kuberay_is_done_with_has_an_outcome(deployment, job, outcome):
    assert state_of(rayjob(deployment, job)).outcome == outcome


def test_states_that_cannot_both_be_right_are_pointed_out():
    assert "Ray said RUNNING" in state_of(rayjob("Failed", "RUNNING")).disagreement
    assert "the sweep is finished" in state_of(rayjob("Failed", "SUCCEEDED")).disagreement
    for agreeing in (("Complete", "SUCCEEDED"), ("Failed", "FAILED"), ("Running", "RUNNING")):
        assert state_of(rayjob(*agreeing)).disagreement is None


def test_both_states_tries_and_reasons_are_shown():
    told = rayjob("Failed", "FAILED", spec={"backoffLimit": 2}, failed=3, reason="AppFailed", message="exit\n code 1")
    assert str(state_of(told)) == "Failed, Ray's job FAILED, 3 of 3 tries failed (AppFailed, exit code 1)"
    assert str(state_of({"metadata": told["metadata"]})) == "New"
