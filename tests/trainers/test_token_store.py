import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trainers.init_regimes import start_encoder
from trainers.training import token_store
from trainers.training.token_store import tokenised

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def encoder(any_spec):
    return start_encoder(any_spec, 0)


def many(texts, number=300, seed=0):
    """Texts of all lengths: none, some words, just at the limit, far beyond it, and without a space."""
    generator = np.random.default_rng(seed)
    words = " ".join(texts).split()
    drawn = [" ".join(generator.choice(words, size=n)) for n in generator.integers(0, 120, size=number)]
    return [*drawn, "", " ", "\x00", "x" * 3000, "漢" * 3000, " ".join(["a"] * 2000), "a\x00b", *texts]


def num_longer(encoder, texts, side):
    """By brute force: whole texts, cut nowhere."""
    prompt = encoder.spec.query_prompt if side == "query" else encoder.spec.document_prompt
    whole = encoder.tokenizer([prompt + text for text in texts], truncation=False)["input_ids"]
    return sum(len(ids) > encoder.max_length(side) for ids in whole)


@pytest.mark.parametrize("side", ["query", "document"])
def test_ids_are_those_of_the_encoder_and_longer_texts_are_counted(encoder, texts, side, monkeypatch):
    monkeypatch.setattr(token_store, "_TEXTS_AT_ONCE", 64)
    asked = many(texts)
    found = tokenised(encoder, asked, side)
    expected = encoder.tokenise(asked, side)
    assert [found.ids(i).tolist() for i in range(len(found))] == expected
    assert found.ids(0).dtype == np.int32
    assert found.lengths.dtype == np.int32
    assert found.lengths.tolist() == [len(ids) for ids in expected]
    assert 0 < found.num_truncated == num_longer(encoder, asked, side) < len(asked)


def test_texts_exactly_at_the_limit_are_not_counted(tiny_bert, make_spec):
    encoder = start_encoder(make_spec(tiny_bert, max_document_length=10), 0)
    found = tokenised(
        encoder, ["a " * 8, "a " * 9, "a " * 8 + "\x00 " * 200, "a " * 8 + "\x00 " * 200 + "a"], "document"
    )
    assert found.lengths.tolist() == [10, 10, 10, 10]
    assert found.num_truncated == 2


def test_what_is_stored_is_mapped_and_not_computed_again(encoder, texts, monkeypatch):
    first = tokenised(encoder, texts, "document")
    monkeypatch.setattr(token_store, "_tokenised_blocks", None)
    again = tokenised(encoder, texts, "document")
    assert again.folder == first.folder is not None
    assert isinstance(again.flat_ids_T, np.memmap)
    assert again.ids(3).tolist() == first.ids(3).tolist()
    assert again.num_truncated == first.num_truncated


def test_all_that_decides_ids_is_in_the_key(tiny_bert, tiny_llama, make_spec, texts):
    specs = [
        make_spec(tiny_bert),
        make_spec(tiny_bert, max_document_length=32),
        make_spec(tiny_bert, document_prompt="passage: "),
        make_spec(tiny_llama),
        make_spec(tiny_llama, append_eos=True),
    ]
    folders = [tokenised(start_encoder(spec, 0), texts, "document").folder for spec in specs]
    folders.append(tokenised(start_encoder(specs[0], 0), texts[::-1], "document").folder)
    assert len(set(folders)) == len(specs) + 1
    # Weights, layers and the other side's settings decide nothing, nor does what was tokenised before.
    same = start_encoder(replace(specs[0], layers=1, max_query_length=8, init_regime="random"), 1)
    same.tokenise(texts, "query")
    same.tokenizer(texts, padding=True)
    assert tokenised(same, texts, "document").folder == folders[0]


def test_no_text_at_all(tiny_bert, make_spec):
    encoder = start_encoder(make_spec(tiny_bert), 0)
    for found in (tokenised(encoder, [], "query"), tokenised(encoder, (), "query")):
        assert (len(found), found.num_truncated) == (0, 0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "ids.bin").write_bytes((folder / "ids.bin").read_bytes()[:-2]),
        lambda folder: (folder / "offsets.bin").write_bytes(b"\0" * (folder / "offsets.bin").stat().st_size),
        lambda folder: (folder / "record.json").write_text("{"),
        lambda folder: (folder / "record.json").unlink(),
        lambda folder: (folder / "ids.bin").unlink(),
        lambda folder: (folder / "record.json").write_text(
            json.dumps(json.loads((folder / "record.json").read_text()) | {"num_texts": 3})
        ),
    ],
    ids=["ids cut", "offsets zero", "record cut", "no record", "no ids", "other number"],
)
def test_damaged_files_are_found_and_built_again(tiny_bert, make_spec, texts, damage):
    encoder = start_encoder(make_spec(tiny_bert), 0)
    folder = tokenised(encoder, texts, "document").folder
    damage(folder)
    again = tokenised(encoder, texts, "document")
    assert again.folder == folder
    assert [again.ids(i).tolist() for i in range(len(texts))] == encoder.tokenise(texts, "document")


