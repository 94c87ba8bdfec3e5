"""BEIR folders: what is read, and every fault of a folder in one error."""

import gzip
import json
from pathlib import Path

import pytest

from search_spaces.catalogue.data_sets import Cut
from search_spaces.problems import InputError
from search_spaces.specs import DataSpec
from trainers import data_sets
from trainers.data_sets.collection import document_text
from trainers.training.pairs import load_pairs


def _problems(entry):
    with pytest.raises(InputError) as caught:
        data_sets.load(entry)
    return [str(problem) for problem in caught.value.problems]


def _append(file: Path, line: str | bytes) -> None:
    file.write_bytes(file.read_bytes() + (line if isinstance(line, bytes) else line.encode()) + b"\n")


def test_reads_texts_exclusions_and_grades_of_zero(beir_folder, entry_of):
    collection = data_sets.load(entry_of(beir_folder))
    assert collection.corpus.to_pylist() == [
        {"id": "d1", "title": "Apples", "text": "grow on trees"},
        {"id": "d2", "title": "", "text": "Ein Text mit Umlauten: äöü"},
        {"id": "d3", "title": "", "text": "no title here"},
    ]
    assert collection.queries.to_pylist() == [
        {"id": "q1", "text": "where do apples grow?", "excluded_ids": ["d2"]},
        {"id": "q2", "text": "umlauts", "excluded_ids": []},
    ]
    assert collection.qrels["test"].to_pylist() == [
        {"query_id": "q1", "document_id": "d1", "relevance": 2},
        {"query_id": "q1", "document_id": "d3", "relevance": 0},
        {"query_id": "q2", "document_id": "d2", "relevance": 1},
    ]


def test_reads_what_editors_leave(beir_folder, entry_of):
    """A byte order mark, Windows line ends, empty lines, and no header: no judgement is lost."""
    (beir_folder / "qrels" / "test.tsv").write_bytes(b"\xef\xbb\xbfq1\td1\t1\r\n\r\nq2\td2\t1\r\n")
    (beir_folder / "queries.jsonl").write_bytes(
        b"\xef\xbb\xbf" + (beir_folder / "queries.jsonl").read_bytes() + b"\n\n"
    )
    collection = data_sets.load(entry_of(beir_folder))
    assert collection.qrels["test"].num_rows == 2
    assert collection.queries["id"].to_pylist() == ["q1", "q2"]


def test_document_text_is_title_and_text():
    assert document_text("Apples", "grow") == "Apples grow"
    assert document_text("", "grow ") == "grow"


def test_missing_folder(tmp_path, entry_of):
    assert _problems(entry_of(tmp_path / "nowhere")) == [
        f"path:{tmp_path / 'nowhere'}: data set 'mine': there is no folder {tmp_path / 'nowhere'}"
    ]


def test_missing_package_says_what_to_install(entry_of, tmp_path):
    entry = entry_of(tmp_path, source="package:no_such_package_here/data", reader="attack")
    [problem] = _problems(entry)
    assert "pip install no-such-package-here" in problem


def test_hub_source_is_refused_with_what_to_write(entry_of, tmp_path):
    [problem] = _problems(entry_of(tmp_path, source=f"hf:org/name@{'0' * 40}"))
    assert "cannot read a 'hf:' source (write path: or package:)" in problem


def test_all_missing_files_together(beir_folder, entry_of):
    (beir_folder / "corpus.jsonl").unlink()
    (beir_folder / "qrels" / "test.tsv").unlink()
    assert _problems(entry_of(beir_folder)) == [
        f"{beir_folder}/corpus.jsonl: there is no such file",
        f"{beir_folder}/qrels: there is no file qrels/SPLIT.tsv",
    ]


def test_a_folder_of_something_else_is_one_fault(tmp_path, entry_of):
    for name in ("b.csv", "a.csv", "notes"):
        (tmp_path / name).mkdir()
    layout = "corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv"
    assert _problems(entry_of(tmp_path)) == [
        f"{tmp_path}: it is no folder in BEIR's layout: {layout} (it has a.csv, b.csv, notes)"
    ]


