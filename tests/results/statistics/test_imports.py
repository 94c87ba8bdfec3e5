"""`tables` starts at once: no module of the statistics imports what takes a second before it is asked for."""

import subprocess
import sys
from pathlib import Path

import results.statistics

FOLDER = Path(results.statistics.__file__).parent
SCRIPT = """
import importlib, sys
for name in {names!r}:
    importlib.import_module("results.statistics." + name)
print(sorted({{"scipy.stats", "scipy.optimize", "statsmodels", "pandas"}} & set(sys.modules)))
"""


def test_no_slow_package_is_imported():
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    assert "two_way" in names
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(names=names)],
        capture_output=True,
        text=True,
        check=True,
        cwd=FOLDER.parents[1],
    )
    assert done.stdout.strip() == "[]"
