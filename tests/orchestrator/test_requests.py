"""What fits a cluster's nodes, what is lacking otherwise, and how long it is waited for."""

import pytest

from orchestrator.patience import Patience
from orchestrator.requests import Request, groups_at_once, lacking, request_of, request_of_probe
from search_spaces.schema import ProbeResourcesBlock, ResourcesBlock

SMALL = {"CPU": 2.0, "memory": 4 * 2**30, "object_store_memory": 1e9}
A100 = {"CPU": 8.0, "GPU": 2.0, "memory": 64 * 2**30, "accelerator_type:A100": 1.0}


@pytest.mark.parametrize(
    ("nodes", "request_", "num_processes", "expected"),
    [
        ([SMALL], Request(cpus=2), 1, None),
        (
            [SMALL, SMALL],
            Request(cpus=4),
            1,
            "a trial needs 4 CPUs on one node, but no node has that: 2 nodes with 2 CPUs",
        ),
        ([SMALL, SMALL], Request(cpus=2), 2, None),  # a process on each
        (
            [SMALL, A100],
            Request(cpus=1, gpus=1),
            3,
            "a trial needs 1 CPU and 1 GPU for each of 3 processes, but the nodes have no room for that: "
            "1 node with 2 CPUs and no GPU; 1 node with 8 CPUs and 2 GPUs (A100)",
        ),
        ([A100], Request(cpus=1, gpus=0.3333), 6, None),
        ([A100], Request(cpus=1, gpus=1, accelerator_type="A100"), 2, None),
        (
            [SMALL, A100],
            Request(cpus=1, gpus=1, accelerator_type="H100"),
            1,
            "a trial needs 1 CPU and 1 GPU (H100) on one node, but no node has that: "
            "1 node with 2 CPUs and no GPU; 1 node with 8 CPUs and 2 GPUs (A100)",
        ),
        (
            [SMALL],
            Request(cpus=1, memory_bytes=8 * 2**30),
            1,
            "a trial needs 1 CPU and 8.0 GiB of memory on one node, but no node has that: "
            "1 node with 2 CPUs and 4.0 GiB of memory",
        ),
        ([], Request(cpus=1), 1, "a trial needs 1 CPU on one node, but no node has that: there are no nodes"),
    ],
)
def test_what_can_never_be_placed_is_told(nodes, request_, num_processes, expected):
    assert lacking(nodes, request_, num_processes=num_processes) == expected


@pytest.mark.parametrize(
    ("nodes", "request_", "num_processes", "at_once", "expected"),
    [
        ([{"CPU": 8.0}], Request(cpus=2), 2, None, 2),
        ([{"CPU": 7.0}], Request(cpus=2), 2, None, 1),
        ([{"CPU": 3.0}] * 4, Request(cpus=2), 2, None, 2),  # a process is on one node: each has room for one
        ([{"CPU": 64.0, "GPU": 8.0}], Request(cpus=2, gpus=1), 4, None, 2),
        ([{"CPU": 64.0, "GPU": 8.0}], Request(cpus=2, gpus=1), 2, 3, 3),
        ([{"CPU": 3.0}], Request(cpus=1), 4, None, 1),
    ],
)
def test_no_more_trials_begin_than_their_processes_fit(nodes, request_, num_processes, at_once, expected):
    assert groups_at_once(nodes, request_, num_processes=num_processes, at_once=at_once) == expected


@pytest.mark.parametrize(("nodes", "at_once", "expected"), [([], None, 4), ([], 3, 3), ([{"CPU": 12.0}], None, 6)])
def test_on_a_cluster_that_grows_as_many_begin_as_will_fit(nodes, at_once, expected):
    assert groups_at_once(nodes, Request(cpus=1), num_processes=2, at_once=at_once, foreseen=4) == expected


def test_a_trial_is_given_what_the_file_says():
    asked = {"cpus": 2, "gpus": "1/3", "memory": "4GiB", "accelerator_type": "A100"}
    request = request_of(ResourcesBlock.model_validate(asked))
    bundle = {"CPU": 2.0, "GPU": pytest.approx(1 / 3, abs=1e-4), "memory": 4.0 * 2**30, "accelerator_type:A100": 0.001}
    assert request.bundle == bundle
    assert request.options == {
        "num_cpus": 2,
        "num_gpus": request.gpus,
        "memory": 4 * 2**30,
        "accelerator_type": "A100",
    }
    assert lacking([A100 | {"GPU": 1.0}], request) is None
    assert groups_at_once([A100 | {"GPU": 1.0}], request, num_processes=1, at_once=None) == 3
    assert request_of(ResourcesBlock()).bundle == {"CPU": 1.0}


@pytest.fixture
def cluster():
    """Nodes that come and go, a clock to be set, and what was said."""

    class Cluster:
        def __init__(self):
            self.nodes, self.now, self.said = [], 0.0, []

        def patience(self, timeout_s):
            return Patience(
                Request(cpus=4),
                timeout_s=timeout_s,
                nodes=lambda: self.nodes,
                say=self.said.append,
                clock=lambda: self.now,
            )

    return Cluster()


def test_a_wait_ends_when_its_time_is_over(cluster):
    patience = cluster.patience(10)
    assert patience.ran_out() is None
    assert cluster.said == [
        "Waiting for at most 10 s: a trial needs 4 CPUs on one node, but no node has that: there are no nodes"
    ]
    cluster.now = 9.9
    assert patience.ran_out() is None
    cluster.now = 10
    assert "there are no nodes" in patience.ran_out()
    assert len(cluster.said) == 1


def test_a_node_that_comes_in_time_ends_the_wait_and_one_that_goes_begins_another(cluster):
    patience = cluster.patience(10)
    assert patience.ran_out() is None
    cluster.nodes, cluster.now = [{"CPU": 4.0}], 9
    assert patience.ran_out() is None
    cluster.nodes, cluster.now = [], 20
    assert patience.ran_out() is None
    cluster.now = 30
    assert patience.ran_out()
    assert len(cluster.said) == 2


def test_where_no_node_can_come_there_is_no_wait(cluster):
    assert cluster.patience(0).ran_out()
    assert cluster.said == []


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, Request(cpus=4, gpus=1, memory_bytes=2**33, accelerator_type="A100")),
        ({"cpus": 2, "gpus": 0}, Request(cpus=2, memory_bytes=2**33)),
        ({"gpus": "1/2"}, Request(cpus=4, gpus=0.5, memory_bytes=2**33, accelerator_type="A100")),
    ],
)
def test_a_probe_is_given_what_is_its_own_and_else_what_a_trial_is(own, expected):
    trial = ResourcesBlock.model_validate({"cpus": 4, "gpus": 1, "memory": "8GiB", "accelerator_type": "A100"})
    assert request_of_probe(ProbeResourcesBlock.model_validate(own), trial) == expected