def test_a_file_in_place_of_the_folder(beir_folder, entry_of):
    [problem] = _problems(entry_of(beir_folder / "corpus.jsonl"))
    assert problem.endswith(
        "corpus.jsonl is a file, and reader 'beir' reads a folder, of corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv "
        "(`reader: jsonl` reads a file of pairs)"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "d9", "text"', "line 4: this is not JSON: "),
        ('["d9"]', "line 4: a JSON object is expected, not ['d9']"),
        (b'{"_id": "d9", "text": "\xff"}', "line 4: this is not UTF-8: byte 0xff at position 23"),
        (b"\0" * 100, "line 4: the line holds NUL bytes"),
        ("17", "line 4: a JSON object is expected, not 17"),
        ("[" * 100_000, "line 4: this is not JSON that can be read: it is nested too deeply"),
        ('{"_id": 9, "text": "a"}', "line 4: '_id' must be text, not 9"),
        ('{"_id": "", "text": "a"}', "line 4: '_id' is empty"),
        ('{"_id": "d9"}', "line 4: 'text' is missing"),
        ('{"_id": "d9", "text": null}', "line 4: 'text' must be text, not None"),
        ('{"_id": "d9", "text": "a", "title": ["t"]}', "line 4: 'title' must be text, not ['t']"),
        ('{"_id": "d9", "text": "\\ud800"}', "line 4: 'text' holds half of a surrogate pair"),
        ('{"_id": "d1", "text": "again"}', "document 'd1': 2 lines have this id; ids are unique"),
    ],
)  # fmt: skip
def test_bad_corpus_line(beir_folder, entry_of, line, message):
    _append(beir_folder / "corpus.jsonl", line)
    [problem] = _problems(entry_of(beir_folder))
    assert problem.startswith(f"{beir_folder}/corpus.jsonl: {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "q2", "text": "again"}', "query 'q2': 2 lines have this id"),
        ('{"_id": "q9", "text": "a", "metadata": {"excluded_ids": "d1"}}', "line 3: 'metadata.excluded_ids' must be"),
        ('{"_id": "q9", "text": "a", "metadata": "none"}', "line 3: 'metadata.excluded_ids' must be"),
        ('{"_id": "q9", "text": "a", "metadata": {"excluded_ids": [1]}}', "line 3: 'metadata.excluded_ids' must be"),
    ],
)  # fmt: skip
def test_bad_query_line(beir_folder, entry_of, line, message):
    _append(beir_folder / "queries.jsonl", line)
    [problem] = _problems(entry_of(beir_folder))
    assert problem.startswith(f"{beir_folder}/queries.jsonl: {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1\tlost\t1", "document 'lost': it is judged here, but it is not in corpus.jsonl"),
        ("lost\td1\t1", "query 'lost': it is judged here, but it is not in queries.jsonl"),
        ("q1\td1\t2", "query 'q1': document 'd1' is judged 2 times for it"),
        ("q2\td1\t-1", "line 5: the score must be a whole number, 0 (irrelevant) or higher, not '-1'"),
        ("q2\td1\t1.5", "line 5: the score must be"),
        ("q2\td1\tnan", "line 5: the score must be"),
        ("q2\td1\t²", "line 5: the score must be"),
        ("q2\td1\t99999999999", "line 5: the score must be"),
        ("q2 d1 1", "line 5: query-id, corpus-id and score, separated by tabs, are expected, not "),
        ("q2\t0\td1\t1", "line 5: query-id, corpus-id and score"),
        ("q2\t\t1", "line 5: query-id, corpus-id and score"),
        (b"q2\t\xff\t1", "line 5: 'utf-8' codec"),
        (b"q2\td1\0\t1", "line 5: the line holds NUL bytes"),
    ],
)  # fmt: skip
def test_bad_judgement(beir_folder, entry_of, line, message):
    _append(beir_folder / "qrels" / "test.tsv", line)
    [problem] = _problems(entry_of(beir_folder))
    assert problem.startswith(f"{beir_folder}/qrels/test.tsv: {message}")


def _with_negatives(folder, *lines, split="test"):
    (folder / "negatives").mkdir(exist_ok=True)
    (folder / "negatives" / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))


