"""Who refuses which manifest: the schema, CEL rules, KubeRay's controller; forty of the first set, as a server says."""

import pytest
from crds import cel_faults, num_rules, schema_faults
from labelled_manifests import CEL, CONTROLLER, SCHEMA
from sweeps_on_clusters import small_job

from orchestrator.kubernetes.rules import violations


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return small_job(tmp_path_factory.mktemp("sweep"))


def by_name(labelled):
    return labelled.name


def test_forty_are_told_by_the_schema_alone():
    assert len(SCHEMA) == len({labelled.name for labelled in SCHEMA}) == 40
    assert sum(labelled.refused for labelled in SCHEMA) == 19


@pytest.mark.parametrize("labelled", SCHEMA, ids=by_name)
def test_the_schema_says_so(right, labelled):
    faults = schema_faults(labelled.manifest(right))
    assert bool(faults) == labelled.refused, faults


@pytest.mark.parametrize("labelled", CEL, ids=by_name)
def test_a_cel_rule_says_so_where_the_schema_is_content(right, labelled):
    manifest = labelled.manifest(right)
    assert schema_faults(manifest) == []
    faults = cel_faults(manifest)
    assert bool(faults) == labelled.refused, faults
    assert labelled.message in " ".join(faults)


def test_every_cel_rule_of_a_rayjob_that_can_be_broken_at_its_creation_is_broken_once(right):
    broken = {(message) for labelled in CEL for message in cel_faults(labelled.manifest(right))}
    assert num_rules("RayJob") == 9
    assert len(broken) == 5  # two stand in two places; the other three are of changes


def test_what_may_not_change_later(right):
    managed = {**right, "spec": {**right["spec"], "managedBy": "ray.io/kuberay-operator"}}
    moved = {**right, "spec": {**right["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}
    assert cel_faults(moved, before=managed) == ["the managedBy field is immutable"]
    assert cel_faults(managed, before=managed) == []


@pytest.mark.parametrize("labelled", CONTROLLER, ids=by_name)
def test_our_rules_say_so_in_one_line(right, labelled):
    found = violations([labelled.manifest(right)])
    assert bool(found) == labelled.refused, found
    assert all(line.startswith("RayJob ") and "\n" not in line for line in found)
    assert any(labelled.message in line for line in found) or not labelled.refused, found


def test_the_labels_are_different():
    names = [labelled.name for labelled in (*CEL, *CONTROLLER)]
    assert len(names) == len(set(names))
