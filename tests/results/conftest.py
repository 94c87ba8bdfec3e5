"""A small sweep of one seed and one of three, written once; tests that change a folder make their own."""

import pytest

from results.collect import collect
from results.store import open_store
from tests.results.builders import seeded_sweep, small_sweep


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory):
    return small_sweep(open_store(str(tmp_path_factory.mktemp("small"))))


@pytest.fixture(scope="session")
def small(small_folder):
    """The small sweep, collected."""
    return collect(small_folder.store, small_folder.record())


@pytest.fixture(scope="session")
def seeded_folder(tmp_path_factory):
    return seeded_sweep(open_store(str(tmp_path_factory.mktemp("seeded"))))


@pytest.fixture(scope="session")
def seeded(seeded_folder):
    """The sweep of three seeds, collected."""
    return collect(seeded_folder.store, seeded_folder.record())