def test_negatives_beside_the_qrels_are_for_training_and_no_judgements(beir_folder, entry_of):
    before = data_sets.fingerprint(entry_of(beir_folder), "test")
    assert data_sets.load(entry_of(beir_folder)).negatives == {}
    _with_negatives(beir_folder, "query-id\tcorpus-id", "q2\td1", "q2\td3", "q2\td1")
    collection = data_sets.load(entry_of(beir_folder))
    assert [tuple(row.values()) for row in collection.negatives["test"].to_pylist()] == [
        ("q2", "d1"),
        ("q2", "d3"),
        ("q2", "d1"),
    ]
    after = data_sets.fingerprint(entry_of(beir_folder), "test")
    assert after.num_queries == before.num_queries
    assert after.content_hash != before.content_hash
    pairs = load_pairs(DataSpec(entry=entry_of(beir_folder), split="test"), hard_negatives=1)
    found = {
        query: {pairs.document_texts[d] for d in pairs.negatives[place]}
        for place, query in enumerate(pairs.query_texts)
    }
    # q1 has its document that is judged 0, q2 those of the file.
    assert found == {"where do apples grow?": {"no title here"}, "umlauts": {"no title here", "Apples grow on trees"}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1\tlost", "document 'lost': it is named here, but it is not in corpus.jsonl"),
        ("lost\td1", "query 'lost': it is named here, but it is not in queries.jsonl"),
        ("q1\td1\t0", "line 2: query-id and corpus-id, separated by a tab, are expected, not "),
        ("q1 d1", "line 2: query-id and corpus-id, separated by a tab, are expected, not "),
    ],
)  # fmt: skip
def test_bad_negative(beir_folder, entry_of, line, message):
    _with_negatives(beir_folder, "q2\td1", line)
    [problem] = _problems(entry_of(beir_folder))
    assert problem.startswith(f"{beir_folder}/negatives/test.tsv: {message}")


def test_negatives_of_no_split_are_refused(beir_folder, entry_of):
    _with_negatives(beir_folder, "q2\td1", split="tset")
    [problem] = _problems(entry_of(beir_folder))
    assert problem == f"{beir_folder}/negatives/tset.tsv: there is no file qrels/tset.tsv"


def test_a_cut_keeps_the_negatives_of_what_it_keeps(beir_folder, entry_of):
    _with_negatives(beir_folder, "q2\td1", "q2\td3", "q1\td2", "q1\td3")
    entry = entry_of(beir_folder, cut=Cut(num_documents=2, num_queries=1))
    collection = data_sets.load(entry)
    queries = set(collection.queries["id"].to_pylist())
    documents = set(collection.corpus["id"].to_pylist())
    rows = {(row["query_id"], row["document_id"]) for row in collection.negatives["test"].to_pylist()}
    everything = {("q2", "d1"), ("q2", "d3"), ("q1", "d2"), ("q1", "d3")}
    assert rows == {(q, d) for q, d in everything if q in queries and d in documents}


