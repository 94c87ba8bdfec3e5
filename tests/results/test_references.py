"""External numbers: the file, what is wrong with it, the study's tables, and that nothing of ours depends on them."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from reference_files import AVERAGES, written

from results.reference_gains import reference_gains
from results.references import load_references
from results.rendering import export
from results.tables import TABLES, WITH_REFERENCES, TableOptions

PAPER = Path(__file__).parents[3] / "shared" / "paper"
needs_paper = pytest.mark.skipif(
    not (PAPER / "contriever_per_dataset.csv").exists(),
    reason="the study's tables (shared/paper/*.csv) lie beside the repository only where it is developed",
)
PER_DATA_SET = ",model={},measure=nDCG@10,init_regime=finetune,source=arXiv 2602.09229, table per data set"


@pytest.fixture
def averages(tmp_path):
    path = tmp_path / "averages.csv"
    path.write_text(AVERAGES)
    return str(path)


def gains_of(rows, **cell):
    return [row for row in rows if all(getattr(row, name) == value for name, value in cell.items())]


def test_the_headline_gains_of_the_study(averages):
    rows = reference_gains(load_references([averages]), "cosine", "group")
    shown = {
        (row.model, row.place, row.similarity): f"{100 * row.gain_ratio:+.1f}"
        for row in rows
        if row.similarity != "cosine"
    }
    assert shown == {
        ("Contriever", "beir", "qnorm"): "+7.4",
        ("Contriever", "bright", "qnorm"): "+71.9",
        ("RetroMAE", "beir", "dnorm"): "+7.5",
        ("RetroMAE", "bright", "dnorm"): "+54.8",
    }
    assert {row.averaged for row in rows} == {"as published"}
    assert all(row.mean_of_ratios is None for row in rows)


# arXiv 2602.09229, its table of Contriever per data set, BRIGHT under cosine and query normalisation: nDCG@10 x 100.
BRIGHT = """dataset,Cosine,QNorm
aops,4.22,5.33
biology,5.92,17.73
earth_science,11.11,23.31
economics,9.55,17.27
leetcode,12.35,12.93
pony,1.66,5.11
psychology,8.74,17.13
robotics,6.59,14.68
stackoverflow,7.31,10.42
sustainable_living,8.40,16.76
theoremqa_questions,6.92,11.31
theoremqa_theorems,2.53,3.59
"""


def test_the_mean_of_a_table_per_data_set_is_another_source_than_the_average(averages, tmp_path):
    excerpt = written(tmp_path, BRIGHT, "excerpt.csv")
    rows = reference_gains(
        load_references([averages, excerpt + PER_DATA_SET.format("Contriever") + ",group=BRIGHT"]), "cosine", "group"
    )
    bright = gains_of(rows, model="Contriever", place="bright", similarity="qnorm")
    assert [(row.source, f"{100 * row.score:.2f}") for row in bright] == [
        ("arXiv 2602.09229, averages", "12.74"),
        ("arXiv 2602.09229, table per data set", "12.96"),
    ]


@needs_paper
def test_the_tables_per_data_set_have_averages_of_their_own_that_are_mixed_with_no_others(averages):
    paths = [averages, f"{PAPER}/contriever_per_dataset.csv" + PER_DATA_SET.format("Contriever")]
    rows = reference_gains(load_references(paths), "cosine", "group")
    bright = gains_of(rows, model="Contriever", place="bright", similarity="qnorm")
    assert [(row.source, row.averaged, f"{100 * row.score:.2f}") for row in bright] == [
        ("arXiv 2602.09229, averages", "as published", "12.74"),
        ("arXiv 2602.09229, table per data set", "mean of 12 data sets", "12.96"),
    ]
    frame = pl.read_csv(PAPER / "contriever_per_dataset.csv").filter(pl.col("group") == "BRIGHT")
    assert bright[1].score == pytest.approx(frame["QNorm"].mean() / 100)
    assert bright[1].gain_ratio == pytest.approx(frame["QNorm"].mean() / frame["Cosine"].mean() - 1)
    assert bright[1].mean_of_ratios == pytest.approx((frame["QNorm"] / frame["Cosine"] - 1).mean())


@needs_paper
@pytest.mark.parametrize("name", ["contriever", "retromae"])
def test_the_tables_per_data_set_load_whole_under_the_names_of_our_catalogue(name):
    references = load_references([f"{PAPER}/{name}_per_dataset.csv" + PER_DATA_SET.format(name)])
    assert len(references) == 30 * 6
    assert {r.group for r in references} == {"beir", "bright", "multi_hop"}
    assert {r.similarity for r in references} == {"untrained", "cosine", "dot", "qnorm", "dnorm", "learnable"}
    assert {"arguana", "bright_biology", "musique", "hotpotqa"} <= {r.data_set for r in references}
    assert {r.init_regime for r in references} == {"finetune"}
    rows = reference_gains(references, "cosine", "data set")
    hotpotqa = gains_of(rows, place="hotpotqa", similarity="qnorm")
    assert [row.groups for row in hotpotqa] == [("beir", "multi_hop")]


@needs_paper
def test_the_study_stands_beside_ours_in_its_own_rows(seeded, averages):
    paths = (averages, f"{PAPER}/contriever_per_dataset.csv" + PER_DATA_SET.format("Contriever"))
    table = TABLES["gains"].build(seeded, TableOptions(references=load_references(paths)))
    marks = table.rows["source"].unique(maintain_order=True).to_list()
    assert marks == ["ours", "[1]", "[2]"]
    row = table.rows.filter(
        pl.col("source") == "[1]",
        pl.col("model") == "Contriever",
        pl.col("group") == "bright",
        pl.col("label") == "qnorm",
    )
    assert row["gain_ratio"][0] == pytest.approx(0.719, abs=5e-4)
    text = export(table, "md")["gains.md"]
    assert "+71.9" in text
    assert "[1\\] arXiv 2602.09229, averages (averages.csv)" in text
    assert "bright: mean of 12 data sets" in text
    export(table, "latex")
    export(table, "json")


@pytest.mark.parametrize("name", [name for name in TABLES if name != "claims"])
def test_no_number_of_ours_depends_on_references(request, tmp_path, name):
    sweep = "small" if name in ("sts", "rag", "rag_gains", "cohen_d") or name.startswith("fisher") else "seeded"
    collected = request.getfixturevalue(sweep)
    text = "model,data_set,group,measure,similarity,value,source\n"
    for data_set, measure in (("nq", "nDCG@10"), ("stsb", "Spearman"), ("questions", "EM"), ("questions", "F1")):
        text += f"bert,{data_set},beir,{measure},cosine,50,other\nbert,{data_set},beir,{measure},qnorm,99,other\n"
    references = load_references([written(tmp_path, text)])
    usual = TABLES[name].build(collected, TableOptions())
    beside = TABLES[name].build(collected, TableOptions(references=references))
    if name not in WITH_REFERENCES:
        assert_frame_equal(beside.rows, usual.rows)
        return
    assert beside.rows.height > usual.rows.height
    ours = beside.rows.filter(pl.col("source") == "ours").select(usual.rows.columns)
    assert_frame_equal(ours, usual.rows)
    assert beside.holes == usual.holes
    theirs = beside.rows.filter(pl.col("source") == "[1]")
    assert set(theirs["kind"]) == {"reference"}
    assert theirs["reference"].null_count() == 0
    assert any("external numbers" in note for note in beside.notes)
    assert any(note.startswith("[1] other (numbers.csv)") for note in beside.notes)


def test_answers_of_two_measures_are_one_row(small, tmp_path):
    text = "model,data_set,measure,similarity,value,source\nContriever,questions,EM,cosine,23.0,s\n"
    text += "Contriever,questions,EM,qnorm,26.1,s\nContriever,questions,F1,qnorm,31,s\n"
    options = TableOptions(references=load_references([written(tmp_path, text)]))
    rows = TABLES["rag"].build(small, options).rows.filter(pl.col("source") == "[1]")
    assert rows.select("similarity", "exact_match", "f1").rows() == [("cosine", 0.23, None), ("qnorm", 0.261, 0.31)]


def test_references_stand_after_ours_of_the_same_model_and_group(seeded, tmp_path):
    text = "model,group,data_set,measure,similarity,value,source\nMiniLM,beir,,nDCG@10,cosine,40,s\n"
    text += "other,beir,,nDCG@10,cosine,41,s\n"
    table = TABLES["gains"].build(seeded, TableOptions(references=load_references([written(tmp_path, text)])))
    names = table.rows.select("model", "group", "source").rows()
    place = names.index(("MiniLM", "beir", "[1]"))
    assert names[place - 1][:2] == ("minilm", "beir")
    assert ("minilm", "beir", "ours") not in names[place:]
    assert names[-1] == ("other", "beir", "[1]")


def test_a_choice_chooses_among_references_too(seeded, tmp_path):
    text = "model,group,data_set,measure,similarity,value,source\n"
    text += "".join(
        f"{model},beir,,nDCG@10,{name},{value},s\n"
        for model in ("bert", "minilm")
        for name, value in (("cosine", 40), ("qnorm", 44))
    )
    references = load_references([written(tmp_path, text)])
    table = TABLES["gains"].build(
        seeded, TableOptions(references=references, where={"family": "bert", "similarity": "qnorm"})
    )
    theirs = table.rows.filter(pl.col("source") == "[1]")
    assert theirs.select("model", "similarity").rows() == [("bert", "qnorm")]
    assert theirs["gain_ratio"][0] == pytest.approx(0.1)  # of the whole source


def test_a_group_that_lacks_a_data_set_of_one_similarity_has_no_average_of_it(tmp_path):
    text = "model,group,data_set,measure,Cosine,QNorm,source\nm,beir,nq,nDCG@10,40,50,s\nm,beir,fiqa,nDCG@10,20,,s\n"
    cosine, qnorm = reference_gains(load_references([written(tmp_path, text)]), "cosine", "group")
    assert cosine.score == pytest.approx(0.3)
    assert (qnorm.score, qnorm.gain, qnorm.rank) == (None, None, None)
    assert "lacks" in qnorm.reason


def test_a_group_that_the_source_averages_itself_is_not_averaged_again(tmp_path):
    text = "model,group,data_set,measure,similarity,value,source\n"
    text += "m,beir,nq,nDCG@10,cosine,40,s\nm,beir,,nDCG@10,cosine,30,s\n"
    [row] = reference_gains(load_references([written(tmp_path, text)]), "cosine", "group")
    assert (row.score, row.averaged) == (0.3, "as published")


def test_a_score_on_a_data_set_of_no_group_is_said_to_stand_in_no_mean(seeded, tmp_path):
    text = "model,data_set,measure,similarity,value,source\nminilm,attack,nDCG@10,cosine,40.1,theirs\n"
    options = TableOptions(references=load_references([written(tmp_path, text)]))
    gains, by_data_set = (TABLES[name].build(seeded, options) for name in ("gains", "gains_by_dataset"))
    [note] = [note for note in gains.notes if "no group" in note]
    assert note.startswith("Not shown of theirs: attack,")
    assert "theirs" in by_data_set.rows["source_name"].to_list()
    assert not any("no group" in note for note in by_data_set.notes)
