"""`densesweep data check --figures`: BM25 on the collection that is here against what the entry says is published."""

import json

import yaml
from typer.testing import CliRunner

from orchestrator.cli import app


def check(sweep, *options: str):
    result = CliRunner().invoke(app, ["data", "check", str(sweep.file), "--json", *options], catch_exceptions=False)
    [row] = json.loads(result.output)
    return result.exit_code, row


def declare(sweep, value: float) -> None:
    content = yaml.safe_load(sweep.file.read_text())
    system = "BM25 (Lucene, k1 0.9, b 0.4, title and text)"
    figure = {"system": system, "measure": "nDCG@10", "split": "test", "value": value, "tolerance": 0.002}
    others = figure | {"system": "a retriever", "value": 0.1}
    content["data_sets"][0]["reference"] = [figure | {"origin": "published"}, others | {"origin": "published"}]
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
