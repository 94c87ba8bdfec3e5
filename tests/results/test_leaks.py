"""Leaks: a split that is reported and that trainings, or the choice among their checkpoints, have seen."""

from dataclasses import replace

import pytest

from results.collect import collect
from results.leaks import Part, Seen, leaks
from results.store import open_store
from results.tables import TABLES, TableOptions
from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.specs import DataSpec, ValidationSpec
from tests.results.builders import SweepFolder, evaluation, trained, two_queries

TRAIN, DEV, TEST = (Part(data_set="zoo", split=split, content_hash=split) for split in ("train", "dev", "test"))


def told(training, validation, *reported, is_tuned=False):
    return [line.partition(":")[0] for line in leaks([Seen(training=training, validation=validation)], reported,
                                                     is_tuned=is_tuned)]  # fmt: skip


def test_three_splits_leak_nothing():
    assert told(TRAIN, DEV, TEST) == told(TRAIN, None, TEST) == []


def test_each_pair_of_uses_of_one_split_is_told():
    assert told(TRAIN, TEST, TEST) == ["zoo/test is validated on and reported"]
    assert told(TEST, DEV, TEST) == ["zoo/test is trained on and reported"]
    assert told(DEV, DEV, TEST) == ["zoo/dev is trained and validated on"]
    assert len(told(TEST, TEST, TEST)) == 3


def test_one_content_under_two_names_is_one_split():
    copy = replace(TEST, data_set="copy", split="dev")
    assert told(TRAIN, copy, TEST) == ["copy/dev is validated on and reported"]
    unknown = replace(copy, content_hash=None)
    assert told(TRAIN, unknown, replace(TEST, content_hash=None)) == []


def test_what_was_chosen_is_named():
    [line] = leaks([Seen(training=TRAIN, validation=TEST)], [TEST], is_tuned=True)
    assert line.endswith("checkpoints and hyperparameters are chosen by the scores that are shown of it")


@pytest.mark.parametrize("split", ["dev", "test"])
def test_tables_of_a_sweep_that_was_validated_on_what_it_reports_say_so(tmp_path, split):
    planned = evaluation("attack", "in_domain")
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=(planned,))
    content = planned.data_hash if split == planned.split else "e" * 64
    data = DataSpec(entry=DATA_SETS["attack"], split=split, content_hash=content, num_pairs=2)
    for similarity in ("cosine", "qnorm"):
        spec = replace(trained(similarity), validation=ValidationSpec(data=data, every_steps=1))
        folder.add_trial(spec, two_queries((0.4, 0.3)))
    notes = TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions()).notes
    leak = "Leak: attack/test is validated on and reported: checkpoints are chosen by the scores that are shown of it."
    assert (leak in notes) == (split == "test")
