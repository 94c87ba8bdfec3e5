"""Several sources read as one, and the collected folder: what is joined, what is told, what is refused."""

import secrets
from dataclasses import replace

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from orchestrator.open_sources import open_sources
from results.collect import collect
from results.collected_folder import read_record
from results.collecting import write_collected
from results.layout import SWEEP_RECORD, per_query_rows, probe_rows, status_key, to_bytes, trial_prefix, trial_rows
from results.rows import read_rows, write_rows
from results.sources import collect_source
from results.store import open_store
from results.tables import TABLES, applicable
from results.tables.table import TableOptions
from search_spaces.identity import evaluation_id, trial_id
from search_spaces.problems import InputError
from tests.results.builders import (
    SweepFolder,
    add_magnitudes,
    evaluation,
    evaluation_spec,
    failed,
    probe,
    similarity_spec,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)

SCORES = two_queries((0.5, 0.3))
ATTACK, PYDOC = evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain")


@pytest.fixture
def folders(tmp_path):
    """A maker of sweep folders, by name."""

    def make(name, *evaluations):
        return SweepFolder(store=open_store(str(tmp_path / name)), evaluations=evaluations or (ATTACK, PYDOC))

    return make


def uri(folder):
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return folder.store.uri


def rows_of(*uris):
    return collect_source(open_sources(uris))


def assert_alike(one, other):
    """All rows, tables and what is told of them; but for what comes twice, which is in table `missing`."""
    for name in ("trials", "expected", "expected_sts", "expected_answers", "per_query", "answers", "correlations"):
        left, right = getattr(one, name), getattr(other, name)
        assert_frame_equal(left, right, check_row_order=name not in ("per_query",), rel_tol=1e-12)
    assert_frame_equal(one.norms(), other.norms())
    assert_frame_equal(one.history(), other.history())
    assert_frame_equal(one.probes, other.probes)
    assert (one.missing, one.warnings) == (other.missing, other.warnings)
    for name in applicable(one.record):
        built, again = (TABLES[name].build(collected, TableOptions()) for collected in (one, other))
        if name == "missing":
            again = replace(again, rows=again.rows.filter(pl.col("kind") != "duplicate"))
        assert_frame_equal(built.rows, again.rows, rel_tol=1e-12)
        assert (built.notes, built.holes) == (again.notes, again.holes), name


@pytest.mark.parametrize("which", ["small_folder", "seeded_folder"])
def test_a_collected_folder_gives_the_tables_of_its_sweep(request, tmp_path, which):
    folder = request.getfixturevalue(which)
    source = open_sources([uri(folder)])
    write_collected(source, collect_source(source), tmp_path / "all")
    assert_alike(collect(folder.store, folder.record()), rows_of(str(tmp_path / "all")))


def test_collected_rows_are_plain_parquet_with_their_cells(folders, tmp_path):
    folder = folders("a", evaluation("hotpotqa", "beir", "multi_hop"), evaluation("nq", "beir"))
    folder.add_trial(trained("qnorm", seed=3), SCORES, packages={"torch": "2.0"})
    source = open_sources([uri(folder)])
    write_collected(source, collect_source(source), tmp_path / "all")

    rows = pl.DataFrame(pq.ParquetFile(tmp_path / "all" / "per_query.parquet").read())
    main = rows.filter("is_main")
    assert main.select("group", "data_set", "query_id", "measure", "value", "similarity", "seed").rows() == [
        (group, data_set, query, "nDCG@10", pytest.approx(value), "qnorm", 3)
        for group, data_set in (("beir", "hotpotqa"), ("multi_hop", "hotpotqa"), ("beir", "nq"))
        for query, value in (("q0", 0.2), ("q1", 0.4))
    ]
    assert set(main["family"]) == {"minilm"}
    [told] = read_record(tmp_path / "all").sources
    assert (told.uri, told.kind, told.num_trials) == (folder.store.uri, "sweep folder", 1)
    assert told.made_with == ({"num_trials": 1, "packages": {"torch": "2.0"}},)


