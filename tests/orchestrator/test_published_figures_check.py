"""`densesweep data check --figures`: BM25 on the collection that is here against what the entry says is published."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from orchestrator.cli import app

ENCODER = {"kind": "encoder", "model": "small", "similarity": "cosine", "max_tokens": 64}


def check(sweep, *options: str):
    result = CliRunner().invoke(app, ["data", "check", str(sweep.file), "--json", *options], catch_exceptions=False)
    [row] = json.loads(result.output)
    return result.exit_code, row


def declare(sweep, value: float) -> None:
    content = yaml.safe_load(sweep.file.read_text())
    bm25 = {"kind": "bm25", "analysis": "lucene", "k1": 0.9, "b": 0.4}
    figure = {"method": bm25, "measure": "nDCG@10", "split": "test", "value": value, "tolerance": 0.002}
    figure |= {"origin": "published", "source": "a paper"}
    others = [ENCODER, bm25 | {"k1": 1.2}, bm25 | {"analysis": "words"}]
    content["data_sets"][0]["reference"] = [figure, *(figure | {"method": other, "value": 0.1} for other in others)]
    sweep.file.write_text(yaml.safe_dump(content))


def test_a_figure_that_agrees_is_told_and_one_that_does_not_is_odd(make_sweep):
    """Each query has the words of the one document that answers it: BM25 finds it first."""
    sweep = make_sweep()
    declare(sweep, 1.0)
    code, row = check(sweep)
    assert (code, row["figures"]) == (0, [])
    code, row = check(sweep, "--figures")
    assert row["figures"] == ["BM25 has nDCG@10 1.0000 on test, as published (1)"]
    declare(sweep, 0.9)
    code, other = check(sweep, "--figures")
    assert (code, other["verdict"], other["figures"]) == (0, "odd", [])
    assert other["oddities"][-1].startswith("BM25 has nDCG@10 1.0000 on test, and 0.9 is published (within 0.002)")


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ([], "no figure was made again: its entry has none: add one of BM25 under `reference`"),
        (
            [ENCODER],
            "no figure was made again: its entry has none of BM25 (Lucene, k1 0.9, b 0.4), only of small, untrained, "
            "cosine, 64 tokens",
        ),
    ],
)
def test_without_a_figure_of_bm25_the_reason_is_told(make_sweep, reference, told):
    sweep = make_sweep()
    content = yaml.safe_load(sweep.file.read_text())
    figure = {"measure": "nDCG@10", "split": "test", "value": 0.5, "tolerance": 0.002}
    figure |= {"origin": "measured", "source": "a paper"}
    content["data_sets"][0]["reference"] = [figure | {"method": method} for method in reference]
    sweep.file.write_text(yaml.safe_dump(content))
    code, row = check(sweep, "--figures")
    assert (code, row["verdict"], row["figures"]) == (0, "right", [told])
