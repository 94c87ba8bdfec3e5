"""Groups that a sweep file writes without a list, data sets of several parts, and sets read from another place."""

import re

import pytest

from search_spaces.catalogue.data_sets import PARTS, default_groups
from search_spaces.expand import expand, named_data
from search_spaces.problems import InputError

FORUMS = PARTS["cqadupstack"]


@pytest.mark.parametrize("groups", [{"beir": "all"}, {"beir": None}, ["beir"], "beir"])
def test_a_default_group_stands_for_its_entries(parse, raw, groups):
    raw["evaluation"] = {"groups": groups}
    assert parse(raw).evaluation.groups == {"beir": default_groups()["beir"]}


def test_several_groups_and_a_list_beside_them(parse, raw):
    raw["evaluation"] = {"groups": {"bright": "all", "multi_hop": None, "mine": ["attack", "scifact"]}}
    found = parse(raw).evaluation.groups
    assert list(found) == ["bright", "multi_hop", "mine"]
    assert len(found["bright"]) == 12
    assert found["mine"] == ("attack", "scifact")


def test_a_data_set_of_parts_is_all_of_them(parse, raw):
    raw["evaluation"] = {"groups": {"forums": "cqadupstack", "some": ["scifact", "cqadupstack/test"]}}
    found = parse(raw).evaluation.groups
    assert found["forums"] == FORUMS
    assert found["some"] == ("scifact", *(f"{forum}/test" for forum in FORUMS))


def test_a_data_set_in_two_groups_is_evaluated_once(parse, raw):
    raw["evaluation"] = {"groups": {"beir": "all", "multi_hop": "all", "qa": ["nq", "hotpotqa"]}}
    evaluations = expand(parse(raw), where="sweep.yaml").evaluations
    [hotpotqa] = [e for e in evaluations if e.spec.data.name == "hotpotqa"]
    assert hotpotqa.groups == ("beir", "multi_hop", "qa")
    assert len(evaluations) == len({e.spec.data.name for e in evaluations})


def test_the_files_own_data_sets_may_join_a_group(parse, raw, tmp_path):
    (tmp_path / "mine").mkdir()
    raw["data_sets"] = [{"name": "mine", "source": "path:mine", "groups": ["bright", "own"]}]
    raw["evaluation"] = {"groups": ["bright", "own"]}
    found = parse(raw).evaluation.groups
    assert found["bright"] == (*default_groups()["bright"], "mine")
    assert found["own"] == ("mine",)


def test_the_files_own_data_sets_may_be_parts_of_one(parse, raw, tmp_path):
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
    raw["data_sets"] = [{"name": n, "source": f"path:{n}", "part_of": "poles"} for n in ("north", "south")]
    raw["evaluation"] = {"groups": {"own": ["scifact", "poles"], "more": "poles/dev"}}
    found = parse(raw).evaluation.groups
    assert found == {"own": ("scifact", "north", "south"), "more": ("north/dev", "south/dev")}


@pytest.mark.parametrize(
    ("name", "part_of", "message"),
    [
        ("north", "scifact", "data_sets[0].part_of: 'scifact' is a data set itself"),
        ("north", "north", "data_sets[0].part_of: 'north' is a data set itself"),
        ("cqadupstack", None, "data_sets[0].name: 'cqadupstack' is taken already"),
    ],
)
def test_a_whole_has_a_name_of_its_own(parse, raw, tmp_path, name, part_of, message):
    (tmp_path / "north").mkdir()
    raw["data_sets"] = [{"name": name, "source": "path:north", "part_of": part_of}]
    with pytest.raises(InputError, match=re.escape(message)):
        parse(raw)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"bier": "all"}, "'bier' is not a group of the catalogue (did you mean 'beir'?)"),
        ({"own": None}, "name the data sets of another: own: [NAME, ...]"),
        (["beir", "beir"], "'beir' stands twice"),
        ({"own": ["cqadupstak"]}, "'cqadupstak' is not a data set (did you mean 'cqadupstack-"),
        ({"own": ["scifact", "scifact"]}, "'scifact' stands twice"),
        ({"own": 3}, "evaluation.groups.own"),
        ({}, "evaluation.groups: there is no group to evaluate on (write default groups, such as [beir, bright]"),
        ([], "evaluation.groups: there is no group to evaluate on"),
        (None, "evaluation.groups: there is no group to evaluate on"),
        (7, "evaluation.groups: 7 are no groups (write default groups"),
        ([["beir"]], "evaluation.groups: [['beir']] are no groups"),
        ({"own": []}, "evaluation.groups: group 'own' has no data set: name some (own: [NAME, ...]), or leave it out"),
        ({"own": ""}, "evaluation.groups: group 'own' has no data set"),
        ({"own": ["beir"]}, "'beir' is a default group, not a data set (evaluation.groups takes it: beir: all)"),
    ],
)
def test_groups_that_cannot_be_meant(parse, raw, groups, message):
    raw["evaluation"] = {"groups": groups}
    with pytest.raises(InputError, match=re.escape(message)):
        parse(raw)


def test_primary_groups_are_held_against_the_written_out_ones(parse, raw):
    raw["evaluation"] = {"groups": ["beir"], "primary_groups": ["bier"]}
    with pytest.raises(InputError, match="did you mean 'beir'"):
        parse(raw)


def test_a_set_of_the_catalogue_is_read_from_another_place(parse, raw, tmp_path):
    (tmp_path / "local").mkdir()
    raw["data_sources"] = {"scifact": "path:local"}
    raw["evaluation"] = {"groups": {"mine": ["scifact", "arguana"]}}
    data = {spec.name: spec.entry for spec in named_data(parse(raw))}
    assert data["scifact"].source == f"path:{tmp_path / 'local'}"
    assert data["scifact"].groups == ("beir",)
    assert data["arguana"].source.startswith("hf:mteb/arguana@")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"scifct": "path:local"}, "'scifct' is not a data set of the catalogue (did you mean 'scifact'?)"),
        ({"cqadupstack": "path:local"}, "name its parts: cqadupstack-android"),
        ({"scifact": "path:nowhere"}, "data_sources.scifact: there is no file or folder"),
        ({"scifact": "hf:org/name"}, "has no pinned revision"),
        ({"scifact": "local"}, "is not a source"),
    ],
)
def test_sources_that_are_none(parse, raw, tmp_path, sources, message):
    (tmp_path / "local").mkdir()
    raw["data_sources"] = sources
    with pytest.raises(InputError, match=re.escape(message)):
        parse(raw)


def test_named_data_is_all_that_a_sweep_reads(parse, raw):
    raw["axes"]["training_data"] = ["attack", "msmarco_v1"]
    raw["validation"] = {"every_steps": 5}
    found = {(spec.name, spec.split) for spec in named_data(parse(raw))}
    assert found == {
        ("attack", "train"),
        ("attack", "dev"),
        ("attack", "test"),
        ("msmarco_v1", "train"),
        ("msmarco_v1", "validation"),
        ("pydoc_small", "test"),
    }
