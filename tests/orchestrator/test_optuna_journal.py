"""What Optuna and its dashboard read of a sweep's studies."""

import io
import json
from dataclasses import replace

import optuna
import optuna_dashboard
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from orchestrator.tuning.optuna_journal import OptunaStudies
from orchestrator.tuning.study import Study
from results.layout import STUDIES_JOURNAL
from results.store import open_store
from results.studies import StudyRecord, worth
from tests.orchestrator.test_study import cell, simulate


@pytest.fixture
def folder(tmp_path):
    return open_store(str(tmp_path / "sweep"))


def _read(store):
    """The one study of the journal, as Optuna itself reads the file."""
    storage = JournalStorage(JournalFileBackend(f"{store.uri}/{STUDIES_JOURNAL}"))
    [name] = optuna.get_all_study_names(storage)
    return optuna.load_study(study_name=name, storage=storage)


def _agree(study, shown):
    assert len(shown.trials) == len(study.record.samples)
    states = {"finished": "COMPLETE", "pruned": "PRUNED", "drawn": "RUNNING", "failed": "FAIL"}
    for sample, trial in zip(study.samples, shown.trials, strict=True):
        assert trial.state.name == states[sample.state]
        assert trial.params == sample.values
        assert trial.intermediate_values == dict(sample.scores)
        assert trial.user_attrs["trial_id"] == sample.trial_id
        if sample.state in ("finished", "pruned"):
            assert trial.value == worth("best_validation", sample.scores)


def test_optuna_reads_a_study_at_any_moment_and_after_a_kill(folder):
    whole, _ = simulate(cell())
    samples = whole.record.samples
    for length in (3, 9, 16):  # each by a driver of its own, the last sample under way
        begun = StudyRecord(
            title=whole.title, samples=(*samples[: length - 1], replace(samples[length - 1], state="drawn"))
        )
        study = Study(whole.cell, "id", begun)
        shown = OptunaStudies(folder)
        shown.show(study)
        shown.close()
        _agree(study, _read(folder))
    shown = OptunaStudies(folder)
    shown.show(whole)
    shown.close()
    _agree(whole, _read(folder))
    assert _read(folder).best_trial.number == whole.found
    assert _read(folder).direction.name == "MAXIMIZE"


def test_scores_are_seen_while_a_sample_trains(folder):
    study = Study(cell(), "id", None)
    study.draw()
    shown = OptunaStudies(folder)
    for step, score in ((3, 0.2), (6, 0.4)):
        study.hear_steps(study.under_way[0], [{"step": step, "validation_score": score}])
        shown.show(study)
    shown.close()
    [trial] = _read(folder).trials
    assert trial.intermediate_values == {3: 0.2, 6: 0.4}
    assert trial.state.name == "RUNNING"


def test_a_failed_sample_that_is_trained_again_is_another_trial(folder):
    whole, _ = simulate(cell(num_samples=3, asha=None), fails=(1,))
    for study in (whole, Study(whole.cell, "id", whole.record)):
        shown = OptunaStudies(folder)
        shown.show(study)
        shown.close()
    assert [(t.user_attrs["sample"], t.state.name) for t in _read(folder).trials] == [
        (0, "COMPLETE"),
        (1, "FAIL"),
        (2, "COMPLETE"),
        (1, "RUNNING"),
    ]


def test_a_lost_journal_is_made_anew(folder):
    whole, _ = simulate(cell())
    for _ in range(2):
        shown = OptunaStudies(folder)
        shown.show(whole)
        shown.close()
        _agree(whole, _read(folder))
        folder.delete(STUDIES_JOURNAL)


def test_optunas_dashboard_opens_it(folder):
    whole, _ = simulate(cell())
    shown = OptunaStudies(folder)
    shown.show(whole)
    shown.close()
    app = optuna_dashboard.wsgi(JournalStorage(JournalFileBackend(f"{folder.uri}/{STUDIES_JOURNAL}")))
    [study] = _get(app, "/api/studies")["study_summaries"]
    assert study["study_name"].startswith(whole.title)
    detail = _get(app, f"/api/studies/{study['study_id']}")
    states = {"finished": "Complete", "pruned": "Pruned"}
    assert [trial["state"] for trial in detail["trials"]] == [states[s.state] for s in whole.record.samples]


def _get(app, path):
    answer = {}

    def start(status, headers, exc_info=None):
        answer["status"] = status

    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
        "wsgi.url_scheme": "http",
    }
    body = b"".join(app(environ, start))
    assert answer["status"].startswith("200"), body
    return json.loads(body)
