"""A real small file system, where this machine lets one be mounted."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BALLAST = ".ballast"


@contextmanager
def small_disk(folder: Path, num_bytes: int) -> Iterator[Path]:
    """Mount a file system of so many bytes on `folder`; the test is skipped where that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(folder)]
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, *, but: int = 0) -> None:
    """Take all that the disk has left, but so many bytes."""
    left = os.statvfs(disk)
    with (disk / BALLAST).open("wb") as file:
        try:
            for _ in range(left.f_bavail * left.f_frsize // 4096 - but // 4096):
                file.write(b"x" * 4096)
            file.flush()
        except OSError:
            assert but == 0


def relieve(disk: Path) -> None:
    """Give it back."""
    (disk / BALLAST).unlink()
