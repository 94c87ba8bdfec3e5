"""Explain: every number of every table leads back to its trials, probes, data and queries; what is no cell is told."""

import json

import polars as pl
import pytest

from results.collect import collect
from results.explain.behind import explain
from results.explain.cell import CellError, find_cell
from results.explain.show import as_json, as_text
from results.references import load_references
from results.rendering.values import is_text
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, failed, trained, two_queries, untrained, untrained_queries

OF_SEEDED = (
    "gains",
    "gains_by_dataset",
    "winners",
    "significance",
    "significance_by_dataset",
    "ranks",
    "seeds",
    "claims",
)


def collected_of(request, name):
    return request.getfixturevalue("seeded" if name in OF_SEEDED else "small")


def explained(collected, name, *words, **options):
    table = TABLES[name].build(collected, TableOptions(**options))
    return explain(collected, table, find_cell(table, words))


@pytest.mark.parametrize("name", TABLES)
def test_every_number_of_every_table_is_explained(request, name):
    """By its row's number and column: known trials or probes, their data, and queries wherever something was scored."""
    collected = collected_of(request, name)
    table = TABLES[name].build(collected, TableOptions())
    trials, probes = (set(ids) for ids in (collected.trials["trial_id"], collected.probes["probe_id"]))
    for number in sorted({*range(1, table.rows.height + 1, 9), *range(1, min(table.rows.height, 3) + 1)}):
        for column in table.columns:
            if is_text(column):
                continue
            found = explain(collected, table, find_cell(table, [str(number), f"column={column.key}"]))
            assert (found.row, found.column) == (number, column.key)
            value = table.rows[column.key][number - 1]
            if table.origin.published:
                assert "arXiv" in found.external
                continue
            assert {trial.trial_id for trial in found.trials} <= trials
            assert {probe.trial_id for probe in found.probes} <= probes
            if value is not None:
                assert found.trials or found.probes, (number, column.key)
                assert any(data.used_for in ("trained on", "probed on") for data in found.data) or all(
                    trial.seed is None or "untrained" in trial.title for trial in found.trials
                )
            evaluated = [data for data in found.data if data.used_for == "evaluated on"]
            if value is not None and (column.origin or table.origin).data != "none":
                assert evaluated, (number, column.key)
                assert all(data.num_queries for data in evaluated)
            assert found.table in as_text(found)
            assert json.loads(as_json(found))["column"] == column.key


@pytest.mark.parametrize("name", [name for name in TABLES if name != "missing"])
def test_what_an_origin_names_are_columns_of_the_rows(request, name):
    table = TABLES[name].build(collected_of(request, name), TableOptions())
    for origin in (table.origin, *(column.origin for column in table.columns if column.origin)):
        assert {*origin.trials, *origin.probes} <= set(table.rows.columns)
    assert table.formula or not any(not is_text(column) for column in table.columns)


def test_the_trials_of_a_gain_are_its_own_and_the_baselines(seeded):
    found = explained(
        seeded, "gains", "model=minilm", "regime=finetune", "group=beir", "similarity=qnorm", "column=gain"
    )
    ids = dict(seeded.trials.select("title", "trial_id").iter_rows())
    expected = [("own", f"minilm/finetune/qnorm/s{seed}") for seed in (0, 42, 1337)]
    expected += [("baseline", f"minilm/finetune/cosine/s{seed}") for seed in (0, 42, 1337)]
    assert sorted((t.role, t.title, t.trial_id) for t in found.trials) == sorted((r, t, ids[t]) for r, t in expected)
    assert found.seeds == (0, 42, 1337)
    # Query counts are lengths of names in this sweep, cqadupstack's forums count one by one.
    counted = {data.name: data.num_queries for data in found.data if data.used_for == "evaluated on"}
    names = ("nq", "fiqa", "hotpotqa", "cqadupstack/android", "cqadupstack/unix")
    assert counted == {name: 10 + len(name) for name in names}
    [trained_on] = [data for data in found.data if data.used_for == "trained on"]
    assert (trained_on.name, trained_on.split, trained_on.content_hash) == ("attack", "train", "hash-of-attack-train")
    assert found.value == pytest.approx(0.043, abs=1e-3)


def test_the_score_beside_it_has_its_own_trials_alone_and_untrained_those_before(seeded):
    cell = ("model=minilm", "init_regime=random", "group=beir", "label=qnorm")
    assert {t.role for t in explained(seeded, "gains", *cell, "score").trials} == {"own"}
    before = explained(seeded, "gains", *cell, "untrained").trials
    assert [t.role for t in before] == ["untrained"] * 3
    assert {t.seed for t in before} == {0, 42, 1337}


def test_a_claim_has_the_data_of_its_sides(seeded):
    groups = {
        claim: {group for data in explained(seeded, "claims", f"claim={claim}", "model=minilm", "adjusted_p").data
                if data.used_for == "evaluated on" for group in data.groups}
        for claim in ("magnitude_helps", "more_out_of_domain")
    }  # fmt: skip
    assert groups == {
        "magnitude_helps": {"beir", "multi_hop"},
        "more_out_of_domain": {"in_domain", "beir", "multi_hop"},
    }


def test_probes_are_behind_calls_and_trials_behind_winners(small):
    cell = ("1",)
    call = explained(small, "fisher_check", *cell, "difference")
    assert [p.trial_id for p in call.probes] == [small.probes["probe_id"][0]]
    assert not call.trials
    gain = explained(small, "fisher_check", *cell, "gain")
    assert {t.title.split("/")[2] for t in gain.trials} == {"qnorm", "dnorm"}
    assert not gain.probes


