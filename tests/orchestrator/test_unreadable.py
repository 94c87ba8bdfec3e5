"""Records that are damaged, or that another version wrote, are one line that says what is wrong, at every command."""

import json
import sys

import pytest

from orchestrator.cli import main
from results.layout import SWEEP_RECORD, evaluations_key, spec_key, status_key, to_bytes, trial_prefix
from results.store import open_store
from search_spaces.problems import UnreadableError
from search_spaces.specs import TrialSpec, from_json, to_json
from tests.results.builders import SweepFolder, evaluation, trained, two_queries


@pytest.fixture
def folder(tmp_path):
    """A finished trial of an older version, whose spec has a field that this one does not know, and lacks another."""
    built = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=(evaluation("attack", "in_domain"),))
    spec = trained("cosine")
    key = built.add_trial(spec, two_queries((0.5, 0.25)), spec_json=of_an_older_version(spec))
    built.store.write(spec_key(trial_prefix(key)), of_an_older_version(spec).encode())
    built.store.write(SWEEP_RECORD, to_bytes(built.record()))
    return built


def of_an_older_version(spec):
    content = json.loads(to_json(spec))
    del content["training"]["steps"]
    return json.dumps(content)


def densesweep(monkeypatch, capsys, *arguments):
    """(exit code, lines of standard error) of a command."""
    monkeypatch.setattr(sys, "argv", ["densesweep", *arguments])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err.splitlines()


def test_the_first_fault_is_told():
    spec = trained("cosine")
    with pytest.raises(
        UnreadableError, match=r"another version of densesweep wrote it: training\.steps: Field required$"
    ):
        from_json(TrialSpec, of_an_older_version(spec))
    with pytest.raises(UnreadableError, match=r"a trial's spec is damaged, .* Invalid JSON"):
        from_json(TrialSpec, to_json(spec)[:100])


def test_tables_of_an_older_version_are_one_line(folder, monkeypatch, capsys):
    code, lines = densesweep(monkeypatch, capsys, "tables", folder.store.uri, "gains", "--allow-missing")
    assert code == 2
    [line] = lines
    assert "another version of densesweep wrote it: training.steps: Field required" in line
    assert "densesweep doctor" in line


@pytest.mark.parametrize("key", [SWEEP_RECORD, "status", "evaluations"])
@pytest.mark.parametrize("command", ["status", "tables"])
def test_damaged_records_are_one_line(folder, monkeypatch, capsys, key, command):
    prefix = trial_prefix(folder.trials[0].trial_id)
    keys = {"status": status_key(prefix), "evaluations": evaluations_key(folder.trials[0].trial_id)}
    key = keys.get(key, key)
    folder.store.write(spec_key(prefix), to_json(trained("cosine")).encode())
    folder.store.write(key, folder.store.read(key)[:-20])
    code, lines = densesweep(monkeypatch, capsys, command, folder.store.uri)
    assert code == 2
    [line] = lines
    assert "is damaged, or another version of densesweep wrote it" in line


def test_doctor_names_the_record(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["densesweep", "doctor", folder.store.uri])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main()
    told = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 1
    assert spec_key(trial_prefix(folder.trials[0].trial_id)) in told
    assert "training.steps: Field required" in told