def test_two_sweeps_are_one_and_so_is_the_folder_collected_of_them(folders, tmp_path):
    one, other = folders("a"), folders("b")
    one.add_trial(trained("cosine"), SCORES)
    one.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    other.add_trial(trained("qnorm"), two_queries((0.6, 0.4)))
    other.add_probe(probe(), {16: 0.1})
    both = folders("both")
    both.add_trial(trained("cosine"), SCORES)
    both.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    both.add_trial(trained("qnorm"), two_queries((0.6, 0.4)))
    both.add_probe(probe(), {16: 0.1})
    for folder in (one, other, both):
        add_magnitudes(folder)

    joined = open_sources([uri(one), uri(other)])
    assert_alike(rows_of(uri(both)), collect_source(joined))
    write_collected(joined, collect_source(joined), tmp_path / "all")
    assert_alike(rows_of(uri(both)), rows_of(str(tmp_path / "all")))
    again = rows_of(str(tmp_path / "all"), uri(one))  # a source among others
    assert_alike(rows_of(uri(both)), again)
    assert TABLES["missing"].build(again, TableOptions()).rows.select("kind", "trial").rows() == [
        ("duplicate", trained("cosine").title),
        ("duplicate", untrained().title),
    ]


def test_identical_trials_count_once_and_are_told(folders):
    one, other = folders("a"), folders("b")
    for folder in (one, other):
        folder.add_trial(trained("cosine"), SCORES)
        folder.add_probe(probe(), {16: 0.1})
    collected = rows_of(uri(one), uri(other))
    assert collected.trials.height == 1
    assert collected.per_query.filter("is_main").height == 4
    assert collected.probes["probe_id"].n_unique() == 1
    assert [f.title for f in collected.findings] == [trained("cosine").title, probe().title]
    assert {f.kind for f in collected.findings} == {"duplicate"}
    assert all("identical rows in" in f.reason for f in collected.findings)


def test_a_checkpoint_trained_twice_counts_once_and_says_so(folders):
    one, other = folders("a"), folders("b")
    one.add_trial(trained("cosine"), SCORES, train_wall_s=10.0)
    other.add_trial(trained("cosine"), SCORES, train_wall_s=12.0)
    collected = rows_of(uri(one), uri(other))
    assert collected.trials["train_wall_s"].to_list() == [10.0]
    [found] = collected.findings
    assert "trained more than once to one checkpoint (train_wall_s of the first count)" in found.reason


def change_trial(folder, key):
    [row] = read_rows(folder.store, trial_rows(key), "trials").to_pylist()
    write_rows(folder.store, trial_rows(key), "trials", [row | {"final_loss": 9.0}])
    return "final_loss"


def change_score(folder, key):
    rows = per_query_rows(evaluation_id(f"checkpoint-{key}", evaluation_spec(PYDOC), similarity_spec("cosine")))
    found = read_rows(folder.store, rows, "per_query").to_pylist()
    found[0]["value"] += 1e-6
    write_rows(folder.store, rows, "per_query", found)
    return "value"


def lose_a_query(folder, key):
    rows = per_query_rows(evaluation_id(f"checkpoint-{key}", evaluation_spec(PYDOC), similarity_spec("cosine")))
    write_rows(folder.store, rows, "per_query", read_rows(folder.store, rows, "per_query").to_pylist()[2:])
    return "4 rows, 2 rows"


def change_norms(folder, key):
    folder.write_norms(key, PYDOC, (5.0, 7.0, 3.0, 5.1))
    return "norm"


def change_judgements(folder, _):
    folder.write_judgements(PYDOC, {("q0", "d0"): 1, ("q1", "d1"): 2})
    return "relevance"


@pytest.mark.parametrize("change", [change_trial, change_score, lose_a_query, change_norms, change_judgements])
def test_a_trial_with_different_rows_in_two_sources_is_refused(folders, change):
    one, other = folders("a"), folders("b")
    for folder in (one, other):
        key = folder.add_trial(trained("cosine"), SCORES)
        folder.write_norms(key, PYDOC, (5.0, 7.0, 3.0, 5.0))
        folder.write_judgements(PYDOC, {("q0", "d0"): 1, ("q1", "d1"): 1})
    what = change(other, key)
    with pytest.raises(InputError, match="different rows of it") as error:
        open_sources([uri(one), uri(other)])
    [problem] = error.value.problems
    assert what in problem.message
    assert one.store.uri in problem.message
    assert other.store.uri in problem.message
    assert problem.where == trained("cosine").title


def test_a_probe_with_different_rows_in_two_sources_is_refused(folders):
    one, other = folders("a"), folders("b")
    key = one.add_probe(probe(), {16: 0.1})
    other.add_probe(probe(), {16: 0.2})
    with pytest.raises(InputError, match=probe_rows(key)):
        open_sources([uri(one), uri(other)])


def test_what_failed_in_one_source_is_taken_from_the_other(folders):
    one, other = folders("a"), folders("b")
    one.plan_trial(trained("cosine"), status=failed("out of memory"))
    other.add_trial(trained("cosine"), SCORES)
    collected = rows_of(uri(one), uri(other))
    assert collected.missing == ()
    [found] = collected.findings
    assert f"failed (out of memory) in {one.store.uri}, so the rows of {other.store.uri} count" in found.reason


