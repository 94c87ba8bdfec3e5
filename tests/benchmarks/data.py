"""What is trained on: a collection as a spec names it, or one made up, with texts of one length."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from search_spaces.catalogue.data_sets import DATA_SETS, DataSet

SHARED = Path(__file__).parents[3] / "shared" / "data"
ONE_LENGTH = 64  # tokens of each text of 'one_length', [CLS] and [SEP] counted
_NUM_SPECIAL = 2
NAMES = ("attack", "medquad", "conala", "one_length")


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Why a data set cannot be measured here."""

    reason: str


def entry_of(name: str, folder: Path, words: Sequence[str], num_pairs: int) -> DataSet | Missing:
    """The entry of one of `NAMES`.

    Args:
        name: which.
        folder: an empty one, where made-up texts are written.
        words: of which texts of one length are made, each one token.
        num_pairs: how many of them.
    """
    if name in DATA_SETS:
        return DATA_SETS[name]
    if name == "one_length":
        return write_collection(folder, one_length_pairs(words, num_pairs))
    if not (found := SHARED / name).is_dir():
        return Missing(reason=f"there is no ../shared/data/{name} beside the repository")
    return DataSet(name=name, source=f"path:{found}", train_split="train")


def one_length_pairs(words: Sequence[str], num_pairs: int) -> list[tuple[str, str]]:
    """Queries and documents of ONE_LENGTH tokens each, drawn by a fixed seed."""
    draw = random.Random(0)
    text = [" ".join(draw.choices(words, k=ONE_LENGTH - _NUM_SPECIAL)) for _ in range(2 * num_pairs)]
    return list(zip(text[::2], text[1::2], strict=True))


def write_collection(folder: Path, pairs: Sequence[tuple[str, str]]) -> DataSet:
    """The pairs as a folder in BEIR layout, all of them in the split 'train', and its entry."""
    (folder / "qrels").mkdir(parents=True)
    _write_lines(folder / "queries.jsonl", [{"_id": f"q{i}", "text": query} for i, (query, _) in enumerate(pairs)])
    documents = [{"_id": f"d{i}", "title": "", "text": document} for i, (_, document) in enumerate(pairs)]
    _write_lines(folder / "corpus.jsonl", documents)
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(len(pairs)))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return DataSet(name=folder.name, source=f"path:{folder}", train_split="train")


def different_pairs(pairs: Sequence[tuple[str, str]], num_pairs: int) -> list[tuple[str, str]]:
    """The first pairs whose query and document stand in no earlier one: no batch of them has a false negative."""
    found: dict[str, str] = {}
    documents: set[str] = set()
    for query, document in pairs:
        if query not in found and document not in documents and len(found) < num_pairs:
            found[query] = document
            documents.add(document)
    return list(found.items())


def _write_lines(file: Path, lines: Sequence[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
