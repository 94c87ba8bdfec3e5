"""A private PostgreSQL cluster on 127.0.0.1, in a folder of its own, run by a user who is not root."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from mirrors import free_port

_DEBIAN = Path("/usr/lib/postgresql")  # where Debian has the programs that are on no PATH
_USERS = ("postgres", "nobody")  # of whom PostgreSQL may run: root it refuses


def _program(name):
    if found := shutil.which(name):
        return found
    versions = sorted(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not versions:
        pytest.skip("needs PostgreSQL (apt-get install postgresql)")
    return str(versions[-1])


def _user():
    """Who runs the cluster, where that is not whoever runs the tests."""
    return next(user for user in _USERS if user in {entry.pw_name for entry in pwd.getpwall()})


class Postgres:
    """From `start` to `stop`."""

    def __init__(self):
        self._initdb, self._pg_ctl = _program("initdb"), _program("pg_ctl")
        pytest.importorskip("psycopg2")
        self._folder = Path(
            tempfile.mkdtemp(prefix="densesweep-postgres-")
        )  # not in tmp_path, which only root may enter
        self._as = {}
        if os.getuid() == 0:
            self._as = {"user": _user(), "extra_groups": []}
            shutil.chown(self._folder, _user())
        self._port = free_port()
        self.uri = f"postgresql+psycopg2://sweeps@127.0.0.1:{self._port}/postgres"

    def start(self):
        data = str(self._folder / "data")
        self._run(self._initdb, "-D", data, "-U", "sweeps", "--auth=trust", "-E", "UTF8", "--no-sync")
        options = f"-h 127.0.0.1 -p {self._port} -k {self._folder} -c fsync=off"
        self._run(self._pg_ctl, "-D", data, "-l", str(self._folder / "log"), "-o", options, "-w", "start")
        return self

    def stop(self):
        try:
            self._run(self._pg_ctl, "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, *command):
        with (self._folder / "output").open("ab") as out:
            done = subprocess.run(command, cwd=self._folder, stdout=out, stderr=out, **self._as)
        assert done.returncode == 0, (self._folder / "output").read_text()
