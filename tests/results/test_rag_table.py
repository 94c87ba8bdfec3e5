"""A reader's answers: averaged over questions and seeds, beside the untrained checkpoint, and what is missing."""

import json

import polars as pl
import pytest

from results.collect import collect
from results.layout import PlannedEvaluation, SweepRecord, from_bytes, to_bytes
from results.rag import rag_scores
from results.selection import SelectionError
from results.store import open_store
from results.tables import TABLES, TableOptions, applicable
from tests.results.builders import ANSWERS, SweepFolder, evaluation, failed, trained, two_queries, untrained


@pytest.fixture
def folder(tmp_path):
    evaluations = (evaluation("questions", reader="tiny-reader", num_passages=2),)
    return SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=evaluations, primary_groups=())


def answers(*f1):
    return lambda data_set, scored_with: f1


def scores(folder, **options):
    collected = collect(folder.store, folder.record())
    return rag_scores(collected.answers, collected.expected_answers, **options)


def test_questions_then_seeds_are_averaged_and_the_untrained_checkpoint_stands_beside(folder):
    folder.add_trial(trained("qnorm", seed=0), answers(1.0, 0.5, 0.0))
    folder.add_trial(trained("qnorm", seed=1), answers(1.0, 1.0, 1.0))
    folder.add_trial(trained("learnable", seed=0), answers(0.25, 0.25, 1.0))
    folder.add_trial(
        untrained(), lambda _, scored_with: {"qnorm": [0.25, 0.25], "half": [1.0, 0.0]}.get(scored_with, [0])
    )
    qnorm, learnable = scores(folder).sort("similarity", descending=True).iter_rows(named=True)
    assert (qnorm["exact_match"], qnorm["f1"]) == pytest.approx(((1 / 3 + 1) / 2, (0.5 + 1) / 2))
    assert (qnorm["untrained_exact_match"], qnorm["untrained_f1"]) == pytest.approx((0.0, 0.25))
    assert (qnorm["num_seeds"], qnorm["num_questions"], qnorm["rank"]) == (2, 3, 1)
    assert qnorm["cut_share"] == pytest.approx(1 / 6)  # one of the two passages of one of three questions
    # What is trained from half on each side starts as `half`.
    assert (learnable["untrained_f1"], learnable["rank"]) == (0.5, 2)


def test_lost_answers_are_a_hole_and_leave_the_mean_over_seeds_empty(folder):
    folder.add_trial(trained("qnorm", seed=0), answers(1.0))
    folder.add_trial(trained("qnorm", seed=1), lambda *_: None)
    folder.plan_trial(trained("cosine"), status=failed("out of memory"))
    collected = collect(folder.store, folder.record())
    assert scores(folder).filter(pl.col("similarity") == "qnorm")["f1"].to_list() == [None]
    holes = TABLES["rag"].build(collected, TableOptions()).holes
    assert any("qnorm/s1: answers to questions/test scored with qnorm" in hole for hole in holes)
    assert any("cosine/s0: whole trial: failed: out of memory" in hole for hole in holes)


def test_training_data_is_not_pooled_unless_asked_for(folder):
    for data in ("attack", "pydoc"):
        folder.add_trial(trained("cosine", data=data), answers(1.0))
    with pytest.raises(SelectionError, match="more than one training data set"):
        scores(folder)
    assert scores(folder, pool=True)["training_data"].to_list() == ["attack + pydoc"]


def test_answers_of_another_reader_or_prompt_are_not_read(folder):
    key = folder.add_trial(trained("cosine"), answers(1.0))
    folder.evaluations = (evaluation("questions", reader="other-reader", num_passages=2),)
    folder.plan_evaluations(key)
    collected = collect(folder.store, folder.record())
    assert collected.answers.is_empty()
    assert [item.kind for item in collected.missing] == ["qa"]


def test_a_data_set_that_is_there_for_its_questions_alone_is_in_no_gain_table(small, folder):
    assert set(TABLES["gains"].build(small, TableOptions()).rows["group"]) == {"in_domain", "out_of_domain"}
    assert applicable(folder.record()) == ("rag", "rag_gains", "cost", "missing")
    with_group = SweepFolder(store=folder.store, evaluations=(evaluation("attack", "in_domain"),))
    with_group.add_trial(trained("cosine"), two_queries((0.5, 0.5)))
    assert "rag" not in applicable(with_group.record())


def test_the_small_sweep_shows_what_the_rows_say(small):
    table = TABLES["rag"].build(small, TableOptions())
    rows = table.rows.filter((pl.col("model") == "minilm-3l") & (pl.col("init_regime") == "finetune"))
    assert rows.height == 5
    for row in rows.iter_rows(named=True):
        f1 = ANSWERS[row["similarity"]]
        assert (row["exact_match"], row["f1"]) == pytest.approx((f1.count(1) / 3, sum(f1) / 3))
    assert "Read by tiny-reader from the first 2 passages, greedily." in table.notes
    assert "At most 17 % of a row's passages were shortened to fit the reader's input." in table.notes


def test_a_record_of_before_readers_and_parts_is_read():
    planned = evaluation("attack", "in_domain")
    record = SweepRecord(name="old", trials=(), probes=(), evaluations=(planned,), left_out=(), primary_groups=())
    old = json.loads(to_bytes(record))
    for name in ("reader", "num_passages", "part_of"):
        del old["evaluations"][0][name]
    read = from_bytes(SweepRecord, json.dumps(old).encode())
    assert read.evaluations == (planned,)
    assert isinstance(read.evaluations[0], PlannedEvaluation)
