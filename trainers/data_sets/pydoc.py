"""Reader of Python's standard library as retrieval: which function does what this sentence says?

query: the first sentence of a docstring. document: the function's code without the docstring, its name masked.
"""

import ast
import inspect
import platform
import re
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from trainers.data_sets.collection import CORPUS, QRELS, QUERIES, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.hashing import text_hash

VERSION = 1
_NUM_QUERIES = 1000
_MIN_WORDS, _MAX_WORDS = 4, 40
_MIN_CODE_LINES = 3
_MASK = "function"
_SENTENCE = re.compile(r".+?[.!?](?=\s|$)")
# What is no part of the library, differs between distributions of one Python version, or is test code.
_LEFT_OUT = {"site-packages", "dist-packages", "lib-dynload", "test", "tests", "idlelib", "__pycache__"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class _Pair:
    id: str
    sentence: str
    code: str


def inputs(entry: DataSet) -> list[str]:
    """The running Python: its version, and where its standard library lies."""
    return [platform.python_version(), str(_library())]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Build the collection: one document per function, and queries for the 1,000 with the smallest content hashes."""
    pairs = _telling(list(_pairs(_library())))
    asked = sorted(pairs, key=lambda pair: text_hash(pair.sentence))[:_NUM_QUERIES]
    corpus = [{"id": pair.id, "title": "", "text": pair.code} for pair in pairs]
    queries = [{"id": f"q:{pair.id}", "text": pair.sentence, "excluded_ids": []} for pair in asked]
    qrels = [{"query_id": f"q:{pair.id}", "document_id": pair.id, "relevance": 1} for pair in asked]
    return Collection(
        name=entry.name,
        corpus=pa.Table.from_pylist(corpus, CORPUS),
        queries=pa.Table.from_pylist(queries, QUERIES),
        qrels={"test": pa.Table.from_pylist(qrels, QRELS)},
    )


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring's first paragraph, in single spaces."""
    paragraph = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split())
    found = _SENTENCE.match(paragraph)
    return found.group() if found else paragraph


def masked_code(function: _Function, lines: list[str]) -> str:
    """The function's source lines without its docstring, dedented, with its name replaced wherever it is a word.

    `lines` are those of the whole file.
    """
    docstring = function.body[0]
    assert docstring.end_lineno is not None
    assert function.end_lineno is not None
    code = [*lines[function.lineno - 1 : docstring.lineno - 1], *lines[docstring.end_lineno : function.end_lineno]]
    told = [line.rstrip() for line in code if line.strip()]
    indent = len(told[0]) - len(told[0].lstrip()) if told else 0
    text = "\n".join(line[indent:] if line[:indent].isspace() else line for line in told)
    return re.sub(rf"\b{re.escape(function.name)}\b", _MASK, text)


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _pairs(library: Path) -> Iterator[_Pair]:
    """Every function with a fitting docstring and enough code, in the order of its file's name and place."""
    seen: Counter[str] = Counter()
    for file in sorted(library.rglob("*.py"), key=lambda file: file.relative_to(library).parts):
        inside = file.relative_to(library)
        if _LEFT_OUT.intersection(inside.parts[:-1]) or inside.name in {"sitecustomize.py", "usercustomize.py"}:
            continue
        with tokenize.open(file) as stream:
            source = stream.read()
        lines = source.split("\n")
        for name, function in _functions(ast.parse(source), ""):
            sentence = first_sentence(ast.get_docstring(function) or "")
            code = masked_code(function, lines) if _MIN_WORDS <= len(sentence.split()) <= _MAX_WORDS else ""
            if code.count("\n") + 1 >= _MIN_CODE_LINES:
                key = f"{inside.with_suffix('').as_posix()}:{name}"
                seen[key] += 1  # one name may be defined twice, under an `if`
                yield _Pair(id=key if seen[key] == 1 else f"{key}:{seen[key]}", sentence=sentence, code=code)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # holds no definition, and most nodes are expressions
            continue
        name = prefix
        if isinstance(child, ast.ClassDef | _Function):
            name = f"{prefix}.{child.name}" if prefix else child.name
        if isinstance(child, _Function):
            yield name, child
        yield from _functions(child, name)


def _telling(pairs: list[_Pair]) -> list[_Pair]:
    """Without sentences that several functions share, and codes that several have: they have no one answer."""
    sentences = Counter(pair.sentence.casefold() for pair in pairs)
    codes = Counter(pair.code for pair in pairs)
    return [pair for pair in pairs if sentences[pair.sentence.casefold()] == codes[pair.code] == 1]