def test_what_failed_everywhere_is_missing_with_its_reason(folders):
    one, other = folders("a"), folders("b")
    for folder in (one, other):
        folder.plan_trial(trained("cosine"), status=failed("out of memory"))
    other.store.delete(status_key(trial_prefix(trial_id(trained("cosine")))))
    [missing] = rows_of(uri(other), uri(one)).missing
    assert missing.is_failed
    assert missing.reason == "failed: out of memory"


def test_trials_are_expected_on_the_groups_that_their_own_sweep_asks_for_and_on_all_of_each(folders):
    """The group 'out_of_domain' has two data sets here: a mean over one of them is not set beside one over both."""
    more = evaluation("nfcorpus", "out_of_domain")
    one, other = folders("a", PYDOC), folders("b", PYDOC, more, evaluation("nq", "others"))
    first = one.add_trial(trained("cosine"), SCORES)
    other.add_trial(trained("qnorm"), SCORES)
    collected = rows_of(uri(one), uri(other))
    [missing] = collected.missing
    assert (missing.trial_id, missing.what) == (first, "nfcorpus/test scored with cosine")
    assert missing.reason == "not asked for where the trial was run (run its sweep with this data set)"
    assert TABLES["gains"].build(collected, TableOptions()).holes == (str(missing),)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"main_measure": "R@100"}, "main measure is nDCG@10 in .* but R@100 here"),
        ({"relevance_threshold": 2}, "relevance threshold is 1 in .* but 2 here"),
        ({"part_of": "whole"}, "part of is none in .* but whole here"),
        ({"data_hash": "another"}, "has other content"),
    ],
)
def test_a_data_set_by_other_rules_or_of_other_content_is_refused(folders, changes, told):
    one, other = folders("a", PYDOC), folders("b", replace(PYDOC, **changes))
    one.add_trial(trained("cosine"), SCORES)
    other.add_trial(trained("qnorm"), SCORES)
    with pytest.raises(InputError, match=told):
        open_sources([uri(one), uri(other)])


def test_mixed_versions_and_tiers_are_told_of_each_trial(folders):
    one = folders("a", ATTACK, PYDOC)
    other = folders("b", ATTACK, evaluation("pydoc_small", "out_of_domain", tier="pool"))
    one.add_trial(trained("cosine"), SCORES, packages={"torch": "2.0"})
    one.add_trial(trained("qnorm"), SCORES, packages={"torch": "2.0"})
    odd = other.add_trial(trained("dnorm"), SCORES, packages={"torch": "2.1"})
    collected = rows_of(uri(one), uri(other))
    assert collected.missing == ()
    [mixed] = [f for f in collected.findings if f.kind == "version-mixed"]
    assert (mixed.trial_id, mixed.reason) == (odd, "torch 2.1 (most rows: 2.0)")
    tiers = {f.trial_id: f.reason for f in collected.findings if f.kind == "tier-mixed"}
    assert tiers[odd].startswith("full: attack; pool: pydoc_small")
    assert set(tiers) == set(collected.trials["trial_id"])


def test_a_folder_with_other_files_is_not_collected_into(folders, tmp_path):
    source = open_sources([uri(folders("a"))])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds something else"):
        write_collected(source, collect_source(source), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_collecting_again_replaces_what_was_collected(folders, tmp_path):
    folder = folders("a")
    for similarity in ("cosine", "qnorm"):
        folder.add_trial(trained(similarity), SCORES)
        source = open_sources([uri(folder)])
        write_collected(source, collect_source(source), tmp_path / "all")
    assert rows_of(str(tmp_path / "all")).trials.height == 2


def test_sources_that_are_none_are_told_all_together(tmp_path):
    with pytest.raises(InputError) as error:
        open_sources([str(tmp_path / "a"), str(tmp_path / "b")])
    assert [problem.where for problem in error.value.problems] == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_a_sweep_in_a_bucket_is_joined_with_one_on_disk(folders, s3_bucket):
    here, there = (
        folders("a"),
        SweepFolder(store=open_store(f"{s3_bucket}/{secrets.token_hex(6)}"), evaluations=(ATTACK, PYDOC)),
    )
    here.add_trial(trained("cosine"), SCORES)
    there.add_trial(trained("qnorm"), SCORES)
    both = folders("both")
    both.add_trial(trained("cosine"), SCORES)
    both.add_trial(trained("qnorm"), SCORES)
    assert_alike(rows_of(uri(both)), rows_of(uri(here), uri(there)))
