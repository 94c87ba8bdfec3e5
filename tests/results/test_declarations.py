"""Primary groups are those declared before there were results; what is declared later is told, and decides nothing."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orchestrator.open_sources import open_sources
from results.collect import collect
from results.collecting import write_collected
from results.declarations import PrimaryGroups, declared_groups
from results.layout import SWEEP_RECORD, SweepRecord, from_bytes, to_bytes
from results.sources import collect_source
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, probe, trained, two_queries


@pytest.fixture
def folder(tmp_path):
    evaluations = (evaluation("attack", "beir"), evaluation("pydoc_small", "bright"))
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=evaluations, primary_groups=("beir",))


def declare(folder, *groups, by_default=False):
    """What a run of the sweep file that declares these groups leaves in the record."""
    found = declared_groups(PrimaryGroups(groups=groups, by_default=by_default), folder.store)
    folder.primary_groups, folder.redeclared = found.groups, found.redeclared
    record = replace(folder.record(), primary_by_default=found.by_default)
    folder.store.write(SWEEP_RECORD, to_bytes(record))
    return from_bytes(SweepRecord, folder.store.read(SWEEP_RECORD))


def test_until_a_trial_has_finished_the_file_decides(folder):
    folder.plan_trial(trained("qnorm"))
    assert declare(folder, "beir").primary_groups == ("beir",)
    changed = declare(folder, "bright")
    assert (changed.primary_groups, changed.redeclared) == (("bright",), ())


def test_then_the_first_declaration_decides_and_each_change_is_kept_with_its_time(folder):
    for similarity in ("qnorm", "dnorm"):
        folder.add_trial(trained(similarity), two_queries((0.4, 0.3)))
    folder.add_probe(probe(), {16: -0.2})
    declare(folder, "beir", "bright")
    assert declare(folder, "bright", "beir").redeclared == (), "another order is no other declaration"
    before = datetime.now(UTC).replace(microsecond=0)
    changed = declare(folder, "bright")
    assert changed.primary_groups == ("beir", "bright")
    [later] = changed.redeclared
    assert later.groups == ("bright",)
    assert before <= datetime.fromisoformat(later.at) <= datetime.now(UTC)
    assert declare(folder, "bright").redeclared == (later,), "told once"
    back = declare(folder, "beir", "bright")
    assert [one.groups for one in back.redeclared] == [("bright",), ("beir", "bright")]

    told = (
        f"other primary groups (bright) on {later.at}, when trials had finished; those declared first decide (beir, br"
    )
    collected = collect(folder.store, back)
    for name in ("fisher_check", "fisher_summary", "fisher_tau", "claims"):
        notes = TABLES[name].build(collected, TableOptions()).notes
        assert any(told in note for note in notes), name


def test_groups_that_nobody_declared_are_not_told_as_declared(folder):
    for similarity in ("qnorm", "dnorm"):
        folder.add_trial(trained(similarity), two_queries((0.4, 0.3)))
    folder.add_probe(probe(), {16: -0.2})
    first = declare(folder, "beir", by_default=True)
    grown = declare(folder, "beir", "bright", by_default=True)
    assert grown.primary_by_default
    assert grown.redeclared[0].by_default
    for name in ("fisher_check", "fisher_summary", "fisher_tau"):
        before, after = (
            " ".join(TABLES[name].build(collect(folder.store, r), TableOptions()).notes) for r in (first, grown)
        )
        assert "by default, since the sweep file names none" in before
        assert "declared" not in before
        assert "the sweep file, which names no primary groups, has others by default (beir, bright) since" in after
    named = declare(folder, "bright")
    assert not named.redeclared[-1].by_default
    assert named.primary_by_default, "those of the record decide"


def test_changes_of_every_source_are_told_under_its_name_and_stay_so_when_collected(tmp_path):
    """Each changed its groups once; the second source's change must not be lost beside the first one's."""
    uris = []
    for name, similarity, first, later in (("a", "qnorm", "beir", "bright"), ("b", "dnorm", "bright", "beir")):
        evaluations = (evaluation("attack", "beir"), evaluation("pydoc_small", "bright"))
        folder = SweepFolder(store=open_store(str(tmp_path / name)), evaluations=evaluations, primary_groups=(first,))
        folder.add_trial(trained(similarity), two_queries((0.4, 0.3)))
        declare(folder, first)
        declare(folder, later)
        uris.append(folder.store.uri)
    both = open_sources(uris)
    write_collected(both, collect_source(both), tmp_path / "all")
    for source in (both, open_sources([str(tmp_path / "all")])):
        notes = TABLES["claims"].build(collect_source(source), TableOptions()).notes
        told = [note.partition(" on 20")[0] for note in notes if "declared other primary groups" in note]
        assert told == [
            f"Careful: the sweep file of {uris[0]} declared other primary groups (bright)",
            f"Careful: the sweep file of {uris[1]} declared other primary groups (beir)",
        ]