def test_train_and_dev_splits_are_trained_and_validated_on(beir_folder, entry_of):
    for split, line in (("train", "q1\td1\t1"), ("dev", "q2\td2\t1")):
        (beir_folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{line}\n")
    entry = entry_of(beir_folder, train_split="train", dev_split="dev")
    for split, query in (("train", "where do apples grow?"), ("dev", "umlauts")):
        assert list(load_pairs(DataSpec(entry=entry, split=split)).query_texts) == [query]


def test_faults_of_all_files_come_together(beir_folder, entry_of):
    _append(beir_folder / "corpus.jsonl", "{")
    _append(beir_folder / "queries.jsonl", "{")
    _append(beir_folder / "qrels" / "test.tsv", "q1\tlost\t1")
    (beir_folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nlost\td1\t-1\nq1\tgone\t1\n")
    places = [problem.partition(": ")[0].rpartition("/mine/")[2] for problem in _problems(entry_of(beir_folder))]
    assert places == ["corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/test.tsv", "qrels/train.tsv"]


def test_only_twenty_of_a_kind_are_shown_and_the_rest_counted(beir_folder, entry_of):
    for number in range(57):
        _append(beir_folder / "qrels" / "test.tsv", f"q1\tlost{number}\t1")
    _append(beir_folder / "corpus.jsonl", "{")
    problems = _problems(entry_of(beir_folder))
    assert sum("not in corpus.jsonl" in problem for problem in problems) == 20
    assert f"{beir_folder}: and 37 more of this kind: outside the collection" in problems
    assert len(problems) == 22


def test_a_faulty_folder_can_be_mended(beir_folder, entry_of):
    entry = entry_of(beir_folder)
    whole = (beir_folder / "corpus.jsonl").read_bytes()
    _append(beir_folder / "corpus.jsonl", "{")
    _problems(entry)
    (beir_folder / "corpus.jsonl").write_bytes(whole)
    assert data_sets.load(entry).corpus.num_rows == 3


def test_empty_texts_and_unanswered_queries_are_reported_not_refused(beir_folder, entry_of):
    _append(beir_folder / "corpus.jsonl", json.dumps({"_id": "d4", "title": " ", "text": "\n"}))
    _append(beir_folder / "queries.jsonl", json.dumps({"_id": "q3", "text": ""}))
    _append(beir_folder / "qrels" / "test.tsv", "q3\td1\t0")
    _append(beir_folder / "queries.jsonl", json.dumps({"_id": "q4", "text": "nobody judged this"}))
    entry = entry_of(beir_folder)
    assert data_sets.report(entry).warnings() == [
        "1 documents without title and text",
        "1 queries without text",
        "1 queries without a judgement in any split",
        "1 queries of 'test' without a relevant document",
    ]
    found = data_sets.fingerprint(entry, "test")
    assert (found.num_queries, found.num_pairs, found.num_documents) == (3, 2, 4)


def test_the_relevance_threshold_decides_what_a_pair_is(beir_folder, entry_of):
    assert data_sets.fingerprint(entry_of(beir_folder, relevance_threshold=2), "test").num_pairs == 1


def test_unknown_split_names_the_nearest(beir_folder, entry_of):
    with pytest.raises(InputError, match=r"mine: data set 'mine': 'tset' is not a split \(did you mean 'test'\?\)"):
        data_sets.fingerprint(entry_of(beir_folder), "tset")


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda text: text.encode("utf-16"), "it is UTF-16, and must be UTF-8"),
        (lambda text: gzip.compress(text.encode()), "it is packed by gzip; unpack it"),
        (lambda text: b"PK\x03\x04" + text.encode(), "it is a zip archive; unpack it"),
    ],
    ids=["utf-16", "gzip", "zip"],
)
def test_a_file_that_is_no_text_is_one_fault(beir_folder, entry_of, file, changed, message):
    """Not one for each of its lines, and none for each judgement of what could not be read."""
    (beir_folder / file).write_bytes(changed((beir_folder / file).read_text()))
    assert _problems(entry_of(beir_folder)) == [f"{beir_folder}/{file}: {message}"]


@pytest.mark.parametrize(("file", "what"), [("corpus.jsonl", "document"), ("queries.jsonl", "query")])
def test_a_file_without_texts_is_one_fault(beir_folder, entry_of, file, what):
    (beir_folder / file).write_text("\n")
    assert _problems(entry_of(beir_folder)) == [f"{beir_folder}/{file}: there is no {what} in it"]


def test_a_corpus_that_cannot_be_read_at_all_is_not_told_again_for_each_judgement(beir_folder, entry_of):
    lines = (beir_folder / "corpus.jsonl").read_text().splitlines()
    (beir_folder / "corpus.jsonl").write_text(f"[{', '.join(lines)}]\n")
    [problem] = _problems(entry_of(beir_folder))
    assert "corpus.jsonl: line 1: a JSON object is expected, not [{" in problem


def test_line_ends_of_another_time_and_a_header_of_another_name_are_told(beir_folder, entry_of):
    file = beir_folder / "qrels" / "test.tsv"
    sound = file.read_text()
    file.write_bytes(sound.replace("\n", "\r").encode())
    [problem] = _problems(entry_of(beir_folder))
    assert problem.endswith("line 1: a carriage return stands inside the line; lines end with \\n or \\r\\n")
    header, _, rest = sound.partition("\n")
    file.write_text(f"query\tdocument\tlabel\n{rest if header.startswith('query-id') else sound}")
    [problem] = _problems(entry_of(beir_folder))
    assert problem.endswith("not 'label' (a header begins with query-id)")
