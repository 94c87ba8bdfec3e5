"""Conformance of every data set of the catalogue: sources, licences, measures, groups, counts, exclusions, figures."""

import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from search_spaces.catalogue.data_sets import (
    DATA_SETS,
    LUCENE,
    PARTS,
    SPEARMAN,
    Bm25,
    Encoder,
    Exclusion,
    default_groups,
)
from search_spaces.catalogue.sources import parse_source

ROOT = Path(__file__).parents[2]
# What no benchmark may leave unsaid, but for these, each of which says why.
UNKNOWN = {
    "revision": {"novelhopqa"},
    "counts": {"novelhopqa"},
    "reference": {"2wikimultihopqa", "musique", "novelhopqa", "triviaqa"},
}
STUDY = {  # as the study lists them
    "in_domain": ["msmarco_dev", "trec_dl_2019", "trec_dl_2020"],
    "beir": [
        "arguana",
        "climate-fever",
        "cqadupstack",
        "dbpedia-entity",
        "fever",
        "fiqa",
        "hotpotqa",
        "nfcorpus",
        "nq",
        "quora",
        "scidocs",
        "scifact",
        "trec-covid",
        "webis-touche2020",
    ],
    "bright": [
        f"bright_{domain}"
        for domain in (
            "aops",
            "biology",
            "earth_science",
            "economics",
            "leetcode",
            "pony",
            "psychology",
            "robotics",
            "stackoverflow",
            "sustainable_living",
            "theoremqa_questions",
            "theoremqa_theorems",
        )
    ],
    "multi_hop": ["2wikimultihopqa", "hotpotqa", "musique", "novelhopqa"],
    "sts": ["sickr", "sts12", "sts13", "sts14", "sts15", "sts16", "stsb"],
    "qa": ["hotpotqa", "nq", "triviaqa"],
}
BENCHMARKS = [entry for entry in DATA_SETS.values() if entry.groups]
RETRIEVAL = [entry for entry in BENCHMARKS if not entry.is_scored]


def by_name(entry):
    return entry.name


@pytest.mark.parametrize("entry", DATA_SETS.values(), ids=by_name)
def test_sources_are_pinned_and_licences_are_told(entry):
    sources = [entry.source, entry.corpus_source, entry.qrels_source, entry.answers and entry.answers.source]
    for text in filter(None, sources):
        source = parse_source(text)
        assert source.scheme != "hf" or source.revision or entry.why_unknown("revision")
        if source.scheme == "hf":
            assert entry.config, "a hub data set names its config"
    assert entry.licence


def test_each_default_group_holds_what_the_study_lists():
    found = {group: {DATA_SETS[name].part_of or name for name in names} for group, names in default_groups().items()}
    assert {group: sorted(names) for group, names in found.items()} == {g: sorted(n) for g, n in STUDY.items()}


def test_cqadupstack_is_the_mean_of_its_twelve_forums():
    assert set(PARTS) == {"cqadupstack"}
    assert len(PARTS["cqadupstack"]) == 12
    assert "cqadupstack" not in DATA_SETS
    assert {name for name, entry in DATA_SETS.items() if entry.part_of} == set(PARTS["cqadupstack"])


@pytest.mark.parametrize("entry", BENCHMARKS, ids=by_name)
def test_measures_can_be_computed(entry):
    from trainers.evaluation.measures import parse

    if entry.is_scored:
        assert entry.measures == (SPEARMAN,)
        return
    assert entry.measures[0] == "nDCG@10"
    assert "R@100" in entry.measures
    for measure in entry.measures:
        parse(measure, entry.relevance_threshold)


@pytest.mark.parametrize("entry", DATA_SETS.values(), ids=by_name)
def test_what_an_entry_does_not_say_it_gives_a_reason_for(entry):
    said = {
        "revision": not entry.source.endswith("@unpinned"),
        "counts": entry.counts is not None,
        "reference": bool(entry.reference),
    }
    for what, is_said in said.items():
        assert bool(entry.why_unknown(what)) != is_said, f"{what}: either it or a reason, not both"
    assert len({unknown.what for unknown in entry.unknown}) == len(entry.unknown)


def test_the_benchmarks_leave_unsaid_only_what_is_known_to_be_unknown():
    found = {what: {e.name for e in BENCHMARKS if e.why_unknown(what)} for what in UNKNOWN}
    assert found == UNKNOWN


@pytest.mark.parametrize("entry", DATA_SETS.values(), ids=by_name)
def test_counts_are_of_splits_that_the_entry_has(entry):
    splits = [split.name for split in entry.counts.splits] if entry.counts else [entry.test_split]
    assert entry.test_split in splits
    assert set(splits) <= {entry.test_split, entry.train_split, entry.dev_split}
    assert len(set(splits)) == len(splits)


