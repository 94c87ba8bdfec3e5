"""What every pod looks at before Ray starts: real folders and a real bucket, and versions that are installed."""

import subprocess
import sys

import pytest

from orchestrator.kubernetes.preflight import parse_expected, preflight
from orchestrator.kubernetes.settings import client_versions
from results.store import open_store
from search_spaces.problems import InputError

EXPECTED = str(client_versions())


def look(storage, expected=EXPECTED):
    command = [
        sys.executable,
        "-m",
        "orchestrator.cli",
        "k8s",
        "preflight",
        "--storage",
        str(storage),
        "--expect",
        expected,
    ]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_folder_that_can_be_written_to_is_reached_and_left_as_it_was(tmp_path):
    done = look(tmp_path / "sweep")
    assert (done.returncode, done.stderr) == (0, "")
    assert not [path for path in (tmp_path / "sweep").rglob("*") if path.is_file() and "preflight" in str(path)]


def test_a_folder_that_cannot_be_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = look(tmp_path / "file" / "sweep")
    assert done.returncode == 2
    assert done.stderr.startswith("error: pod ")
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "file") in done.stderr


def test_another_version_is_told_before_the_storage_is_touched(tmp_path):
    other = EXPECTED.replace(f"ray={client_versions().ray}", "ray=2.1.0")
    done = look(tmp_path / "sweep", other)
    assert done.returncode == 2
    assert f"the image has ray {client_versions().ray}, and the RayJob was rendered for 2.1.0" in done.stderr
    assert not (tmp_path / "sweep").exists()


def test_a_bucket_is_reached(s3_bucket):
    preflight(f"{s3_bucket}/sweep", parse_expected(EXPECTED))
    assert open_store(f"{s3_bucket}/sweep").list("") == [], "what it wrote there is gone again"


def test_what_is_expected_has_to_be_named():
    with pytest.raises(InputError, match=r"--expect: 'torch=1' is no NAME=VERSION \(names: densesweep, ray, python\)"):
        parse_expected("torch=1")
