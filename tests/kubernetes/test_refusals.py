"""What a sweep file and a cluster cannot do together is refused before anything is sent, each in a line that helps."""

import re

import pytest
from crds import schema_faults
from sweeps_on_clusters import CLUSTER, SWEEP, write

from orchestrator.kubernetes.render import rendered
from search_spaces.problems import InputError


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        rendered(path, **options)
    return [str(problem) for problem in caught.value.problems]


def with_keys(*lines):
    return CLUSTER + "".join(f"  {line}\n" for line in lines)


def workers(text):
    return re.sub(r"cpu: \{.*\}", text, CLUSTER)


# Name: what stands in the file after the sweep, or the sweep and that; the line that is told, after the file's name.
ONE_LINE = {
    "no image": (
        CLUSTER.replace("  image: registry.example/densesweep:0.1.0\n", ""),
        "cluster.image: is required, of the file or a profile",
    ),
    "no workers": (
        CLUSTER.partition("  workers:")[0],
        "cluster.workers: is required, of the file or a profile",
    ),
    "group without memory": (
        workers("cpu: {cpus: 4}"),
        "cluster.workers.cpu.memory: is required, of the file or a profile",
    ),
    "group of Ray's size": (
        workers("cpu: {cpus: 4, memory: 1GiB}"),
        "cluster.workers.cpu.memory: 1GiB, of which Ray itself takes 1GiB: nothing is left for trials",
    ),
    "kind of no GPU": (
        workers("cpu: {cpus: 4, memory: 8GiB, accelerator_type: A100}"),
        "cluster.workers.cpu.accelerator_type: 'A100' is a kind of GPU, and the group has none",
    ),
    "latest image": (
        CLUSTER.replace(":0.1.0", ":latest"),
        "'registry.example/densesweep:latest' says not which version it is (write a tag other than latest",
    ),
    "other Ray": (
        with_keys("ray_version: 2.52.0"),
        "cluster.ray_version: the image has Ray 2.52.0, and this client ",
    ),
    "other Python": (
        with_keys('python_version: "3.9"'),
        "cluster.python_version: the image has Python 3.9, and this client ",
    ),
    "no storage": (
        CLUSTER.replace("  storage: {root: s3://bucket/sweeps}\n", ""),
        "cluster.storage: names no storage that all pods see: a bucket as `root`",
    ),
    "local storage": (
        CLUSTER.replace("s3://bucket/sweeps", "/home/me/sweeps"),
        "cluster.storage.root: '/home/me/sweeps/small' is a folder of one machine, and all pods have to see it",
    ),
    "relative storage": (
        CLUSTER.replace("{root: s3://bucket/sweeps}", "{root: sweeps, claim: sweeps}"),
        "cluster.storage.root: 'sweeps/small' is a folder of one machine",
    ),
    "beside the claim": (
        CLUSTER.replace("{root: s3://bucket/sweeps}", "{root: /data/sweeps, claim: sweeps}"),
        "cluster.storage.root: '/data/sweeps/small' is not below /mnt/sweeps, where claim 'sweeps' is mounted",
    ),
    "storage of no kind": (
        CLUSTER.replace("s3://bucket", "hdfs://bucket"),
        "cluster.storage.root: 'hdfs://bucket/sweeps/small': sweep folders are not kept on hdfs://",
    ),
    "storage for a shell": (
        CLUSTER.replace("s3://bucket/sweeps", "s3://bucket/my$sweeps"),
        "cluster.storage.root: 's3://bucket/my$sweeps/small' has '$', which shells read on the command's way",
    ),
    "tracking for a shell": (
        with_keys('mlflow: "http://mlflow:5000/?a=1&b=2"'),
        "cluster.mlflow: 'http://mlflow:5000/?a=1&b=2' has '&?', which shells read",
    ),
    "local MLflow": (
        with_keys("mlflow: sqlite:///mlflow.db"),
        "cluster.mlflow: 'sqlite:///mlflow.db' is no server that pods reach (allowed: http://, https://, postgresql://",
    ),
    "password of MLflow": (
        with_keys("mlflow: https://me:secret@mlflow.example"),
        "cluster.mlflow: holds a password, which everybody could read who sees the RayJob",
    ),
    "deadline before the budget": (
        "budget: {wall_hours: 48}\n" + with_keys("deadline_s: 3600"),
        "cluster.deadline_s: 3600 s, and the budget lasts 48 h: it would be killed before it ends by itself",
    ),
    "no tries on spot nodes": (
        "resources: {retries: 0}\n" + workers("cpu: {cpus: 4, memory: 16GiB, spot: gke}"),
        "resources.retries: 0, and spot nodes of group 'cpu' are taken back at any time",
    ),
    "too many CPUs": (
        "resources: {cpus: 8}\n" + CLUSTER,
        "resources: a trial needs 8 CPUs on one node, but no node has that: 2 nodes with 4 CPUs (groups at their",
    ),
    "too much memory": (
        "resources: {memory: 16GiB}\n" + CLUSTER,
        "needs 1 CPU and 16.0 GiB of memory on one node, but no node has that: 2 nodes with 4 CPUs and 15.0 GiB",
    ),
    "more devices than pods": (
        "resources: {devices: 3, cpus: 3}\n" + CLUSTER,
        "a trial needs 3 CPUs for each of 3 processes, but the nodes have no room for that: 2 nodes with 4 CPUs",
    ),
    "no GPU for a probe": (
        "probe: {resources: {gpus: 1/2}}\n" + CLUSTER,
        "probe.resources: a probe needs 1 CPU and 0.5 GPUs on one node, but no node has that: 2 nodes with 4 CPUs",
    ),
    "other kind of GPU": (
        "resources: {gpus: 1, accelerator_type: H100}\nprobe: {resources: {gpus: 0}}\n"
        + workers("gpu: {cpus: 4, memory: 16GiB, gpus: 1, accelerator_type: A100}"),
        "a trial needs 1 CPU and 1 GPU (H100) on one node, but no node has that: 1 node with 4 CPUs and 1 GPU (A100)",
    ),
    "devices of a group without memory": (
        "resources: {devices: 2}\n" + workers("cpu: {cpus: 4}") + "  autoscaling: {}\n",
        "cluster.workers.cpu.memory: is required, of the file or a profile",
    ),
    "part of a GPU": (
        "resources: {gpus: 0.4}\n" + CLUSTER,
        "resources.gpus: 0.4 is no equal share of a GPU (write 1/2 or 1/3)",
    ),
    "tries of none": (
        with_keys("backoff_limit: 0"),
        "cluster.backoff_limit: 0: input should be greater than or equal to 1",
    ),
    "head for nothing": (
        with_keys("head: {memory: 2GiB}"),
        "2Gi of memory, and a head with a driver needs 4Gi",
    ),
    "min above max": (
        workers("cpu: {cpus: 4, memory: 16GiB, min: 3, max: 2}") + "  autoscaling: {}\n",
        "minReplicas 3 is more than maxReplicas 2 (`min` and `max`)",
    ),
    "queue and autoscaling": (
        with_keys("queue: sweeps", "autoscaling: {}"),
        "queue 'sweeps' admits a cluster at its whole size (leave `autoscaling` away, or the queue)",
    ),
    "workers of an autoscaler": (
        with_keys(
            "autoscaling: {}",
            "deletion: [{when: succeeded, delete: cluster}, {when: failed, delete: workers}, "
            "{when: failed, delete: cluster}]",
        ),
        "DeleteWorkers excludes autoscaling, which would start them again",
    ),
    "time and rules": (
        with_keys("ttl_s: 60", "deletion: [{when: succeeded, delete: self}, {when: failed, delete: self}]"),
        "spec.ttlSecondsAfterFinished: 60, but deletion rules have times of their own",
    ),
    "cluster kept": (
        with_keys("deletion: [{when: succeeded, delete: cluster}]"),
        "nothing deletes the cluster of a RayJob that has FAILED",
    ),
    "group like the head": (
        workers("headgroup: {cpus: 4, memory: 16GiB}"),
        "'headgroup' is the head's own group",
    ),
    "head on spot nodes": (
        with_keys("head: {node_selector: {karpenter.sh/capacity-type: spot}}"),
        "places the head on spot nodes (karpenter.sh/capacity-type), and with the head goes the driver",
    ),
    "secret in the open": (
        with_keys("env: {AWS_SECRET_ACCESS_KEY: abc}"),
        "cluster.env: 'AWS_SECRET_ACCESS_KEY' looks like a secret, and a sweep file holds none",
    ),
    "old operator and tokens": (
        with_keys('kuberay: "1.4"'),
        "cluster.auth: needs KubeRay 1.5.1 or newer, and `kuberay` says 1.4 (write `auth: disabled`)",
    ),
    "old operator and deadline": (
        with_keys('kuberay: "1.5.1"', "start_deadline_s: 60"),
        "cluster.start_deadline_s: needs KubeRay 1.6 or newer, and `kuberay` says 1.5.1 (leave it away)",
    ),
    "operator too old": (
        with_keys('kuberay: "1.3"', "auth: disabled"),
        "cluster.kuberay: 1.3, and RayJobs of densesweep need 1.4 or newer",
    ),
    "priority in no queue": (
        with_keys("queue_priority: high"),
        "cluster.queue_priority: 'high', but there is no `queue` that it could be a priority in",
    ),
    "token of nobody": (
        with_keys("auth: disabled", "auth_secret: ray-token"),
        "cluster.auth_secret: 'ray-token', but `auth` is disabled",
    ),
    "volumes at one folder": (
        with_keys("secret_files: {keys: /scratch}"),
        "2 volumes are mounted at /scratch (`storage.mount` and `secret_files` need their own)",
    ),
    "unknown key": (
        with_keys("namspace: x"),
        "cluster.namspace: 'namspace' is not a key of the sweep file (did you mean 'namespace'?)",
    ),
    "unknown key of a group": (
        workers("cpu: {cpus: 4, memmory: 16GiB}"),
        "cluster.workers.cpu.memmory: 'memmory' is not a key of the sweep file (did you mean 'memory'?)",
    ),
    "group in capitals": (workers("CPU: {cpus: 4, memory: 16GiB}"), "'CPU' is not a name of Kubernetes"),
    "unknown mode": (
        with_keys("submission: InteractiveMode"),
        "cluster.submission: 'InteractiveMode': input should be",
    ),
}


