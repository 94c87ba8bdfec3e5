"""What clusters are set up with: built by kubectl, valid for Kubernetes, without rights, fitting to the profiles."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from decimal import Decimal

import kubernetes_validate
import pytest
import yaml
from overlays import K8S, OVERLAYS, built, named, pod_specs

from orchestrator.kubernetes.pods import USER
from orchestrator.kubernetes.quantities import number_of
from orchestrator.kubernetes.render import rendered
from search_spaces.load import load_profile

PROFILES = {"dev": ("local",), "cpu": ("cpu",), "gpu-spot": ("gpu-spot", "gpu"), "kueue": ("kueue",)}
PAIRS = [(overlay, profile) for overlay, profiles in PROFILES.items() for profile in profiles]
DEMO = K8S.parent / "search_spaces" / "demo.yaml"
CORE_VERSION = "1.34"
OF_OTHERS = "kueue.x-k8s.io/"  # Kubernetes itself knows no such kinds
README = (K8S / "README.md").read_text()
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
HOSTS = ("mlflow:5000", "mlflow.densesweep.svc:5000", "localhost:5000")
DEADLINE_S = 240


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_what_kubernetes_says(overlay):
    kinds = Counter()
    for manifest in built(overlay):
        kinds[manifest["kind"]] += 1
        if manifest["apiVersion"].startswith(OF_OTHERS):
            continue
        kubernetes_validate.validate(manifest, CORE_VERSION, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError, match="misspelt"):
            kubernetes_validate.validate({**manifest, "misspelt": 1}, CORE_VERSION, strict=True)
    assert {"Namespace", "NetworkPolicy", "ResourceQuota", "Role", "StatefulSet", "Deployment", "Job"} <= set(kinds)


def test_every_component_and_overlay_is_tried():
    assert sorted(PROFILES) == OVERLAYS
    used = {
        path.rsplit("/", 1)[-1]
        for overlay in OVERLAYS
        for path in yaml.safe_load((K8S / "overlays" / overlay / "kustomization.yaml").read_text())["components"]
    }
    assert used == {path.name for path in (K8S / "components").iterdir()}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_object_is_outside_the_namespaces_that_the_overlay_makes(overlay):
    made = {one["metadata"]["name"] for one in built(overlay) if one["kind"] == "Namespace"}
    of_cluster = {"Namespace", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass"}
    for one in built(overlay):
        assert one["kind"] in of_cluster or one["metadata"].get("namespace") in made, one["metadata"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_has_rights_and_all_ask_for_what_they_may_use(overlay):
    specs = pod_specs(built(overlay))
    assert specs
    for pod, spec in specs.items():
        security = spec["securityContext"]
        assert security["runAsNonRoot"], pod
        assert security["runAsUser"] > 0, pod
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, pod
        assert spec["automountServiceAccountToken"] is False, pod
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), pod
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
            }, pod
            assert container["resources"]["requests"] == container["resources"]["limits"], pod
            assert {"cpu", "memory"} <= set(container["resources"]["limits"]), pod
            tag = container["image"].partition(":")[2]
            assert tag, f"{pod}: {container['image']} has no tag"
            assert tag != "latest", pod
            if not pod.startswith("Job/"):
                assert set(PROBES) <= set(container), pod


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_the_shipper_of_logs_sees_a_node(overlay):
    for pod, spec in pod_specs(built(overlay)).items():
        paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
        assert paths == ({"/var/log"} if pod == "DaemonSet/log-shipping" else set())
        mounted = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        assert all(mounted[v["name"]]["readOnly"] for v in spec["volumes"] if "hostPath" in v), pod
    enforced = {
        one["metadata"]["name"]: one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for one in built(overlay)
        if one["kind"] == "Namespace"
    }
    assert enforced["densesweep"] == "restricted"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_secret_is_in_the_files_and_the_page_says_how_each_is_made(overlay):
    assert not [one for one in built(overlay) if one["kind"] == "Secret"]
    text = yaml.safe_dump_all(built(overlay))
    referred = set(re.findall(r"secretKeyRef:\n\s+key: \S+\n\s+name: (\S+)", text))
    referred |= set(re.findall(r"secretRef:\n\s+name: (\S+)", text))
    assert "mlflow-postgres" in referred
    for name in referred:
        assert f"kubectl create secret generic {name} -n densesweep" in README


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_network_is_closed_but_for_named_ways(overlay):
    policies = [one for one in built(overlay) if one["kind"] == "NetworkPolicy"]
    closed = named(built(overlay), "NetworkPolicy", "deny-all")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for policy in policies:
        for way in [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]:
            peers = way.get("from", way.get("to"))
            assert peers, f"{policy['metadata']['name']} opens a way for everybody"
            assert "ports" in way or peers == [{"podSelector": {}}]


@pytest.mark.parametrize(("overlay", "profile"), PAIRS)
def test_a_profile_finds_in_its_overlay_what_it_names(overlay, profile):
    manifests, cluster = built(overlay), load_profile(K8S / "profiles" / f"{profile}.yaml")
    job = rendered(DEMO, profile=profile)[-1]
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    assert job["metadata"]["namespace"] == named(manifests, "Namespace", "densesweep")["metadata"]["name"]
    assert named(manifests, "ServiceAccount", head["spec"]["serviceAccountName"])
    if cluster.mlflow:
        host = cluster.mlflow.removeprefix("http://")
        assert named(manifests, "Service", host.partition(".")[0])["spec"]["ports"][0]["port"] == 5000
        assert host in _allowed_hosts(manifests)
    if cluster.storage.claim:
        assert named(manifests, "PersistentVolumeClaim", cluster.storage.claim)
    if cluster.queue:
        assert named(manifests, "LocalQueue", cluster.queue)
        assert named(manifests, "WorkloadPriorityClass", cluster.queue_priority)
    for policy in ("operator-to-head", "sweeps-to-https"):
        wanted = named(manifests, "NetworkPolicy", policy)["spec"]["podSelector"]["matchLabels"]
        of_head = {**head["metadata"]["labels"], "ray.io/node-type": "head"}  # which KubeRay adds
        assert wanted.items() <= of_head.items()


@pytest.mark.parametrize(("overlay", "profile"), PAIRS)
def test_a_profile_at_its_largest_is_within_the_quota_of_its_overlay(overlay, profile):
    asked = _asked_by_sweep(profile)
    alone = dict(asked)
    for one in built(overlay):
        if one["metadata"].get("namespace") == "densesweep" and "template" in one.get("spec", {}):
            _add(asked, one["spec"]["template"]["spec"], one["spec"].get("replicas", 1))
    hard = named(built(overlay), "ResourceQuota", "sweeps")["spec"]["hard"]
    for resource, key in (("cpu", "requests.cpu"), ("memory", "requests.memory"), ("pods", "pods")):
        assert asked[resource] <= number_of(hard[key]), f"{key}: {asked[resource]} are asked for"
    assert asked["nvidia.com/gpu"] <= number_of(hard["requests.nvidia.com/gpu"])
    if overlay == "kueue":
        [group] = named(built(overlay), "ClusterQueue", "sweeps")["spec"]["resourceGroups"]
        shared = {one["name"]: number_of(one["nominalQuota"]) for one in group["flavors"][0]["resources"]}
        assert set(shared) == set(group["coveredResources"])
        assert all(alone.get(name, 0) <= number for name, number in shared.items())


def _asked_by_sweep(profile):
    """What all pods of a sweep ask for together, when each group is as large as it gets."""
    job = rendered(DEMO, profile=profile)[-1]["spec"]
    cluster, asked = job["rayClusterSpec"], Counter()
    _add(asked, cluster["headGroupSpec"]["template"]["spec"])
    for group in cluster["workerGroupSpecs"]:
        _add(asked, group["template"]["spec"], group["maxReplicas"])
    if "submitterPodTemplate" in job:
        _add(asked, job["submitterPodTemplate"]["spec"])
    if "autoscalerOptions" in cluster:
        _add_requests(asked, cluster["autoscalerOptions"]["resources"]["requests"])
    return asked


def _add(asked, spec, times=1):
    asked["pods"] += times
    for container in spec["containers"]:
        _add_requests(asked, container["resources"]["requests"], times)


def _add_requests(asked, requests, times=1):
    for name, quantity in requests.items():
        asked[name] += times * (number_of(quantity) or Decimal(0))


def test_what_writes_as_the_images_user_may_write_to_its_claim():
    for pod in ("Deployment/mlflow", "Job/mlflow-migration"):
        security = pod_specs(built("cpu"))[pod]["securityContext"]
        assert (security["runAsUser"], security["fsGroup"]) == (USER, USER)


def test_the_page_names_every_part():
    for folder in ("overlays", "components", "profiles"):
        for path in (K8S / folder).iterdir():
            assert re.search(rf"\b{path.stem}`", README), f"{folder}/{path.stem} is not in k8s/README.md"
    for path in re.findall(r"k8s/(?:overlays|base|components)[/\w-]*", README):
        assert (K8S.parent / path).exists(), path


def _command(pod, overlay="cpu"):
    [container] = pod_specs(built(overlay))[pod]["containers"]
    return container["command"]


def _allowed_hosts(manifests):
    [container] = pod_specs(manifests)["Deployment/mlflow"]["containers"]
    [option] = [part for part in container["command"] if part.startswith("--allowed-hosts=")]
    return option.partition("=")[2].split(",")


@pytest.fixture(scope="module")
def tracking_server(tmp_path_factory):
    """The MLflow server with the manifest's command, after its migration job's, on a database of its own."""
    folder = tmp_path_factory.mktemp("mlflow")
    database = f"sqlite:///{folder}/runs.db"
    environment = {**os.environ, "MLFLOW_BACKEND_STORE_URI": database, "MLFLOW_DISABLE_TELEMETRY": "true"}
    program = [sys.executable, "-m", "mlflow"]
    migration = [database if part.startswith("$(") else part for part in _command("Job/mlflow-migration")[1:]]
    subprocess.run([*program, *migration], check=True, cwd=folder, env=environment, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    changed = {"--host": "127.0.0.1", "--port": str(port), "--artifacts-destination": str(folder), "--workers": "1"}
    options = [part.partition("=") for part in _command("Deployment/mlflow")[1:]]
    arguments = [f"{name}={changed.get(name, value)}" if sign else name for name, sign, value in options]
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen(
        [*program, *arguments], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield f"http://127.0.0.1:{port}", process, folder / "server.log"
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def _status(url, host):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
def test_the_tracking_server_takes_requests_under_its_names_alone(tracking_server):
    url, process, log = tracking_server
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            healthy = _status(f"{url}/health", "localhost:5000")  # as the probes ask
            break
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.2)
    assert healthy == 200
    search = f"{url}/api/2.0/mlflow/experiments/search?max_results=1"
    assert [_status(search, host) for host in HOSTS] == [200] * len(HOSTS)
    assert [_status(search, host) for host in ("evil.example", "mlflow.evil.example:5000")] == [403, 403]
