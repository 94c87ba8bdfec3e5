"""`validate` and `plan` say what a sweep does not get of its data: counted by hand over a small folder."""

import json

import pytest

from orchestrator.resolve import resolve

SHORT = "12 of 48 queries have fewer than 2 hard negatives; random documents fill them up"


@pytest.fixture
def sweep(make_sweep):
    """Each of the 48 queries has two negatives of its own animal, but the first 12 of them only one."""
    made = make_sweep(training={"hard_negatives": 2})
    data = made.file.parent / "data"
    (data / "negatives").mkdir()
    documents = [json.loads(line)["_id"] for line in (data / "corpus.jsonl").read_text().splitlines()]
    lines = ["query-id\tcorpus-id"]
    for place, document in enumerate(documents):
        same_animal = [d for d in documents if d.split("-")[0] == document.split("-")[0] and d != document]
        lines += [f"q{document}\t{negative}" for negative in same_animal[: 1 if place < 12 else 2]]
    (data / "negatives" / "train.tsv").write_text("\n".join(lines) + "\n")
    return made


def notes(sweep):
    return tuple(notice for notice in resolve(sweep.file).notices if notice.startswith("data set"))


def append(sweep, name, line):
    with (sweep.file.parent / "data" / name).open("a") as file:
        file.write(line)


def test_short_queries_are_told(sweep):
    assert notes(sweep) == (f"data set 'zoo', split 'train': {SHORT}",)


def test_what_is_left_out_is_told_too(sweep):
    append(sweep, "corpus.jsonl", '\n{"_id": "again", "title": "ant", "text": "The ant lives in the wood."}')
    append(sweep, "corpus.jsonl", '\n{"_id": "empty", "title": "", "text": " "}')
    append(sweep, "queries.jsonl", '\n{"_id": "unasked", "text": "which yak was seen"}')
    append(sweep, "qrels/train.tsv", "qd1-0\tempty\t1\n")
    append(sweep, "negatives/train.tsv", "qd0-0\tagain\n")
    place = "data set 'zoo', split 'train':"
    assert notes(sweep) == (
        "data set 'zoo': 1 documents without title and text",
        "data set 'zoo': 1 queries without a judgement in any split",
        f"{place} 1 pairs and hard negatives are left out, since their query or document has no text",
        f"{place} 1 hard negatives are left out, since their text is relevant to the query",
        f"{place} {SHORT}",
    )


def test_a_query_that_all_documents_are_relevant_to_is_told(make_sweep):
    made = make_sweep()
    documents = {f"d{i}-{j}" for i in range(12) for j in range(4)} - {"d0-0"}  # this one is its own already
    append(made, "qrels/train.tsv", "".join(f"qd0-0\t{document}\t1\n" for document in sorted(documents)))
    assert notes(made) == (
        "data set 'zoo', split 'train': every document is relevant to 1 of 48 queries, which have no negative in any "
        "batch: their loss is always 0",
    )


def test_validate_and_plan_print_it(sweep):
    for command in ("validate", "plan"):
        done = sweep.here(command, sweep.file.name)
        assert (done.returncode, f"note: data set 'zoo', split 'train': {SHORT}" in done.stdout) == (0, True), (
            done.stderr
        )


def test_training_without_hard_negatives_lacks_none(make_sweep):
    assert notes(make_sweep()) == ()
