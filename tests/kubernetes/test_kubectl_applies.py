"""What is rendered, as kubectl brings it to a real API server; and brought once more while the sweep runs."""

import subprocess

import pytest
from overlays import kubectl

pytestmark = pytest.mark.slow

JOB = "/apis/ray.io/v1/namespaces/{}/rayjobs/tiny"
MERGE = "application/merge-patch+json"


def applied(user, folder, *options):
    # kubectl holds objects against the schemas of a newer API than 1.20 serves; the server itself looks all the same.
    command = [
        kubectl(),
        "apply",
        "--kubeconfig",
        str(user.kubeconfig),
        "--validate=false",
        *options,
        "-f",
        str(folder),
    ]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["by-the-client", "by-the-server"])
def test_rendered_files_are_applied_and_again_change_nothing(user, server, write_sweep, tmp_path, options):
    rendered = user.run("k8s", "render", str(write_sweep()), "-o", str(tmp_path / "made"))
    assert rendered.returncode == 0, rendered.stderr
    for _ in range(2):
        done = applied(user, tmp_path / "made", *options)
        assert done.returncode == 0, done.stderr
    first = server.request("GET", JOB.format(user.namespace))
    assert first["metadata"]["generation"] == 1
    assert server.request("GET", f"/api/v1/namespaces/{user.namespace}/configmaps/tiny-sweep")["kind"] == "ConfigMap"


def test_one_that_its_queue_has_let_in_is_not_suspended_by_applying_it_again(user, server, write_sweep, tmp_path):
    user.run("k8s", "render", str(write_sweep(cluster={"queue": "sweeps"})), "-o", str(tmp_path / "made"))
    assert applied(user, tmp_path / "made", "--server-side").returncode == 0
    path = JOB.format(user.namespace)
    assert server.request("GET", path)["spec"]["suspend"] is True
    let_in = server.request("PATCH", f"{path}?fieldManager=kueue", {"spec": {"suspend": False}}, kind=MERGE)
    assert let_in["spec"]["suspend"] is False
    again = applied(user, tmp_path / "made", "--server-side")
    assert again.returncode != 0
    assert 'conflict with "kueue"' in again.stderr
    assert ".spec.suspend" in again.stderr
    assert server.request("GET", path)["spec"]["suspend"] is False
