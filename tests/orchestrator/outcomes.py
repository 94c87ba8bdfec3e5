"""What a sweep came to: its tables and checkpoints, to compare with another's."""

import csv
import io

from small_sweeps import Sweep

from results.rows import read_rows
from results.store import open_store


def table_of(sweep: Sweep, name: str = "gains", *, where: str | None = None) -> list[dict[str, str]]:
    """The rows of a table, as its CSV holds them; `where` the sweep's folder lies, if not in its home."""
    done = sweep.command("tables", where or str(sweep.folder), name, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def checkpoints_of(sweep: Sweep) -> dict[str, str]:
    """Trial -> checkpoint hash."""
    return checkpoints_in(str(sweep.folder))


def checkpoints_in(uri: str) -> dict[str, str]:
    """Trial -> checkpoint hash, of the sweep folder at `uri`."""
    store = open_store(uri)
    keys = [key for key in store.list("trials") if key.endswith("/trial.parquet")]
    return {key.split("/")[1]: read_rows(store, key, "trials")["checkpoint_hash"][0].as_py() for key in keys}


def assert_same_outcome(ours: Sweep, theirs: Sweep) -> None:
    """Both came to the same checkpoints and tables, to the last digit."""
    assert checkpoints_of(ours) == checkpoints_of(theirs)
    for name in ("gains", "fisher_check"):
        assert table_of(ours, name) == table_of(theirs, name)
