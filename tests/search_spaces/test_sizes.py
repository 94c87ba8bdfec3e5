"""Sizes of memory as a sweep file has them."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError
from search_spaces.sizes import parse_size, size_text


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("1KiB", 1024), ("512MiB", 512 * 2**20), ("2GiB", 2**31), ("10TiB", 10 * 2**40)]
)
def test_sizes_are_read_and_written(text, num_bytes):
    assert parse_size(text) == num_bytes
    assert size_text(num_bytes) == text


@pytest.mark.parametrize(
    "text", ["2GB", "2G", "2", 2147483648, 2.5, "1.5GiB", "0GiB", "-1GiB", "2 GiB", "2gib", "", "GiB", "2GiB\n"]
)
def test_what_is_no_size_is_refused(parse, raw, text):
    """Of every key alike, and by editors."""
    raw["evaluation"] = {**raw["evaluation"], "memory_budget": text}
    raw["resources"] = {"memory": text}
    with pytest.raises(InputError) as refused:
        parse(raw)
    said = f"{text!r} is not a size (write a whole number and KiB, MiB, GiB, TiB, such as 2GiB)"
    assert {(p.key, p.message) for p in refused.value.problems} == {
        ("evaluation.memory_budget", said),
        ("resources.memory", said),
    }


def test_every_key_takes_a_size(parse, raw):
    raw["evaluation"] = {**raw["evaluation"], "memory_budget": "2GiB"}
    raw["resources"] = {"memory": "512MiB"}
    sweep = parse(raw)
    assert (sweep.evaluation.memory_budget, sweep.resources.memory) == (2**31, 2**29)


def test_a_size_between_units_is_rounded_up_to_the_next_smaller_one():
    assert size_text(2**31 + 1) == "2097153KiB"


def test_a_budget_reaches_every_evaluation(parse, raw):
    raw["evaluation"] = {**raw["evaluation"], "memory_budget": "2GiB"}
    assert {e.spec.memory_budget_bytes for e in expand(parse(raw), where="sweep.yaml").evaluations} == {2**31}
