"""How many CPUs there are to give."""

import os

import pytest

from orchestrator.machine import available_cpus


@pytest.mark.parametrize(("quota", "cpus"), [("max 100000", 10**6), ("50000 100000", 1), ("100000 100000", 1)])
def test_a_containers_quota_counts(tmp_path, quota, cpus):
    (tmp_path / "cpu.max").write_text(quota)
    assert available_cpus(tmp_path / "cpu.max") == min(cpus, len(os.sched_getaffinity(0)))


def test_without_a_quota_the_affinity_counts(tmp_path):
    assert available_cpus(tmp_path / "absent") == len(os.sched_getaffinity(0))
