"""A small sweep of real weights (one layer of MiniLM) on a small real folder, and the command line as a process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.densesweep_here import densesweep_here
from tests.small_content import extended, small_content

ANIMALS = ["ant", "bear", "cat", "dog", "eel", "fox", "goat", "hen", "ibex", "jay", "koala", "lion"]
PLACES = ["in the wood", "by the sea", "on the hill", "at night"]
DEADLINE_S = 600.0
_PLAIN = {"COLUMNS": "200", "NO_COLOR": "1"}


def write_collection(folder: Path) -> Path:
    """A BEIR folder: 48 documents, as many train queries and 12 test queries."""
    (folder / "qrels").mkdir(parents=True)
    documents = [(f"d{a}-{p}", animal, f"The {animal} lives {place}.") for a, animal in enumerate(ANIMALS)
                 for p, place in enumerate(PLACES)]  # fmt: skip
    lines = [json.dumps({"_id": i, "title": title, "text": text}) for i, title, text in documents]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    queries = [{"_id": f"q{i}", "text": f"which {title} was seen{text[text.index('lives') + 5 : -1]}"}
               for i, title, text in documents]  # fmt: skip
    (folder / "queries.jsonl").write_text("\n".join(json.dumps(query) for query in queries))
    header = "query-id\tcorpus-id\tscore\n"
    train = [f"q{i}\t{i}\t1\n" for i, _, _ in documents]
    (folder / "qrels" / "train.tsv").write_text(header + "".join(train))
    (folder / "qrels" / "test.tsv").write_text(header + "".join(train[::4]))
    return folder


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep file and its folder, with the command line to run on them."""

    file: Path
    folder: Path

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen:
        """Start `densesweep ARGUMENTS` in the file's folder, with more variables in its environment."""
        command = [sys.executable, "-m", "orchestrator.cli", *arguments]
        environment = {**_environment(), **variables}
        return subprocess.Popen(
            command, cwd=self.file.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def command(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        """Run `densesweep ARGUMENTS` to its end."""
        process = self.start(*arguments, **variables)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()  # one that takes too long must not go on while other tests run
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def here(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        """As `command`, in this process: for commands that start nothing, and what they print."""
        return densesweep_here(*arguments, folder=self.file.parent, variables={**_PLAIN, **variables})

    def run(self) -> subprocess.CompletedProcess:
        """Run the sweep to its end."""
        return self.command("run", self.file.name)

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Title -> status of the trials that have one."""
        record = json.loads((self.folder / "sweep.json").read_text())
        paths = {t["title"]: self.folder / "trials" / t["trial_id"] / "status.json" for t in record["trials"]}
        return {title: json.loads(path.read_text()) for title, path in paths.items() if path.exists()}

    def wait_for(self, seen: Callable[["Sweep"], Any], *, deadline_s: float = DEADLINE_S) -> Any:
        """Poll until `seen` returns something true, and return it."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            if found := seen(self):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not seen within {deadline_s} s; the logs: {self.logs()[-3000:]}")

    def logs(self) -> str:
        """What libraries printed."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("logs/*.log")))

    def training_checkpoints(self) -> list[Path]:
        """Training checkpoints of unfinished trials."""
        try:
            records = list(self.folder.glob("trials/*/steps/*/*.json"))
        except FileNotFoundError:  # a folder went while it was looked through: who waits looks again
            return []
        return [path.parent for path in records if ".partial" not in str(path)]


def _environment() -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **_PLAIN}


def make_sweep_in(home: Path, **blocks: Any) -> Sweep:
    """Make a sweep in a folder; keyword arguments replace or extend blocks of the file."""
    write_collection(home / "data")
    content = small_content("tiny", "zoo", steps=6) | {
        "storage": str(home / "sweep"),
        "data_sets": [{"name": "zoo", "source": "path:data", "train_split": "train"}],
    }
    (home / "sweep.yaml").write_text(yaml.safe_dump(extended(content, blocks), sort_keys=False))
    return Sweep(file=home / "sweep.yaml", folder=home / "sweep")
