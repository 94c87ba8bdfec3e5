"""A small BEIR folder to read, and to break."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from search_spaces.catalogue.data_sets import DataSet

DOCUMENTS = [
    {"_id": "d1", "title": "Apples", "text": "grow on trees"},
    {"_id": "d2", "title": "", "text": "Ein Text mit Umlauten: äöü"},
    {"_id": "d3", "text": "no title here"},
]
QUERIES = [
    {"_id": "q1", "text": "where do apples grow?", "metadata": {"excluded_ids": ["d2"], "other": 1}},
    {"_id": "q2", "text": "umlauts"},
]
QRELS = [("q1", "d1", 2), ("q1", "d3", 0), ("q2", "d2", 1)]


def write_lines(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def write_qrels(folder: Path, split: str, rows: Sequence[tuple[str, str, int]]) -> None:
    (folder / "qrels").mkdir(exist_ok=True)
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def beir_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    write_lines(folder / "corpus.jsonl", DOCUMENTS)
    write_lines(folder / "queries.jsonl", QUERIES)
    write_qrels(folder, "test", QRELS)
    return folder


@pytest.fixture
def entry_of() -> Callable[..., DataSet]:
    """The entry that reads a BEIR folder; keywords change it."""

    def entry(folder: Path, **changes: Any) -> DataSet:
        return DataSet(**{"name": "mine", "source": f"path:{folder}", **changes})

    return entry


@pytest.fixture(autouse=True)
def own_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests over `beir_folder` cache in their own folder; the others share the session's."""
    if "beir_folder" in request.fixturenames:
        monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
