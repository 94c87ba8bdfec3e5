import pytest
from pydantic import ValidationError

from search_spaces.blocks import parse_size
from search_spaces.schema import CheckpointsBlock
from search_spaces.shown_sizes import shown_size


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("50GiB", 50 * 2**30), ("1536KiB", 1572864), ("2TiB", 2**41)],
)
def test_sizes_are_read(text, num_bytes):
    assert parse_size(text) == num_bytes
    assert CheckpointsBlock(quota=text).quota == num_bytes


@pytest.mark.parametrize("value", ["50", "50G", "-1GiB", "GiB", "5 gib", "1e3MB", 0, "0GiB", 1.5, True, ""])
def test_anything_else_is_a_problem(value):
    with pytest.raises(ValidationError, match="quota"):
        CheckpointsBlock(quota=value)


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan"), "1h"])
def test_a_wait_is_a_number_of_seconds_or_for_ever(value):
    with pytest.raises(ValidationError, match="wait_for_space_s"):
        CheckpointsBlock(wait_for_space_s=value)
    assert CheckpointsBlock(wait_for_space_s=None).wait_for_space_s is None


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3.4 * 2**30, "3.4 GiB"), (5 * 2**40, "5.0 TiB")],
)
def test_sizes_are_shown(num_bytes, text):
    assert shown_size(num_bytes) == text