@pytest.mark.parametrize("entry", DATA_SETS.values(), ids=by_name)
def test_figures_name_their_method_and_source_and_are_of_the_test_split(entry):
    for figure in entry.reference:
        assert isinstance(figure.method, Encoder if entry.is_scored else Bm25 | Encoder)
        assert figure.source
        assert figure.origin == ("published" if entry in BENCHMARKS else "measured")
        assert figure.split == entry.test_split
        assert figure.measure in entry.measures
        assert 0 < figure.value < 1
        assert figure.tolerance <= (0.01 if entry in BENCHMARKS else 0.03)
    if entry in RETRIEVAL and entry.reference:
        assert [figure.method for figure in entry.reference] == [LUCENE]


OFFICIAL = {  # how Anserini's files of topics and judgements are named
    **{name: f"qrels.beir-v1.0.0-{name}.test.txt" for name in STUDY["beir"]},
    **{name: f"qrels.{name.replace('_', '-')}.txt" for name in STUDY["bright"]},
    "trec_dl_2019": "qrels.dl19-passage.txt",
    "trec_dl_2020": "qrels.dl20-passage.txt",
}


@pytest.mark.parametrize("name", OFFICIAL)
def test_counts_are_those_of_the_official_judgements(name, shared_data):
    file = shared_data("topics_qrels") / OFFICIAL[name]
    packed = file.with_name(f"{file.name}.gz")
    if not file.is_file() and not packed.is_file():
        pytest.skip(f"../shared/data/topics_qrels has no {file.name}")
    text = file.read_text() if file.is_file() else gzip.decompress(packed.read_bytes()).decode()
    judged = [line.split() for line in text.splitlines()]
    [split] = DATA_SETS[name].counts.splits
    assert split.num_queries == len({query for query, *_ in judged})
    if split.num_relevant is not None:
        assert split.num_relevant == sum(int(grade) >= 1 for *_, grade in judged)


@pytest.mark.parametrize("name", ["stsb", *(f"sts{year}" for year in range(12, 17))])
def test_counts_are_those_of_the_scored_pairs_that_are_here(name, shared_data):
    file = shared_data("sts") / f"{name}-test.tsv"
    counts = {split.name: split.num_queries for split in DATA_SETS[name].counts.splits}
    assert counts["test"] == len(file.read_text().splitlines()) - 1


def test_sick_is_all_of_its_splits_as_one(shared_data):
    files = [shared_data("sts") / f"sickr-{split}.tsv" for split in ("train", "dev", "test")]
    [split] = DATA_SETS["sickr"].counts.splits
    assert split.num_queries == sum(len(file.read_text().splitlines()) - 1 for file in files) == 9_927


def test_the_benchmarks_exclusions_and_thresholds():
    found = {e.name: e.exclusion for e in RETRIEVAL if e.exclusion != "none"}
    bright = dict.fromkeys(STUDY["bright"], "excluded_ids")
    assert found == {"arguana": "query_id", "quora": "query_id", **bright}
    assert set(found.values()) <= set(get_args(Exclusion))
    thresholds = {e.name: e.relevance_threshold for e in RETRIEVAL if e.relevance_threshold != 1}
    assert thresholds == {"trec_dl_2019": 2, "trec_dl_2020": 2}


def test_ms_marco_and_the_tracks_have_one_corpus():
    corpora = {(e.corpus_source or e.source) for e in RETRIEVAL if "in_domain" in e.groups}
    assert len(corpora) == 1


@pytest.mark.parametrize("entry", RETRIEVAL, ids=by_name)
def test_an_instruction_is_one_line_without_the_query(entry):
    assert entry.instruction
    assert re.fullmatch(r"(Given|Represent) [^\n]*[a-z:]", entry.instruction)


@pytest.mark.parametrize("name", STUDY["qa"])
def test_question_answering_sets_say_where_their_answers_are(name):
    assert DATA_SETS[name].answers or DATA_SETS[name].reader == "open_qa"


def test_an_entry_read_from_elsewhere_takes_nothing_from_the_hub():
    entry = DATA_SETS["nq"].read_from("path:/data/nq")
    assert (entry.source, entry.answers) == ("path:/data/nq", None)
    assert DATA_SETS["trec_dl_2019"].read_from("path:/data/msmarco").corpus_source is None
    assert entry.measures == DATA_SETS["nq"].measures
    assert entry.counts == DATA_SETS["nq"].counts
    assert DATA_SETS["nq"].read_from(None) is DATA_SETS["nq"]


def test_declarations_import_no_framework():
    heavy = "{'torch', 'pyarrow', 'datasets'}"
    code = f"import sys, search_spaces.catalogue.data_sets\nprint(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
