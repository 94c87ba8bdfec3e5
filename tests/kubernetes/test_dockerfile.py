"""The image: its file's defaults, and, where buildah works, the image itself."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
from importlib.metadata import version
from pathlib import Path

import pytest

from orchestrator.kubernetes.settings import client_versions

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "k8s" / "image" / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
NOT_HERE = ("buildah", "debootstrap")


def _defaults():
    return dict(re.findall(r"^ARG (\w+)=(.*)$", DOCKERFILE, flags=re.MULTILINE))


def test_defaults_are_the_versions_of_this_repository():
    defaults = _defaults()
    assert defaults["RAY_VERSION"] == PINNED["ray"] == version("ray")
    assert defaults["TORCH_VERSION"] == PINNED["torch"]
    assert defaults["DENSESWEEP_VERSION"] == PROJECT["version"]
    assert f">={defaults['PYTHON_VERSION']}" == PROJECT["requires-python"]
    assert set(defaults["EXTRAS"].split(",")) <= set(PROJECT["optional-dependencies"])
    labels = re.findall(r'densesweep\.([a-z-]+)="\$\{(\w+)\}"', DOCKERFILE)
    assert dict(labels) == {
        "version": "DENSESWEEP_VERSION",
        "ray-version": "RAY_VERSION",
        "python-version": "PYTHON_VERSION",
    }


def test_what_its_extras_bring_is_pinned():
    brought = [one for extra in _defaults()["EXTRAS"].split(",") for one in PROJECT["optional-dependencies"][extra]]
    assert {re.match(r"[\w-]+", requirement).group() for requirement in brought} <= set(PINNED)


def test_it_runs_as_the_user_that_pods_run_as():
    from orchestrator.kubernetes.pods import USER

    assert re.findall(r"^USER (.*)$", DOCKERFILE, flags=re.MULTILINE) == [f"{USER}:{USER}"]
    assert "ENTRYPOINT" not in DOCKERFILE  # KubeRay and the manifests give whole commands


def test_nothing_else_of_the_repository_goes_into_it():
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert ignored == ["*", "!constraints.txt", "!dist/densesweep-*.whl"]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.MULTILINE)
    assert copied == ["constraints.txt dist/densesweep-*.whl"]


def _run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def base():
    """An image of Debian with its Python, made of the machine's own packages: registries may be out of reach."""
    for program in NOT_HERE:
        if not shutil.which(program):
            pytest.skip(f"needs {program} (apt-get install {' '.join(NOT_HERE)})")
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a root file system")
    if client_versions().python != "3.11":
        pytest.skip("Debian's Python is 3.11, and tests run on another")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "densesweep-tests" / "bookworm"
    whole = cache.with_suffix(".whole")
    if not whole.exists():
        shutil.rmtree(cache, ignore_errors=True)
        cache.parent.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", "bookworm", str(cache)]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"debootstrap does not work here: {made.stdout.strip().splitlines()[-1:]}")
        whole.touch()
    name = f"localhost/densesweep-base-{uuid.uuid4().hex[:8]}"
    container = _run("buildah", "from", "scratch").strip()
    tried = subprocess.run(["buildah", "copy", container, str(cache), "/"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"buildah does not work here: {tried.stderr.strip()[-300:]}")
    _run("buildah", "commit", "--rm", container, name)
    yield name
    _run("buildah", "rmi", "--force", name)


def _pip_as_here():
    """Options with which pip in the build looks where it does on this machine."""
    settings = dict(
        line.replace("'", "").split("=", 1) for line in _run(sys.executable, "-m", "pip", "config", "list").splitlines()
    )
    options, folders = [], []
    for name, variable in (("index-url", "PIP_INDEX_URL"), ("extra-index-url", "PIP_EXTRA_INDEX_URL"),
                           ("find-links", "PIP_FIND_LINKS")):  # fmt: skip
        found = [value for key, value in settings.items() if key.rpartition(".")[2] == name]
        if not found:
            continue
        value = " ".join(found[-1].replace("\\n", " ").split())
        options += ["--build-arg", f"{variable}={value}"]
        places = [place.removeprefix("file://") for place in value.split()]
        folders += [place for place in places if place.startswith("/")]
    for folder in dict.fromkeys(_root_of(Path(folder)) for folder in folders):
        options += ["--volume", f"{folder}:{folder}:ro"]
    certificates = next((value for key, value in settings.items() if key.endswith(".cert")), None)
    return options + (["--volume", f"{certificates}:/etc/ssl/certs/ca-certificates.crt:ro"] if certificates else [])


def _root_of(folder):
    """A package index lies beside the files that it names: its top folder but one."""
    return Path(*folder.parts[:3]) if len(folder.parts) > 3 else folder


@pytest.fixture(scope="module")
def image(base, tmp_path_factory):
    """The image, of this working tree, as k8s/README.md says that it is made."""
    context = tmp_path_factory.mktemp("context")
    for name in ("constraints.txt", ".dockerignore"):
        shutil.copy(ROOT / name, context)
    source = context / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "tests"))
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(context / "dist"), str(source))
    shutil.rmtree(source)
    name = f"localhost/densesweep-{uuid.uuid4().hex[:8]}"
    arguments = ["--build-arg", f"BASE={base}", "--build-arg", f"TORCH_VERSION={version('torch')}", *_pip_as_here()]
    file = str(ROOT / "k8s" / "image" / "Dockerfile")
    isolation = ["--isolation", "chroot", "--network", "host"]
    _run("buildah", "build", *isolation, "--file", file, "--tag", name, *arguments, str(context))
    yield name
    _run("buildah", "rmi", "--force", name)


PROBED = """
set -eu
for program in bash wget python densesweep ray mlflow; do command -v "$program" > /dev/null; done
test "$(id -u):$(id -g)" = 1000:1000
touch /tmp/before
densesweep k8s preflight --storage /mnt/sweeps/one --expect "$EXPECTED"
densesweep run /tmp/sweep.yaml --storage /mnt/sweeps/two
densesweep tables /mnt/sweeps/two gains
find / -xdev -newer /tmp/before -type f > /tmp/written 2> /dev/null || true
grep -vE '^/(tmp|scratch|mnt/sweeps|proc|sys|dev)/' /tmp/written && exit 3
echo nothing else was written
"""


@pytest.mark.heavy
def test_the_image_runs_a_sweep_and_writes_to_its_volumes_alone(image, tmp_path):
    from tests.benchmarks.tiny_sweep import write_tiny_sweep

    labels = _run("buildah", "inspect", "--type", "image", "--format", "{{.OCIv1.Config.Labels}}", image)
    ours = client_versions()
    for label in (f"densesweep.ray-version:{ours.ray}", f"densesweep.python-version:{ours.python}"):
        assert label in labels
    home = tmp_path / "home"
    file = write_tiny_sweep(home, num_seeds=1)
    file.write_text(file.read_text().replace(str(home / "sweep"), "/mnt/sweeps/two"))
    shutil.copytree(home, tmp_path / "tmp", dirs_exist_ok=True)
    (tmp_path / "tmp").chmod(0o1777)
    container = _run("buildah", "from", image).strip()
    try:
        _run("buildah", "copy", "--chown", "1000:1000", container, str(tmp_path / "tmp"), "/tmp")
        out = _run(
            "buildah", "run", "--isolation", "chroot", "--network", "host", "--user", "1000:1000",
            "--env", f"EXPECTED={ours}", "--env", "RAY_AUTH_MODE=disabled", container, "--", "bash", "-c", PROBED,
        )  # fmt: skip
    finally:
        _run("buildah", "rm", container)
    assert "nothing else was written" in out
    assert "finetune" in out