@pytest.mark.parametrize("case", ONE_LINE)
def test_it_is_one_line_that_says_what_to_do(tmp_path, case):
    rest, line = ONE_LINE[case]
    path = write(tmp_path, cluster="\n" + rest)
    [found] = refused(path)
    assert found.startswith(f"{path}: ")
    assert line in found
    assert "\n" not in found


LOCAL = {
    "data_sets[0].source": 'data_sets: [{name: mine, source: "path:data"}]\n',
    "families[0].retriever.source": 'families: [{name: mine, retriever: {source: "path:weights"}}]\n',
    "data_sources.scifact": 'data_sources: {scifact: "path:data"}\n',
    "reuse[0]": "reuse: [sweeps/earlier]\n",
}


@pytest.mark.parametrize("key", LOCAL)
def test_what_lies_on_this_machine_is_refused(tmp_path, key):
    for name in ("data", "weights"):
        (tmp_path / name).mkdir()
    path = write(tmp_path, sweep=SWEEP + LOCAL[key])
    [found] = refused(path)
    assert found.startswith(f"{path}: {key}: '")
    assert "lies on this machine, where no pod sees it (take it from the hub, a package, a bucket, or a claim" in found


def test_what_lies_on_a_claim_is_not(tmp_path):
    (tmp_path / "data").mkdir()
    sweep = SWEEP + f'data_sets: [{{name: mine, source: "path:{tmp_path}/data"}}]\nreuse: [{tmp_path}/earlier]\n'
    storage = f"{{claim: sweeps, mount: {tmp_path}}}"
    assert rendered(write(tmp_path, sweep=sweep, cluster=CLUSTER.replace("{root: s3://bucket/sweeps}", storage)))


