"""`densesweep doctor` on the record of a search: a damaged one is told of, and removed."""

import pytest

from orchestrator.doctor import examine
from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from results.layout import study_key
from results.schemas import SchemaError
from results.store import open_store
from results.studies import StudyRecord, planned_samples, read_study, write_study


@pytest.fixture
def searched(make_sweep):
    """A sweep that searches, its folder with a whole record of its search, and the search."""
    sweep = make_sweep(
        axes={"similarity": "cosine"},
        training={"learning_rate": None},
        validation={"data": "zoo/test", "every_steps": 2},
        tune={"spaces": {"learning_rate": {"loguniform": [1e-5, 1e-2]}}, "num_samples": 2, "seed": 9},
    )
    store, record = open_store(str(sweep.folder)), sweep_record(make_plan(resolve(sweep.file), None))
    [study] = record.studies
    write_study(store, study.study_id, StudyRecord(title=study.title, samples=()))
    return store, record, study.study_id


def _broken(store, record):
    found = examine(store, record, lock="held", hashes=False)
    return [finding for finding in found if finding.severity == "broken"]


def test_a_damaged_record_is_told_in_one_line_and_removed(searched):
    store, record, study = searched
    assert _broken(store, record) == []
    store.write(study_key(study), b'{"title": ')
    with pytest.raises(SchemaError, match=f"^studies/{study}/study.json is damaged, or .* doctor --repair removes it"):
        list(planned_samples(store, record))
    [finding] = _broken(store, record)
    assert finding.where == study_key(study)
    finding.cure()
    assert read_study(store, study) is None
    assert _broken(store, record) == []
