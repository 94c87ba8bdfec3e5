"""One small sweep, written once; tests that change a folder make their own."""

import pytest
from builders import small_sweep

from results.collect import collect
from results.store import open_store


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory):
    return small_sweep(open_store(str(tmp_path_factory.mktemp("small"))))


@pytest.fixture(scope="session")
def small(small_folder):
    """The small sweep, collected."""
    return collect(small_folder.store, small_folder.record())
