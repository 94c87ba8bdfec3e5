import json
import subprocess
import sys
from pathlib import Path

import pytest

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.problems import InputError
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.training.pairs import load_pairs, pair_counts

LINES = [
    {"query": "who purrs?", "positives": ["cats purr", "lions purr"], "negatives": ["dogs bark"]},
    {"query": "wer bellt?", "positives": ["Hunde bellen äöü 漢"], "metadata": {"from": "me"}},
    {"query": "who purrs?", "positives": ["cats purr"], "negatives": ["dogs bark", "cows moo", "lions purr"]},
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def write(file, rows):
    file.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


def entry_of(place, **changes):
    return DataSet(**{"name": "mine", "source": f"path:{place}", "reader": "jsonl", "train_split": "train", **changes})


def pairs_of(place, split="train"):
    pairs = load_pairs(DataSpec(entry=entry_of(place), split=split), hard_negatives=1)
    texts = [
        (pairs.query_texts[q], pairs.document_texts[d])
        for q, d in zip(pairs.query_index, pairs.document_index, strict=True)
    ]
    negatives = {
        query: [pairs.document_texts[d] for d in pairs.negatives[place]]
        for place, query in enumerate(pairs.query_texts)
    }
    return texts, negatives, pairs


def problems_of(place):
    with pytest.raises(InputError) as raised:
        data_sets.load(entry_of(place))
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize("form", ["folder", "file"])
def test_texts_become_pairs_and_negatives(folder, form):
    write(folder / "train.jsonl", LINES)
    texts, negatives, pairs = pairs_of(folder if form == "folder" else folder / "train.jsonl")
    assert texts == [
        ("wer bellt?", "Hunde bellen äöü 漢"),
        ("who purrs?", "cats purr"),
        ("who purrs?", "lions purr"),
    ]
    assert negatives == {"wer bellt?": [], "who purrs?": ["cows moo", "dogs bark"]}
    assert pairs.num_contradicted == 1
    place = folder if form == "folder" else folder / "train.jsonl"
    assert sorted(data_sets.report(entry_of(place)).warnings()) == [
        "1 repeated negatives of 'train' were left out",
        "1 repeated pairs of 'train' were left out",
    ]
    spec = DataSpec(entry=entry_of(place), split="train")
    found = pair_counts(spec, hard_negatives=1)
    assert (found.num_queries, found.most_negatives, found.num_contradicted) == (2, 2, 1)
    assert [found.num_short(number) for number in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert pair_counts(spec).most_negatives == 0


def test_ids_stand_for_the_folders_texts(folder):
    write(
        folder / "corpus.jsonl",
        [{"_id": "d1", "title": "Cats", "text": "purr"}, {"_id": "d2", "text": "dogs bark"}],
    )
    write(folder / "queries.jsonl", [{"_id": "q1", "text": "who purrs?"}])
    write(
        folder / "train.jsonl",
        [
            {"query_id": "q1", "positive_ids": ["d1"], "negative_ids": ["d2"]},
            {"query": "d1", "positive_ids": ["d2"], "negatives": ["d1"]},  # 'd1' as a text is a text
        ],
    )
    texts, negatives, _ = pairs_of(folder)
    assert texts == [("d1", "dogs bark"), ("who purrs?", "Cats purr")]
    assert negatives == {"d1": ["d1"], "who purrs?": ["dogs bark"]}


def test_each_file_is_a_split_and_a_split_is_its_own_content(folder):
    write(folder / "train.jsonl", LINES)
    write(folder / "dev.jsonl", [{"query": "who moos?", "positives": ["cows moo"]}])
    entry = entry_of(folder, dev_split="dev")
    assert set(data_sets.load(entry).qrels) == {"train", "dev"}
    assert pairs_of(folder, "dev")[0] == [("who moos?", "cows moo")]
    before = data_sets.fingerprint(entry, "train").content_hash
    write(folder / "train.jsonl", [LINES[0], LINES[1] | {"negatives": ["cows moo"]}, LINES[2]])
    assert data_sets.fingerprint(entry, "train").content_hash != before, "negatives decide what is trained"


def test_the_order_of_lines_does_not_matter(folder, tmp_path):
    write(folder / "train.jsonl", LINES)
    other = tmp_path / "other"
    other.mkdir()
    write(other / "train.jsonl", LINES[::-1])
    (first, first_negatives, _), (second, second_negatives, _) = pairs_of(folder), pairs_of(other)
    assert (first, first_negatives) == (second, second_negatives)
    hashes = [data_sets.fingerprint(entry_of(place), "train").content_hash for place in (folder, other)]
    assert hashes[0] == hashes[1]


BAD_LINES = {
    "empty query": ({"query": " ", "positives": ["a"]}, "'query' is empty"),
    "query missing": ({"positives": ["a"]}, "either 'query' or 'query_id' is expected, and none is there"),
    "both queries": ({"query": "a", "query_id": "b", "positives": ["a"]}, "and both are there"),
    "no positives": ({"query": "a", "positives": []}, "'positives' is empty: a query has a positive"),
    "positives missing": ({"query": "a"}, "either 'positives' or 'positive_ids' is expected, and none is there"),
    "empty positive": ({"query": "a", "positives": ["b", "\t"]}, "'positives[1]' is empty"),
    "empty negative": ({"query": "a", "positives": ["b"], "negatives": [""]}, "'negatives[0]' is empty"),
    "positives as text": ({"query": "a", "positives": "b"}, "'positives' must be a list, not 'b'"),
    "a number": ({"query": "a", "positives": [7]}, "'positives[0]' must be text, not 7"),
    "null": ({"query": None, "positives": ["b"]}, "'query' must be text, not None"),
    "half a pair": ({"query": "a", "positives": ["\ud800"]}, "half of a surrogate pair"),
    "a typing error": ({"query": "a", "positives": ["b"], "negativs": ["c"]}, "did you mean 'negatives'"),
    "unknown id": ({"query": "a", "positive_ids": ["d9"]}, "'positive_ids[0]' 'd9' is not in corpus.jsonl"),
    "unknown negative": (
        {"query": "a", "positives": ["b"], "negative_ids": ["d9"]},
        "'negative_ids[0]' 'd9' is not in corpus.jsonl",
    ),
    "unknown query": ({"query_id": "q9", "positives": ["b"]}, "'query_id' 'q9' is not in queries.jsonl"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_with_its_file_and_number(folder, name):
    row, message = BAD_LINES[name]
    (folder / "train.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in [LINES[0], row, LINES[1]]))
    (problem,) = problems_of(folder)
    assert f"{folder}/train.jsonl" in problem
    assert "line 2" in problem
    assert message in problem


BAD_BYTES = {
    "a scalar": (b"42", "a JSON object is expected, not 42"),
    "a list": (b'["a", "b"]', "a JSON object is expected, not ['a', 'b']"),
    "no JSON": (b"who purrs?\tcats purr", "this is not JSON"),
    "Latin-1": ('{"query": "wer hört?", "positives": ["a"]}'.encode("latin-1"), "this is not UTF-8: byte 0xf6"),
    "UTF-16": ('{"query": "a", "positives": ["b"]}'.encode("utf-16-le"), "NUL bytes"),
    "NUL": (b"\0" * 4096, "the line holds NUL bytes: the file is damaged"),
    "NUL in a text": (b'{"query": "a\0b", "positives": ["b"]}', "NUL bytes"),
    "cut off": (b'{"query": "a", "posi', "this is not JSON"),
    "deep": (b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bad_bytes_are_named_with_their_line(folder, name):
    data, message = BAD_BYTES[name]
    good = json.dumps(LINES[0]).encode()
    (folder / "train.jsonl").write_bytes(b"\n".join([good, b"", data, good]))
    (problem,) = problems_of(folder)
    assert "line 3" in problem
    assert message in problem


def test_many_bad_lines_are_counted_not_all_shown(folder):
    (folder / "train.jsonl").write_text("1\n" * 500)
    problems = problems_of(folder)
    assert len(problems) == 21
    assert "480 more of this kind" in problems[-1]


def test_an_escaped_nul_and_a_byte_order_mark_are_text(folder):
    (folder / "train.jsonl").write_bytes(b'\xef\xbb\xbf{"query": "a\\u0000b", "positives": ["c"]}\r\n')
    assert pairs_of(folder)[0] == [("a\0b", "c")]


def test_a_folder_without_a_split_and_no_folder(folder):
    write(folder / "corpus.jsonl", [{"_id": "d1", "text": "a"}])
    assert "there is no file SPLIT.jsonl, such as train.jsonl" in problems_of(folder)[0]
    assert "there is no folder" in problems_of(folder / "none")[0]


def test_a_file_without_lines_has_no_pair(folder):
    (folder / "train.jsonl").write_text("\n")
    (problem,) = problems_of(folder)
    assert "train.jsonl: there is no pair in it" in problem


BIG = """
import json, resource, sys
from pathlib import Path
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import DataSpec
from trainers.training.pairs import load_pairs
entry = DataSet(name="big", source=f"path:{sys.argv[1]}", reader="jsonl", train_split="train")
spec = DataSpec(entry=entry, split="train")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pairs = load_pairs(spec, hard_negatives=1)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(pairs), len(pairs.document_texts), (after - before) * 1024)
"""


@pytest.mark.slow
def test_memory_is_a_few_times_the_file(folder):
    words = [f"word{number}" for number in range(20)]
    with (folder / "train.jsonl").open("w") as file:
        for i in range(20_000):
            texts = [f"{i} {j} {' '.join(words[(i + j) % 9 :])}" * 3 for j in range(9)]
            file.write(json.dumps({"query": f"query {i}", "positives": texts[:1], "negatives": texts[1:]}) + "\n")
    size = (folder / "train.jsonl").stat().st_size
    done = subprocess.run(
        [sys.executable, "-c", BIG, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    num_pairs, num_documents, grown = map(int, done.stdout.split())
    assert (num_pairs, num_documents) == (20_000, 180_000)
    assert grown < 5 * size, f"{grown / 2**20:.0f} MiB for a file of {size / 2**20:.0f} MiB"
