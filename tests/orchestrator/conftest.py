"""Fixtures of small sweeps (`small_sweeps`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_sweeps
from small_sweeps import Sweep

from results.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty sweep folder, with a space in its path, as folders of real people have."""
    return open_store(str(tmp_path / "my sweeps" / "small"))


@pytest.fixture(scope="session")
def make_sweep_in() -> Callable[..., Sweep]:
    """Make a sweep in a folder; keyword arguments replace or extend blocks of the file."""
    return small_sweeps.make_sweep_in


@pytest.fixture
def make_sweep(tmp_path: Path, make_sweep_in: Callable[..., Sweep]) -> Callable[..., Sweep]:
    """Make a sweep in a folder of the test's own, by name."""

    def make(name: str = "tiny", **blocks: Any) -> Sweep:
        return make_sweep_in(tmp_path / name, **blocks)

    return make
