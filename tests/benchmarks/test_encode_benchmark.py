"""The encoding benchmark: units of work are different texts, and sides that give different vectors are found."""

import pytest

from tests.benchmarks import bench_encode
from tests.benchmarks.bench_encode import EncodeJob, encode_ours, encode_peer, units_of
from tests.benchmarks.harness import Block, Contestant, in_turn

TEXTS = ["a short text", "a text of some more words that says nothing else", "numbers: 1 2 3", "one"]


def block(*values: float) -> Block:
    return Block(wall_s=1.0, cpu_s=1.0, values=values)


def test_units_are_full_and_different():
    texts = [f"text {number}" for number in range(3000)]
    assert [len(unit) for unit in units_of(texts, 1)] == [64, 1024]
    units = units_of(texts, 100)
    assert [text for unit in units for text in unit] == texts[: 64 + 2 * 1024]


def test_vectors_that_differ_are_refused():
    bench_encode._check_equal([block(1.0, 2.0), block(3.0)], [block(1.0, 2.0), block(3.0001)], "fp32")
    with pytest.raises(RuntimeError, match="differ"):
        bench_encode._check_equal([block(1.0, 2.0), block(3.0)], [block(1.0, 2.1), block(3.0)], "fp32")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_both_sides_give_the_same_vectors(tmp_path, precision):
    file = tmp_path / "texts.json"
    file.write_text(f"[{TEXTS!r}, {TEXTS[:2]!r}]".replace("'", '"'))
    job = EncodeJob(texts=file, precision=precision, threads=1)
    contestants = [Contestant(name="ours", run=encode_ours, job=job), Contestant(name="peer", run=encode_peer, job=job)]
    blocks = in_turn(contestants, rounds=1, units={"ours": 1, "peer": 1})
    bench_encode._check_equal(blocks["ours"], blocks["peer"], precision)
    assert blocks["ours"][0].values != blocks["ours"][1].values
