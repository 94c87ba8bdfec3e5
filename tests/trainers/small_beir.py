"""A small collection in BEIR's layout, whose documents are told by their numbers."""

from pathlib import Path

import numpy as np

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec, EvaluationSpec
from trainers import data_sets

_WORDS = ["mail", "keys", "disks", "logs", "base64", "traffic", "at", "logon"]


def write_small_beir(folder: Path, numbers: range, **entry: object) -> EvaluationSpec:
    """Documents d0, d1, ... of `numbers`, a query for every 15th; the same number is the same text in each folder."""
    (folder / "qrels").mkdir(parents=True)
    corpus = "".join(f'{{"_id": "d{n}", "title": "Report {n}", "text": "{_words(n)}"}}\n' for n in numbers)
    queries = "".join(f'{{"_id": "q{n}", "text": "which report has {_words(n)[:12]}"}}\n' for n in numbers[::15])
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "queries.jsonl").write_text(queries)
    rows = "".join(f"q{n}\td{n}\t1\nq{n}\td{numbers[0]}\t1\n" for n in numbers[15::15])
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    found = DataSet.model_validate({"name": folder.name, "source": f"path:{folder}", **entry})
    content_hash = data_sets.fingerprint(found, "test").content_hash
    return EvaluationSpec(data=DataSpec(entry=found, split="test", content_hash=content_hash))


def _words(number: int) -> str:
    rng = np.random.default_rng(number)
    return " ".join(rng.choice(_WORDS, 3 + number % 9))
