"""Ray's own autoscaler, given a rendered cluster, counts on the nodes that the sweep was checked against."""

import pytest
from ray.autoscaler._private.kuberay.autoscaling_config import (  # noqa: TID251 -- what runs in the head's pod
    _derive_autoscaling_config_from_ray_cr,
)
from samples import NAMES, PROJECT

from orchestrator.kubernetes.ray_cluster import worker_node
from orchestrator.kubernetes.render import rendered
from orchestrator.kubernetes.settings import profile_path
from search_spaces.load import load_profile


@pytest.mark.parametrize("profile", NAMES)
def test_it_counts_what_was_checked(profile):
    job = rendered(PROJECT / "search_spaces" / "demo.yaml", profile=profile)[-1]
    cluster = {"metadata": {"name": "demo-abcde", "namespace": "sweeps"}, "spec": job["spec"]["rayClusterSpec"]}
    read = _derive_autoscaling_config_from_ray_cr(cluster)
    groups = load_profile(profile_path(profile)).workers
    head = read["available_node_types"].pop(read["head_node_type"])
    assert head["resources"]["CPU"] == 0
    assert set(read["available_node_types"]) == set(groups)
    assert read["max_workers"] == sum(group.max for group in groups.values())
    for name, group in groups.items():
        node = read["available_node_types"][name]
        counted = {key: number for key, number in node["resources"].items() if number}
        assert counted == {key: number for key, number in worker_node(group).items() if number}
        assert node["max_workers"] == group.max
        assert node["min_workers"] == (group.min if "autoscalerOptions" in cluster["spec"] else group.max)


def test_it_ends_pods_that_were_idle_for_so_long():
    cluster = rendered(PROJECT / "search_spaces" / "demo.yaml", profile="gpu")[-1]["spec"]["rayClusterSpec"]
    read = _derive_autoscaling_config_from_ray_cr({"metadata": {"name": "a", "namespace": "b"}, "spec": cluster})
    assert read["idle_timeout_minutes"] == pytest.approx(300 / 60)
