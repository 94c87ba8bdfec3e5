"""The standard library as retrieval: what is left of a function, and the cut version."""

import ast
import re

import pytest

from search_spaces.catalogue.data_sets import DATA_SETS, Cut
from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.cut import cut_collection
from trainers.data_sets.pydoc import first_sentence, masked_code

SOURCE = '''
class Tree:
    @property
    def height(self):
        """Return the height. The root counts.

        More.
        """
        if self.left:  # height of the left
            return 1 + self.left.height

        return heights.get(self)
'''


@pytest.fixture(scope="module")
def pydoc():
    return data_sets.load(DATA_SETS["pydoc"])


@pytest.fixture(scope="module")
def small():
    return data_sets.load(DATA_SETS["pydoc_small"])


def test_masked_code():
    function = ast.parse(SOURCE).body[0].body[0]
    assert masked_code(function, SOURCE.split("\n")) == (
        "def function(self):\n"
        "    if self.left:  # function of the left\n"
        "        return 1 + self.left.function\n"
        "    return heights.get(self)"
    )


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Return it. Or not.", "Return it."),
        ("Return\n    the value 1.5 of it\n\n    More text.", "Return the value 1.5 of it"),
        ("Is it? Yes.", "Is it?"),
        ("", ""),
    ],
)
def test_first_sentence(docstring, sentence):
    assert first_sentence(docstring) == sentence


def test_sizes(pydoc, small):
    assert 3_300 < pydoc.corpus.num_rows < 4_200  # 3,640 with Python 3.11
    assert pydoc.queries.num_rows == pydoc.qrels["test"].num_rows == 1_000
    assert small.corpus.num_rows == 800
    assert small.queries.num_rows == small.qrels["test"].num_rows == 300


def test_a_known_function(pydoc):
    """`textwrap.shorten`, as its source reads."""
    codes = dict(zip(pydoc.corpus["id"].to_pylist(), pydoc.corpus["text"].to_pylist(), strict=True))
    code = codes["textwrap:shorten"]
    assert code.startswith("def function(text, width, **kwargs):\n    w = TextWrapper(")
    assert "Collapse and truncate" not in code


def test_no_document_has_its_docstring_or_its_name(pydoc):
    asked = {row["query_id"]: row["document_id"] for row in pydoc.qrels["test"].to_pylist()}
    codes = dict(zip(pydoc.corpus["id"].to_pylist(), pydoc.corpus["text"].to_pylist(), strict=True))
    for query in pydoc.queries.to_pylist():
        document = asked[query["id"]]
        name = document.partition(":")[2].partition(":")[0].rpartition(".")[2]
        code = codes[document]
        assert not re.search(rf"\b{re.escape(name)}\b", code) or name == "function", document
        assert query["text"] not in re.sub(r"[\s#]+", " ", code), document
        assert 4 <= len(query["text"].split()) <= 40


def test_texts_are_unique_so_that_each_query_has_one_answer(pydoc):
    assert len(pydoc.corpus["text"].unique()) == pydoc.corpus.num_rows
    assert len(pydoc.queries["text"].unique()) == pydoc.queries.num_rows


def test_nothing_of_this_machine_is_in_it(pydoc):
    ids = pydoc.corpus["id"].to_pylist()
    assert all(re.fullmatch(r"[\w/.-]+:[\w.]+(:\d+)?", document) and not document.startswith("/") for document in ids)
    assert not any(re.match(r"(.*/)?(tests?|idlelib|site-packages)/", document) for document in ids)


def test_the_small_version_is_part_of_the_whole_and_keeps_every_answer(pydoc, small):
    whole = {row["id"]: row["text"] for row in pydoc.corpus.to_pylist()}
    assert all(whole[row["id"]] == row["text"] for row in small.corpus.to_pylist())
    assert set(small.queries["id"].to_pylist()) <= set(pydoc.queries["id"].to_pylist())
    assert set(small.qrels["test"]["document_id"].to_pylist()) <= set(small.corpus["id"].to_pylist())
    assert set(small.qrels["test"]["query_id"].to_pylist()) == set(small.queries["id"].to_pylist())


def test_a_cut_that_cannot_hold_the_answers_is_refused(pydoc):
    with pytest.raises(InputError, match=r"cut.num_documents: the 300 queries kept of each split have 300 relevant"):
        cut_collection(pydoc, Cut(num_documents=20, num_queries=300), threshold=1)
