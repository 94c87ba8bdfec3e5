"""The headline table: gains side by side, in the room that a description has."""

import polars as pl
import pytest

from results.collect import collect
from results.headline import headline
from results.rendering.fitting import fitted
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import SweepFolder, evaluation, trained

SIMILARITIES = ("cosine", "dot", "qnorm", "dnorm", "learnable", "half")
WHOLE = "Whole tables: `tables/gains.md`."


def gain_rows(num_models, groups=("in_domain", "beir")):
    """Rows as those of table `gains`: model m, similarity s and group g gain s - g points, cosine scores 40 + m."""
    return pl.DataFrame(
        [
            {
                "task": "contrastive",
                "model": f"family_{model}",
                "init_regime": "finetune",
                "scale": "fixed(20)",
                "group": group,
                "measure": "nDCG@10",
                "kind": "train",
                "similarity": similarity,
                "gain": (place - place_of_group) / 100,
                "baseline_score": (40 + model) / 100,
            }
            for model in range(num_models)
            for place_of_group, group in enumerate(groups)
            for place, similarity in enumerate(SIMILARITIES)
        ]
    )


def shown(rows, **options):
    given = {"baseline": "cosine", "primary_groups": ("beir",), "limit": 7500, "whole": WHOLE} | options
    return headline(rows, **given)


def test_each_similarity_has_a_column_and_the_best_gain_is_bold():
    lines = shown(gain_rows(1)).splitlines()
    assert lines[0] == "| model | regime | group | cosine (nDCG@10) | dot | qnorm | dnorm | learnable | half |"
    assert lines[2] == "| family_0 | finetune | beir | 40.00 | 0.00 | +1.00 | +2.00 | +3.00 | **+4.00** |"
    assert lines[3] == "| family_0 | finetune | in_domain | 40.00 | +1.00 | +2.00 | +3.00 | +4.00 | **+5.00** |"
    assert lines[-1] == WHOLE


def test_a_hole_is_a_dash_and_a_loss_is_never_bold():
    rows = gain_rows(1, groups=("beir",)).with_columns(
        gain=pl.when(pl.col("similarity") == "dot").then(None).otherwise(-pl.col("gain"))
    )
    assert "| 40.00 | – | -2.00 | -3.00 | -4.00 | -5.00 |" in shown(rows)
    assert "**" not in shown(rows)


def test_a_huge_sweep_keeps_its_primary_groups_and_says_how_much_is_left_away():
    rows = gain_rows(60, groups=("in_domain", "beir", "bright"))
    text = shown(rows)
    assert len(text) <= 7500
    body = [line for line in text.splitlines() if line.startswith("| family")]
    assert {line.split(" | ")[2] for line in body[:60]} == {"beir"}
    assert f"*{180 - len(body)} more lines are left away here.*" in text
    assert text.endswith(WHOLE)


def test_the_table_agrees_with_table_gains(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "in_domain"),))
    for similarity, score in (("cosine", 0.5), ("qnorm", 0.75)):
        folder.add_trial(trained(similarity), lambda _, __, score=score: [score, score])
    table = TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions())
    assert "| minilm-3l | finetune | in_domain | 50.00 | **+25.00** |" in shown(table.rows)


@pytest.mark.parametrize("limit", [60, 100, 200, 400])
def test_a_text_is_cut_at_whole_lines(limit):
    lines = [f"line {number} of many" for number in range(40)]
    text = fitted(lines, ["the end"], limit)
    kept = [line for line in text.splitlines() if line.startswith("line")]
    assert len(text) <= limit
    assert kept == lines[: len(kept)]
    assert f"*{40 - len(kept)} more lines" in text
    assert text.endswith("the end")


def test_a_text_that_fits_is_whole_and_what_cannot_fit_is_refused():
    assert fitted(["a", "b"], ["c"], 6) == "a\nb\n\nc"
    with pytest.raises(ValueError, match="more than 5 characters"):
        fitted(["a", "b"], ["c" * 10], 5)
