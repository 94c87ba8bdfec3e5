"""Build kube-apiserver, and fetch etcd, from the packages of Debian that this machine's apt can reach.

`python3 tests/kubernetes/build_api_server.py` prints the folder of both programs. Needs the standard library alone, no
root, and installs nothing: packages are unpacked into a folder that goes again. What is built is kept in the cache of
the user, so that it is built once.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

VERSION = "1.20.2"
_GO = "golang-1.19-go"  # newer ones refuse the sources' old standard library calls
_TOOLS = (_GO, "golang-1.19-src", "golang-github-modern-go-reflect2-dev", "rsync", "libpopt0", "libxxhash0")
_REFLECT2 = "src/github.com/modern-go/reflect2"
_PROGRAMS = ("kube-apiserver", "etcd")
_NEEDED_BYTES = 4 * 2**30
_SAID_LINES = 15
BUILDING_TAKES = "about five minutes on two cores"


class CannotBuildError(RuntimeError):
    """Why there is no API server here: one line."""


def built() -> Path | None:
    """The folder of the programs, where they were built already."""
    folder = _kept_in()
    return folder if all((folder / name).exists() for name in _PROGRAMS) else None


def build() -> Path:
    """The folder of the programs, which are built where they were not yet: some minutes on two cores.

    Raises:
        CannotBuildError: this machine cannot, with the reason.
    """
    if found := built():
        return found
    folder = _kept_in()
    with _alone(folder):
        if found := built():  # by whom it waited for
            return found
        _check_machine(folder)
        # Not in the folder for temporary files, which may be in memory.
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as work:
            for program in _made(Path(work)):
                program.replace(folder / program.name)
    return folder


def _kept_in() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "densesweep-tests" / f"kube-apiserver-{VERSION}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of several processes that ask, one builds and the others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_machine(folder: Path) -> None:
    missing = [name for name in ("apt-get", "dpkg-deb", "make", "tar") if not shutil.which(name)]
    if missing:
        raise CannotBuildError(f"kube-apiserver is built of Debian's packages, and {', '.join(missing)} is not here")
    free = shutil.disk_usage(folder).free
    if free < _NEEDED_BYTES:
        raise CannotBuildError(f"building kube-apiserver takes 4 GiB, and {folder} has {free / 2**30:.1f} GiB")


def _made(work: Path) -> Sequence[Path]:
    apt = _apt(work)
    _run([*apt, "update"], work, "the lists of packages cannot be fetched")
    packages = work / "packages"
    packages.mkdir()
    _run([*apt, "source", "--download-only", f"kubernetes={_version(apt)}"], packages, "no sources of kubernetes")
    _run([*apt, "download", *_TOOLS, "etcd-server"], packages, "a package that the build needs cannot be fetched")
    unpacked = work / "unpacked"
    for package in sorted(packages.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(unpacked)], work, f"{package.name} cannot be unpacked")
    return _compiled(work, packages, unpacked), unpacked / "usr/bin/etcd"


def _apt(work: Path) -> list[str]:
    """apt-get with the machine's own sources and their source packages, but with state of its own."""
    parts, state, cache = (work / "apt" / name for name in ("sources", "state", "cache"))
    for folder in (parts, state / "lists/partial", cache / "archives/partial"):
        folder.mkdir(parents=True)
    etc = Path("/etc/apt")
    files = [
        etc / "sources.list",
        *(etc / "sources.list.d").glob("*.list"),
        *(etc / "sources.list.d").glob("*.sources"),
    ]
    for number, file in enumerate(file for file in files if file.exists()):
        text = with_source_packages(file.read_text(encoding="utf-8"), file.suffix)
        (parts / f"{number}{file.suffix}").write_text(text, encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(parts),
        "Dir::State": str(state),
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": str(cache),
        "Acquire::Languages": "none",
    }
    if os.getuid() == 0:
        options["APT::Sandbox::User"] = "root"  # another user may not enter the folder
    return ["apt-get", "-qq", *(part for item in options.items() for part in ("-o", "=".join(item)))]


def with_source_packages(text: str, suffix: str) -> str:
    """A file of apt's sources that names source packages beside binary ones: `.sources`, or of one line each."""
    if suffix == ".sources":
        return re.sub(r"(?m)^Types:[ \t]*deb[ \t]*$", "Types: deb deb-src", text)
    lines = text.splitlines()
    binary = [line for line in lines if re.match(r"deb\s", line)]
    return "\n".join([*lines, *(re.sub(r"^deb", "deb-src", line) for line in binary)]) + "\n"


def _version(apt: Sequence[str]) -> str:
    """Debian's whole version of the sources, of those that apt knows."""
    shown = subprocess.run(
        ["apt-cache", *apt[2:], "showsrc", "kubernetes"], capture_output=True, text=True, check=False
    ).stdout
    versions = re.findall(r"(?m)^Version: (.+)$", shown)
    fitting = [version for version in versions if VERSION in version]
    if not fitting:
        has = f"apt has {', '.join(versions)}" if versions else "apt knows no source package 'kubernetes'"
        raise CannotBuildError(f"kube-apiserver {VERSION} is built of Debian's sources, and {has}")
    return fitting[-1]


def _compiled(work: Path, packages: Path, unpacked: Path) -> Path:
    # Its build wants to lie where GOPATH has it. Debian's patches are for kubectl, and are left away.
    sources = work / "go/src/k8s.io/kubernetes"
    sources.mkdir(parents=True)
    [tarball] = packages.glob("kubernetes_*.orig.tar.gz")
    command = ["tar", "-xzf", str(tarball), "--strip-components=1", "-C", str(sources)]
    _run(command, work, f"{tarball.name} cannot be unpacked")
    # The vendored one reads the layout of Go's maps as it was before 1.18, and crashes on the first large object.
    vendored = sources / "vendor" / _REFLECT2.removeprefix("src/")
    shutil.rmtree(vendored)
    shutil.copytree(unpacked / "usr/share/gocode" / _REFLECT2, vendored)
    go = unpacked / "usr/lib/go-1.19"
    libraries = sorted({str(file.parent) for file in unpacked.rglob("lib*.so.*")})
    variables = {
        "GOROOT": str(go),
        "GOPATH": str(work / "go"),
        "GOCACHE": str(work / "go-cache"),
        "GOPROXY": "off",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
        "HOME": str(work),
        "PATH": os.pathsep.join([str(go / "bin"), str(unpacked / "usr/bin"), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),  # of rsync
    }
    command = ["make", "WHAT=cmd/kube-apiserver", "GOLDFLAGS=-s -w"]
    _run(command, sources, "kube-apiserver does not compile", **variables)
    return (sources / "_output/local/go/bin/kube-apiserver").resolve()


def _run(command: Sequence[str], folder: Path, failure: str, **variables: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " | ".join((done.stdout + done.stderr).strip().splitlines()[-_SAID_LINES:])
        raise CannotBuildError(f"{failure}: {said or f'exit code {done.returncode}'}")


if __name__ == "__main__":
    try:
        print(build())
    except CannotBuildError as reason:
        sys.exit(str(reason))
