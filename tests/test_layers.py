"""The layers of DESIGN: a lower package never imports a higher one, and a framework lives in few modules."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("search_spaces", "results", "trainers", "orchestrator")
HOMES = {
    "mlflow": {"orchestrator/mlflow_client.py", "orchestrator/mlflow_runs.py", "orchestrator/model_registry.py"},
    "matplotlib": {"results/plots"},
    "ray": {"orchestrator"},
    "faiss": set(),
    "bm25s": {"trainers/evaluation/bm25.py"},
    "Stemmer": {"trainers/evaluation/bm25.py"},
    "accelerate": {"trainers/training/accelerators.py", "trainers/training/stepping.py"},
    "peft": {"trainers/encoders/adapters.py"},
    "transformers": {
        "trainers/encoders/backbones.py",
        "trainers/weights/gguf_conversion.py",
        "trainers/encoders/packing.py",
        "trainers/evaluation/reader.py",
    },
    "torch": {"trainers"},
    "typer": {
        "orchestrator/cli.py",
        "orchestrator/commands",
        "orchestrator/jobs/command.py",
        "orchestrator/kubernetes/command.py",
    },
    "aiohttp": {"orchestrator/jobs/api.py"},
    "lightkube": {"orchestrator/kubernetes/api.py"},
}


def test_import_contracts_hold():
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@cache
def imported(file):
    """Top-level names of all modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("framework", sorted(HOMES))
def test_a_framework_lives_in_few_modules(framework):
    users = {
        file.relative_to(PROJECT)
        for package in PACKAGES
        for file in (PROJECT / package).rglob("*.py")
        if framework in imported(file)
    }
    strangers = {user.as_posix() for user in users if not HOMES[framework] & {user.as_posix(), *map(str, user.parents)}}
    assert not strangers
    assert users or not HOMES[framework], f"no module imports {framework}: the list of its homes is stale"