def test_a_bucket_can_be_reused(tmp_path):
    assert rendered(write(tmp_path, sweep=SWEEP + "reuse: ['s3://bucket/earlier']\n"))


def test_the_name_of_a_sweep_is_the_rayjobs(tmp_path):
    sweep = SWEEP.replace("name: small", "name: lr_grid")
    assert rendered(write(tmp_path, sweep=sweep))[-1]["metadata"]["name"] == "lr-grid"
    assert rendered(write(tmp_path), name="other")[-1]["metadata"]["name"] == "other"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("b" * 100, "has 100 characters, and KubeRay takes 47"),
        ("a" * 48, "has 48 characters, and KubeRay takes 47; name the RayJob by --name"),
        ("2026-sweep", "'2026-sweep' is not a name (lower-case letters, digits and '-', a letter first"),
        ("ends-", "'ends-' is not a name"),
    ],
)
def test_a_name_that_no_rayjob_can_have_is_refused(tmp_path, name, line):
    by_file = write(tmp_path, sweep=SWEEP.replace("name: small", f"name: {name}"))
    assert line in refused(by_file)[0]
    assert line in refused(write(tmp_path), name=name)[0]
    named = rendered(by_file, name="good")[-1]
    assert named["metadata"]["name"] == "good"
    assert schema_faults(named) == []  # its labels too


def test_a_file_that_no_config_map_holds_is_refused(tmp_path):
    path = write(tmp_path, sweep=SWEEP + f"# {'x' * 2**20}\n")
    [found] = refused(path)
    assert re.search(r"ConfigMap small-sweep: data: \d+ bytes, and a ConfigMap takes 1048576", found)


def test_all_problems_are_told_together(tmp_path):
    cluster = CLUSTER.replace("  image: registry.example/densesweep:0.1.0\n", "").replace("s3://", "hdfs://")
    found = refused(write(tmp_path, sweep=SWEEP + "resources: {cpus: 64}\n", cluster=cluster))
    assert [line.split(": ")[1] for line in found] == [
        "cluster.image",
        "cluster.storage.root",
        "resources",
    ]


def test_a_profile_that_is_none_is_refused(tmp_path):
    path = write(tmp_path)
    assert refused(path, profile="gpus") == [
        "--profile: 'gpus' is not a profile (did you mean 'gpu'?); a file is named by its path, such as ./my.yaml"
    ]
    assert "cannot be read" in refused(path, profile="./none.yaml")[0]
    (tmp_path / "mine.yaml").write_text("namspace: x\nworkers: {gpu: {cpu: 1}}\n")
    assert sorted(line.partition(": ")[2] for line in refused(path, profile=str(tmp_path / "mine.yaml"))) == [
        "namspace: 'namspace' is not a key of the profile (did you mean 'namespace'?)",
        "workers.gpu.cpu: 'cpu' is not a key of the profile (did you mean 'cpus'?)",
    ]
    (tmp_path / "mine.yaml").write_text("- namespace\n")
    assert refused(path, profile=str(tmp_path / "mine.yaml"))[0].endswith(
        "not a profile: a mapping of keys is expected"
    )