def test_answers_and_pairs_are_counted_as_such(small):
    [questions] = [d for d in explained(small, "rag", "1", "f1").data if d.used_for == "evaluated on"]
    assert (questions.name, questions.num_queries, questions.unit) == ("questions", 3, "questions")
    [pairs] = [d for d in explained(small, "sts", "1", "forward").data if d.used_for == "evaluated on"]
    assert (pairs.name, pairs.num_queries, pairs.unit) == ("stsb", 5, "scored pairs")


def test_a_missing_trial_says_why_it_is_not_there(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "in_domain"),))
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    folder.plan_trial(trained("qnorm"), status=failed("loss is NaN at step 7"))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    found = explained(collect(folder.store, folder.record()), "gains", "similarity=qnorm", "score")
    [trial] = found.trials
    assert trial.state == "missing: failed: loss is NaN at step 7"
    assert found.shown is None
    assert "its rows are missing" in as_text(found)


def test_an_external_number_names_its_source_file_and_line(seeded, tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("model,group,data_set,measure,similarity,value,source\nx,beir,,nDCG@10,qnorm,44,a paper\n")
    found = explained(
        seeded, "gains", "source=[1]", "similarity=qnorm", "score", references=load_references([str(path)])
    )
    assert "a paper" in found.external
    assert f"{path}:2" in found.external
    assert not found.trials
    assert "made by others" in as_text(found)


@pytest.mark.parametrize(
    "words",
    [
        ["model=minilm regime=finetune group=beir similarity=qnorm column=gain"],
        ["model=minilm,regime=finetune,group=beir,similarity=qnorm,column=gain"],
        ["model=MiniLM", "init regime=finetune", "group=beir", "label=qnorm", "gain"],
        ["family=minilm", "init_regime=finetune", "group=beir", "kind=train", "similarity=qnorm", "gain"],
    ],
)
def test_a_cell_may_be_written_in_several_ways(seeded, words):
    table = TABLES["gains"].build(seeded, TableOptions())
    found = find_cell(table, words)
    row = table.rows.row(found.number - 1, named=True)
    assert (row["model"], row["init_regime"], row["group"], row["label"]) == ("minilm", "finetune", "beir", "qnorm")
    assert found.column.key == "gain"
    again = find_cell(table, [str(found.number), "gain"])
    assert again.row == found.row


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["modell=minilm", "gain"], "did you mean 'model'"),
        (["model=minilmm", "gain"], "did you mean 'minilm'"),
        (["model=minilm", "gian", "1"], "did you mean 'gain'"),
        (["999", "gain"], "has rows 1 to"),
        (["1"], "which number of the row? Add one of: score ('nDCG@10'), gain"),
        (["1", "gain", "score"], "are two columns"),
        (["model=minilm", "regime=finetune", "label=qnorm", "gain"], "group=in_domain"),
    ],
)
def test_what_is_no_cell_is_told_with_what_there_is(seeded, words, told):
    with pytest.raises(CellError) as error:
        find_cell(TABLES["gains"].build(seeded, TableOptions()), words)
    assert told in str(error.value)


def test_several_rows_are_listed_by_what_tells_them_apart(seeded):
    table = TABLES["gains"].build(seeded, TableOptions())
    with pytest.raises(CellError) as error:
        find_cell(table, ["model=minilm", "regime=finetune", "label=qnorm", "gain"])
    first, *lines = str(error.value).splitlines()
    assert first.startswith("3 rows of table 'gains'")
    for line, group in zip(lines, ("in_domain", "beir", "multi_hop"), strict=True):
        number, choice = line.split(": ")
        assert table.rows["group"][int(number) - 1] == group
        assert choice == f"group={group}"


def test_the_json_of_a_table_lists_the_trials_of_each_row(seeded):
    from results.rendering import export

    value = json.loads(export(TABLES["gains"].build(seeded, TableOptions()), "json")["gains.json"])
    row = next(r for r in value["rows"] if r["values"]["label"] == "qnorm")
    titles = dict(seeded.trials.select("trial_id", "title").iter_rows())
    assert {titles[i].split("/")[2] for i in row["ids"]["trials"]} == {"qnorm", "cosine"}
    assert pl.Series(row["ids"]["trials"]).n_unique() == 6


def test_a_reason_is_told_of_the_numbers_that_it_is_of_alone(tmp_path):
    """One query and seed: a gain without interval, and another reason why there is no relative one."""
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "beir"),))
    for similarity, score in (("cosine", 0.0), ("qnorm", 0.2)):
        folder.add_trial(trained(similarity), lambda *_, s=score: [s])
    collected = collect(folder.store, folder.record())
    of = {
        name: explained(collected, "gains", "similarity=qnorm", f"column={name}").reason
        for name in ("score", "gain", "gain_ratio", "gain_low", "num_seeds")
    }
    row = TABLES["gains"].build(collected, TableOptions()).rows.filter(similarity="qnorm").row(0, named=True)
    assert row["gain_reason"] != row["ratio_reason"]
    assert (of["gain_low"], of["gain_ratio"]) == (row["gain_reason"], row["ratio_reason"])
    assert (of["score"], of["num_seeds"]) == (None, None)