def test_a_cache_folder_that_cannot_be_written_costs_a_warning(tiny_bert, make_spec, texts, own_cache):
    own_cache.write_text("a file, where a folder is needed")
    encoder = start_encoder(make_spec(tiny_bert), 0)
    with pytest.warns(RuntimeWarning, match="kept in memory.*set DENSESWEEP_CACHE"):
        found = tokenised(encoder, texts, "document")
    assert found.folder is None
    assert [found.ids(i).tolist() for i in range(len(texts))] == encoder.tokenise(texts, "document")
    assert found.num_truncated == num_longer(encoder, texts, "document")


def test_what_is_stored_is_read_where_nothing_can_be_written(tiny_bert, make_spec, texts, own_cache):
    encoder = start_encoder(make_spec(tiny_bert), 0)
    folder = tokenised(encoder, texts, "document").folder
    for lock in folder.parent.glob("*.lock"):
        lock.unlink()
        lock.mkdir()  # opening it fails, for root too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tokenised(encoder, texts, "document").folder == folder


FULL = """
import resource, signal, sys, warnings
from pathlib import Path
from tests.trainers.conftest import MINILM, TEXTS
from trainers.init_regimes import start_encoder
from trainers.training.token_store import tokenised
encoder = start_encoder(MINILM, 0)
texts = [f"{text} {i}" for i in range(2000) for text in TEXTS]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # a write beyond fails as on a full disk
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = tokenised(encoder, texts, "document")
assert found.folder is None and any("kept in memory" in str(w.message) for w in caught), caught
assert found.ids(7999).tolist() == encoder.tokenise(texts[7999:], "document")[0]
print(len(found.flat_ids_T))
"""


@pytest.mark.slow
def test_a_full_disk_costs_a_warning_and_leaves_nothing(own_cache):
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) * 2 > 100_000
    assert [file.name for file in (own_cache / "tokens").iterdir() if file.is_dir()] == []


def _tokenise(spec, start, answers):
    encoder = start_encoder(spec, 0)
    start.wait()
    found = tokenised(encoder, _texts(), "document")
    answers.put((os.getpid(), str(found.folder), found.num_truncated, int(found.flat_ids_T.sum())))


def _texts():
    return [f"word {i} " * (i % 60) for i in range(12_000)]


@pytest.mark.slow
def test_processes_at_once_share_one_folder(tiny_bert, make_spec):
    context = multiprocessing.get_context("spawn")
    start, answers = context.Event(), context.Queue()
    workers = [context.Process(target=_tokenise, args=(make_spec(tiny_bert), start, answers)) for _ in range(3)]
    for worker in workers:
        worker.start()
    start.set()
    found = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert len({pid for pid, *_ in found}) == 3
    assert len({(folder, num_truncated, total) for _, folder, num_truncated, total in found}) == 1


@pytest.mark.slow
def test_a_killed_writer_leaves_nothing_half_and_nobody_waiting(tiny_bert, make_spec, own_cache):
    context = multiprocessing.get_context("spawn")
    start, answers = context.Event(), context.Queue()
    start.set()
    writer = context.Process(target=_tokenise, args=(make_spec(tiny_bert), start, answers))
    writer.start()
    building = own_cache / "tokens"
    until = time.monotonic() + 60
    while not any(file.stat().st_size for file in building.glob("*.building/ids.bin")):
        assert time.monotonic() < until
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    assert [file.name for file in building.iterdir() if file.suffix == ".building"], "it died while it wrote"
    encoder = start_encoder(make_spec(tiny_bert), 0)
    found = tokenised(encoder, _texts(), "document")
    assert found.num_truncated == num_longer(encoder, _texts(), "document")
    assert [file.name for file in building.iterdir() if file.is_dir()] == [found.folder.name]
