"""Provenance names the project's own checkout, and nothing of the host."""

import json
import socket
import subprocess
from importlib import metadata

import pytest

from trainers.provenance import git_state, package_versions, provenance


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *identity, "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "tracked.txt").write_text("one")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_clean_checkout_and_a_changed_one(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "untracked.txt").write_text("not part of the code")
    assert git_state(checkout) == (commit, False)
    (checkout / "tracked.txt").write_text("two")
    assert git_state(checkout) == (commit, True)


def test_a_folder_inside_another_checkout_is_not_that_checkout(checkout):
    assert git_state(checkout / "inner") == (None, None)


def test_no_checkout_and_no_commit(tmp_path):
    assert git_state(tmp_path) == (None, None)
    git(tmp_path, "init", "--quiet")
    assert git_state(tmp_path) == (None, None)


def test_a_hooks_git_dir_does_not_answer_for_the_project(checkout, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert git_state(checkout) == (commit, False)


def test_versions_of_a_distribution_and_what_it_requires():
    versions = package_versions("ir_measures")
    assert versions["ir_measures"] == metadata.version("ir_measures")
    assert any(name.startswith("pytrec") for name in versions)
    assert package_versions("no-such-distribution") == {}


def test_what_is_kept_reads_back_and_names_no_host():
    kept = json.loads(provenance().to_json())
    assert kept["num_cores"] >= 1
    assert kept["memory_bytes"] > 2**28
    assert kept["python"].startswith("3.")
    assert socket.gethostname() not in provenance().to_json()
