"""The commands against a real API server, where the tests say what KubeRay would."""

import json
import re

import pytest
import yaml
from api_server import ApiServer
from cluster_users import User, sweep_content

from orchestrator.kubernetes.api import connect
from orchestrator.kubernetes.doctor import NEEDED
from orchestrator.kubernetes.render import rendered
from orchestrator.kubernetes.submit import tried
from search_spaces.problems import InputError

pytestmark = pytest.mark.slow

JOBS = "/apis/ray.io/v1/namespaces/{}/rayjobs"
MERGE = "application/merge-patch+json"
TOKEN = "the-administrator"


class Cluster:
    """The objects of one namespace, as the administrator sees and sets them."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server, self.namespace = server, namespace

    def job(self, name="tiny"):
        return self.server.request("GET", f"{JOBS.format(self.namespace)}/{name}")

    def jobs(self):
        return [job["metadata"]["name"] for job in self.server.request("GET", JOBS.format(self.namespace))["items"]]

    def config_map(self, name="tiny-sweep"):
        return self.server.request("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")

    def set_status(self, name="tiny", **status):
        path = f"{JOBS.format(self.namespace)}/{name}/status"
        answer = self.server.request("PATCH", path, {"status": status}, kind=MERGE)
        assert answer["kind"] == "RayJob", answer["message"]

    def add_pod(self, name, labels, container=None, **status):
        spec = {"containers": [{"name": "ray-worker", "image": "registry.example/none:1", **(container or {})}]}
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        metadata = {"name": name, "labels": {"app.kubernetes.io/instance": "tiny", **labels}}
        self.server.create(path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        answer = self.server.request("PATCH", f"{path}/{name}/status", {"status": status}, kind=MERGE)
        assert answer["kind"] == "Pod", answer


@pytest.fixture
def cluster(server, namespace):
    return Cluster(server, namespace)


def succeeded(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(done):
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert all(line.startswith("error: ") for line in lines), done.stderr
    return lines


def test_submit_applies_what_render_prints(user: User, cluster, write_sweep):
    file = write_sweep()
    rendered = {one["kind"]: one for one in yaml.safe_load_all(succeeded(user.run("k8s", "render", str(file))))}
    told = succeeded(user.run("k8s", "submit", str(file)))
    assert f"RayJob tiny is submitted to namespace {user.namespace}" in told

    job = cluster.job()
    for key, value in rendered["RayJob"]["spec"].items():
        if key != "rayClusterSpec" and key != "submitterPodTemplate":
            assert job["spec"][key] == value
    assert rendered["RayJob"]["metadata"]["labels"].items() <= job["metadata"]["labels"].items()
    [entry] = job["metadata"]["managedFields"]
    assert entry["operation"] == "Apply"
    assert entry["manager"].startswith("densesweep-")
    assert cluster.config_map()["data"]["sweep.yaml"] == file.read_text()
    [owner] = cluster.config_map()["metadata"]["ownerReferences"]
    assert owner["uid"] == job["metadata"]["uid"]


def test_dry_runs_keep_nothing(user: User, cluster, write_sweep):
    file = str(write_sweep())
    assert "RayJob tiny in namespace" in succeeded(user.run("k8s", "submit", file, "--dry-run=client"))
    told = succeeded(user.run("k8s", "submit", file, "--dry-run=server"))
    assert "RayJob tiny" in told
    assert "would be created" in told
    assert cluster.jobs() == []
    assert cluster.config_map()["code"] == 404


def test_what_the_server_refuses_is_told_one_by_one(user: User, cluster, tmp_path, monkeypatch):
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(sweep_content("tiny", user.namespace, tmp_path)))
    manifests = rendered(file)
    manifests[-1]["spec"]["backoffLimit"] = "three"
    manifests[-1]["spec"]["activeDeadlineSeconds"] = "long"
    monkeypatch.setenv("KUBECONFIG", str(user.kubeconfig))
    with pytest.raises(InputError) as caught:
        tried(connect(user.namespace), manifests)
    lines = sorted(str(problem) for problem in caught.value.problems)
    assert [line.partition(": ")[0] for line in lines] == ["RayJob tiny"] * 2
    assert ["spec.activeDeadlineSeconds" in lines[0], "spec.backoffLimit" in lines[1]] == [True, True], lines


def test_fields_that_an_older_kuberay_does_not_know_are_told_one_by_one(user: User, cluster, write_sweep, monkeypatch):
    manifests = rendered(write_sweep())
    manifests[-1]["spec"]["ofTomorrow"] = {"mode": "new"}
    manifests[-1]["spec"]["rayClusterSpec"]["headGroupSpec"]["tomorrow"] = "1"
    monkeypatch.setenv("KUBECONFIG", str(user.kubeconfig))
    with pytest.raises(InputError) as caught:
        tried(connect(user.namespace), manifests)
    told = "the cluster's KubeRay is older and does not know this field (`cluster.kuberay` says which it is, so that "
    assert sorted(str(problem) for problem in caught.value.problems) == [
        f"RayJob tiny: {field}: {told}what it lacks is refused by name)"
        for field in ("spec.ofTomorrow", "spec.rayClusterSpec.headGroupSpec.tomorrow")
    ]
    assert cluster.jobs() == []


def test_a_job_that_is_there_is_not_touched(user: User, cluster, write_sweep):
    file = write_sweep()
    succeeded(user.run("k8s", "submit", str(file)))
    cluster.set_status(jobDeploymentStatus="Running", jobStatus="RUNNING")
    before = cluster.job()
    [line] = refused(user.run("k8s", "submit", str(write_sweep(training={"steps": 5}))))
    assert "RayJob tiny: is there already: Running, Ray's job RUNNING (see how it goes with: densesweep k8s" in line
    assert cluster.job() == before


def test_of_two_submitters_at_once_one_wins_whole(user: User, cluster, write_sweep):
    files = [write_sweep(training={"steps": steps}) for steps in (4, 5, 6)]
    processes = [user.start("k8s", "submit", str(file)) for file in files]
    ended = [(process.communicate(timeout=120), process.returncode) for process in processes]
    winners = [file for file, (_, code) in zip(files, ended, strict=True) if code == 0]
    assert len(winners) == 1, ended
    for (_, err), code in ended:
        assert code == 0 or re.search(r"RayJob tiny: (was submitted by someone else just now|is there already)", err)
    assert cluster.config_map()["data"]["sweep.yaml"] == winners[0].read_text()
    [owner] = cluster.config_map()["metadata"]["ownerReferences"]
    assert owner["uid"] == cluster.job()["metadata"]["uid"]


def test_an_ended_job_is_replaced_and_the_sweep_goes_on(user: User, cluster, write_sweep):
    file = write_sweep()
    succeeded(user.run("k8s", "submit", str(file)))
    cluster.set_status(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    first = cluster.job()["metadata"]["uid"]
    longer = write_sweep(axes={"seed": [0, 1]})
    assert "RayJob tiny ended (Complete, Ray's job SUCCEEDED) and is replaced" in succeeded(
        user.run("k8s", "submit", str(longer))
    )
    assert cluster.job()["metadata"]["uid"] != first
    assert cluster.config_map()["data"]["sweep.yaml"] == longer.read_text()
    assert cluster.config_map()["metadata"]["ownerReferences"][0]["uid"] == cluster.job()["metadata"]["uid"]


def test_an_ended_job_of_another_folder_is_not_replaced(user: User, cluster, write_sweep):
    succeeded(user.run("k8s", "submit", str(write_sweep())))
    cluster.set_status(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    before = cluster.job()
    other = write_sweep(storage="s3://elsewhere/tiny")
    [line] = refused(user.run("k8s", "submit", str(other)))
    assert "is there already, of another sweep folder" in line
    assert cluster.job() == before


def test_cancel_suspends_and_resubmit_goes_on(user: User, cluster, write_sweep):
    succeeded(user.run("k8s", "submit", str(write_sweep())))
    cluster.set_status(jobDeploymentStatus="Running", jobStatus="RUNNING")
    told = succeeded(user.run("k8s", "cancel", "tiny", "-n", user.namespace))
    assert "is suspended: KubeRay ends its Ray cluster and keeps the RayJob" in told
    assert cluster.job()["spec"]["suspend"] is True
    uid = cluster.job()["metadata"]["uid"]
    cluster.set_status(jobDeploymentStatus="Suspended", jobStatus=None)
    assert "is suspended already" in succeeded(user.run("k8s", "cancel", "tiny"))
    [line] = refused(user.run("k8s", "submit", str(write_sweep())))
    assert "is suspended (to go on where it stopped: densesweep k8s resubmit tiny" in line
    assert "is no longer suspended" in succeeded(user.run("k8s", "resubmit", "tiny"))
    assert (cluster.job()["spec"]["suspend"], cluster.job()["metadata"]["uid"]) == (False, uid)
    [line] = refused(user.run("k8s", "submit", str(write_sweep())))
    cluster.set_status(jobDeploymentStatus="Running")
    [line] = refused(user.run("k8s", "resubmit", "tiny"))
    assert "RayJob tiny: has not ended: Running" in line


def test_resubmit_of_an_ended_job_makes_it_anew_with_the_same_folder(user: User, cluster, write_sweep):
    succeeded(user.run("k8s", "submit", str(write_sweep())))
    cluster.set_status(jobDeploymentStatus="Failed", jobStatus="FAILED", failed=2)
    before, text = cluster.job(), cluster.config_map()["data"]
    succeeded(user.run("k8s", "resubmit", "tiny"))
    after = cluster.job()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert (
        after["metadata"]["annotations"]["densesweep/storage"]
        == before["metadata"]["annotations"]["densesweep/storage"]
    )
    assert "status" not in after or after["status"].get("failed", 0) == 0
    assert cluster.config_map()["data"] == text
    assert cluster.config_map()["metadata"]["ownerReferences"][0]["uid"] == after["metadata"]["uid"]


def test_cancel_deletes_what_its_queue_would_start_again(user: User, cluster, write_sweep):
    succeeded(user.run("k8s", "submit", str(write_sweep(cluster={"queue": "gpus"}))))
    assert "it waits until queue 'gpus' lets it in" in succeeded(user.run("k8s", "status", "tiny"))
    told = succeeded(user.run("k8s", "cancel", "tiny"))
    assert "is deleted, not suspended, since its queue 'gpus' would start a suspended one again" in told
    assert cluster.jobs() == []


def test_a_name_that_is_not_there_is_told_with_those_that_are(user: User, cluster, write_sweep):
    for command in ("status", "logs", "cancel", "resubmit"):
        [line] = refused(user.run("k8s", command, "tiny"))
        assert "RayJob tiny: is not in namespace" in line
        assert "there is none at all" in line
    succeeded(user.run("k8s", "submit", str(write_sweep()), "--name", "other"))
    [line] = refused(user.run("k8s", "status", "tiny"))
    assert "there are: other" in line


def test_status_shows_each_pods_trouble_and_its_remedy(user: User, cluster, write_sweep):
    file = write_sweep()
    succeeded(user.run("k8s", "submit", str(file)))
    cluster.set_status(jobDeploymentStatus="Initializing", rayClusterName="tiny-abcde", jobId="tiny-12345")
    cluster.server.create(
        f"/apis/ray.io/v1/namespaces/{user.namespace}/rayclusters",
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "tiny-abcde"},
            "spec": cluster.job()["spec"]["rayClusterSpec"],
        },
    )
    path = f"/apis/ray.io/v1/namespaces/{user.namespace}/rayclusters/tiny-abcde/status"
    counts = {"desiredWorkerReplicas": 3, "readyWorkerReplicas": 1, "maxWorkerReplicas": 4}
    cluster.server.request("PATCH", path, {"status": counts}, kind=MERGE)
    worker = {"ray.io/cluster": "tiny-abcde", "ray.io/node-type": "worker", "ray.io/group": "cpu"}
    state = {"name": "ray-worker", "image": "registry.example/none:1", "imageID": "", "ready": False, "restartCount": 0}
    pull = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example/none:1"'}}
    cluster.add_pod("w-pull", worker, phase="Pending", containerStatuses=[{**state, "state": pull}])
    memory = {"resources": {"limits": {"memory": "3Gi"}}}
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    cluster.add_pod("w-memory", worker, memory, phase="Failed", containerStatuses=[{**state, "state": killed}])
    said = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {spot: true}."
    unplaced = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}]
    gpu = {"resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}
    cluster.add_pod("w-unplaced", worker, gpu, phase="Pending", conditions=unplaced)
    cluster.add_pod("w-of-before", {**worker, "ray.io/cluster": "tiny-zzzzz"}, phase="Pending", conditions=unplaced)

    told = succeeded(user.run("k8s", "status", str(file)))
    assert "RayJob tiny in namespace" in told
    assert "Initializing" in told
    assert "Ray cluster tiny-abcde: not ready; 1 of 3 workers ready, 4 at most" in told
    troubles = [line for line in told.splitlines() if line.startswith("trouble: ")]
    assert len(troubles) == 3, told
    assert re.search(r"pod w-memory: OOMKilled \(.*limit of 3Gi\): give its group more memory", troubles[0])
    assert re.search(r"pod w-pull: ImagePullBackOff .*the image cannot be pulled: registry.example/none:1", troubles[1])
    assert re.search(r"pod w-unplaced: Unschedulable .*no node has 1 nvidia.com/gpu free.*tolerations", troubles[2])
    assert "Progress is not shown: the sweep folder" in told

    view = json.loads(succeeded(user.run("k8s", "status", "tiny", "--json")))
    assert view["cluster"]["num_ready"] == 1
    assert {trouble["reason"] for trouble in view["troubles"]} == {"OOMKilled", "ImagePullBackOff", "Unschedulable"}


def test_watching_goes_on_when_the_api_server_comes_back(user: User, cluster, server, write_sweep):
    watcher = user.start("k8s", "submit", str(write_sweep()), "--watch")
    read_until(watcher, "RayJob tiny: New")
    cluster.set_status(jobDeploymentStatus="Initializing")
    read_until(watcher, "RayJob tiny: Initializing")
    server.stop()
    read_until(watcher, "does not answer")
    server.start()
    read_until(watcher, "the API server answers again")
    cluster.set_status(jobDeploymentStatus="Running", jobStatus="RUNNING")
    read_until(watcher, "RayJob tiny: Running, Ray's job RUNNING")
    cluster.set_status(jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed", message="exit code 1")
    out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 1, out + err
    assert "RayJob tiny ended: Failed, Ray's job FAILED (AppFailed, exit code 1)" in out


def test_each_line_of_the_driver_is_shown_once_over_a_cut(user: User, cluster, server, kubelet, write_sweep, tmp_path):
    succeeded(user.run("k8s", "submit", str(write_sweep())))
    cluster.set_status(jobDeploymentStatus="Running", jobStatus="RUNNING")
    pod = kubelet.pod(user.namespace, "tiny-submitter", cluster.job()["spec"]["submitterPodTemplate"], {})
    script = f"seq -f 'line %g' 100; until [ -e {tmp_path}/go ]; do sleep 0.1; done; seq -f 'line %g' 101 200"
    kubelet.start_command(pod, ["/bin/bash", "-c", script])
    watcher = user.start("k8s", "logs", "tiny", "--follow")
    shown = []
    while "line 100\n" not in shown:
        shown.append(watcher.stdout.readline())
        assert shown[-1], watcher.stderr.read()
    server.stop()
    server.start()
    (tmp_path / "go").touch()
    while "line 200\n" not in shown:
        shown.append(watcher.stdout.readline())
        assert shown[-1], watcher.stderr.read()
    pod.process.wait(timeout=60)
    kubelet.notice_end(pod)
    cluster.set_status(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    out, err = watcher.communicate(timeout=120)
    assert watcher.returncode == 0, err
    assert [*shown, *out.splitlines(keepends=True)] == [f"line {number}\n" for number in range(1, 201)]
    assert succeeded(user.run("k8s", "logs", "tiny")).splitlines() == [f"line {number}" for number in range(1, 201)]


def test_watching_ends_with_the_job(user: User, cluster, write_sweep):
    watcher = user.start("k8s", "submit", str(write_sweep()), "--watch")
    read_until(watcher, "RayJob tiny: New")
    assert "is deleted, as asked" in succeeded(user.run("k8s", "cancel", "tiny", "--delete"))
    out, _ = watcher.communicate(timeout=60)
    assert watcher.returncode == 1
    assert "RayJob tiny is gone: it was deleted. Its sweep folder is not" in out


def test_the_role_allows_what_the_commands_do(with_role, cluster, write_sweep):
    user = with_role("densesweep-submitter")
    file = str(write_sweep())
    succeeded(user.run("k8s", "submit", file, "--dry-run=server"))
    succeeded(user.run("k8s", "submit", file))
    cluster.set_status(jobDeploymentStatus="Running", jobStatus="RUNNING", rayClusterName="tiny-abcde")
    cluster.add_pod("w", {"ray.io/cluster": "tiny-abcde", "ray.io/group": "cpu"}, phase="Pending")
    assert "Running" in succeeded(user.run("k8s", "status", "tiny"))
    assert "tiny" in succeeded(user.run("k8s", "status"))
    succeeded(user.run("k8s", "cancel", "tiny"))
    cluster.set_status(jobDeploymentStatus="Suspended")
    succeeded(user.run("k8s", "resubmit", "tiny"))
    cluster.set_status(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    succeeded(user.run("k8s", "resubmit", "tiny"))
    succeeded(user.run("k8s", "cancel", "tiny", "--delete"))
    told = user.run("k8s", "doctor", file).stdout
    assert re.search(r"ok +rights +all that the commands do", told), told


DENIED = [
    ("GET", "/api/v1/namespaces/{}/secrets"),
    ("GET", "/api/v1/namespaces/{}/secrets/sweep-storage"),
    ("POST", "/api/v1/namespaces/{}/pods"),
    ("DELETE", "/api/v1/namespaces/{}/pods/w"),
    ("POST", "/api/v1/namespaces/{}/pods/w/exec"),
    ("DELETE", "/api/v1/namespaces/{}/configmaps/tiny-sweep"),
    ("DELETE", "/apis/ray.io/v1/namespaces/{}/rayclusters/tiny-abcde"),
    ("POST", "/apis/ray.io/v1/namespaces/{}/rayclusters"),
    ("PATCH", "/apis/ray.io/v1/namespaces/{}/rayjobs/tiny/status"),
    ("DELETE", "/apis/ray.io/v1/namespaces/{}/rayjobs"),
    ("GET", "/apis/ray.io/v1/namespaces/default/rayjobs"),
    ("GET", "/apis/ray.io/v1/rayjobs"),
    ("GET", "/api/v1/nodes"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"),
    ("POST", "/api/v1/namespaces/{}/serviceaccounts/densesweep/token"),
]


def test_the_role_denies_the_rest(with_role, server, namespace):
    with_role("densesweep-submitter")
    token = server.token_of("densesweep-submitter", namespace)
    for method, path in DENIED:
        answer = server.request(
            method, path.format(namespace), {} if method != "GET" else None, token=token, kind=MERGE
        )
        assert answer.get("code") == 403, (method, path, answer)


def test_the_account_of_the_pods_may_do_nothing(with_role, server, namespace):
    with_role("densesweep")
    token = server.token_of("densesweep", namespace)
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    for _, verb, group, resource, subresource in NEEDED:
        asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = server.request("POST", path, {**review, "spec": {"resourceAttributes": asked}}, token=token)
        assert answer["status"]["allowed"] is False, asked


def test_without_the_role_each_command_says_so_in_one_line(with_role, cluster, write_sweep):
    user = with_role("densesweep")
    for arguments in (("submit", str(write_sweep())), ("status", "tiny"), ("cancel", "tiny")):
        [line] = refused(user.run("k8s", *arguments))[:1]
        assert "is forbidden" in line
        assert "k8s/base/rbac.yaml has the role that these commands need" in line
    told = user.run("k8s", "doctor")
    assert told.returncode == 1
    assert "bind the role densesweep-submitter" in " ".join(told.stdout.split())


def test_doctor_looks_at_what_a_file_names(user: User, server, namespace, write_sweep):
    file = str(write_sweep(cluster={"priority_class": "sweeps"}))
    told = user.run("k8s", "doctor", file)
    assert told.returncode == 1
    assert re.search(r"fault +ServiceAccount densesweep +is not there", told.stdout), told.stdout
    assert re.search(r"fault +PersistentVolumeClaim sweeps +is not there", told.stdout)
    assert re.search(r"fault +PriorityClass sweeps +is not there", told.stdout)
    assert re.search(r"ok +kind RayJob", told.stdout)
    base = f"/api/v1/namespaces/{namespace}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "densesweep"}}
    server.create(f"{base}/serviceaccounts", account)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "sweeps"}}
    size = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    server.create(f"{base}/persistentvolumeclaims", {**claim, "spec": size})
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "sweeps"}}
    server.create("/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 1})
    told = user.run("k8s", "doctor", file)
    assert told.returncode == 0, told.stdout
    assert (
        re.search(r"none of \d nodes gives 1 cpu, 4GiB memory", told.stdout) or "nodes are large enough" in told.stdout
    )
    assert re.search(r"ok +dry run +the API server takes every object", told.stdout)


def test_a_server_that_is_not_there_is_one_line(server, tmp_path, namespace):
    config = yaml.safe_load(server.kubeconfig(tmp_path / "config", namespace=namespace).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    user = User(kubeconfig=tmp_path / "config", folder=tmp_path, namespace=namespace)
    [line] = refused(user.run("k8s", "status", "tiny"))
    assert "the API server at https://127.0.0.1:1 does not answer" in line
    (tmp_path / "other").write_text("")
    user = User(kubeconfig=tmp_path / "none", folder=tmp_path, namespace=namespace)
    [line] = refused(user.run("k8s", "status", "tiny"))
    assert "no cluster to talk to" in line


def test_a_credential_plugin_and_several_files_are_used(server, tmp_path, namespace):
    plugin = tmp_path / "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": TOKEN}}
    plugin.write_text(f"#!/bin/sh\n[ -n \"$KUBERNETES_EXEC_INFO\" ] && cat <<'E'\n{json.dumps(answer)}\nE\n")
    plugin.chmod(0o755)
    config = yaml.safe_load(server.kubeconfig(tmp_path / "config", namespace=namespace).read_text())
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": run}
    (tmp_path / "plugged").write_text(yaml.safe_dump(config))
    other = {**config, "contexts": [{**config["contexts"][0], "name": "other"}], "current-context": "tests"}
    (tmp_path / "other").write_text(yaml.safe_dump(other))
    listed = f"{tmp_path}/gone:{tmp_path}/other:{tmp_path}/plugged"
    user = User(kubeconfig=listed, folder=tmp_path, namespace=namespace)
    assert f"There is no RayJob in namespace {namespace}." in succeeded(user.run("k8s", "status"))
    assert namespace in succeeded(user.run("k8s", "status", "--context", "other"))
    [line] = refused(user.run("k8s", "status", "--context", "none"))
    assert "no file of KUBECONFIG has the context 'none'" in line


def test_credentials_that_are_not_taken_are_one_line(server, tmp_path, namespace):
    config = server.kubeconfig(tmp_path / "config", token="nobody", namespace=namespace)
    [line] = refused(User(kubeconfig=config, folder=tmp_path, namespace=namespace).run("k8s", "status", "tiny"))
    assert "log in again" in line


def read_until(process, word):
    for line in process.stdout:
        if word in line:
            return line
    raise AssertionError(f"'{word}' was not printed: {process.stderr.read()}")
