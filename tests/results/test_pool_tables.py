"""Tables of scores on pools: never beside scores over corpora, and with what is known of their bias under them."""

import io
import subprocess
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from rendered import build
from rich.console import Console
from texlive import ENGINES, needs_latex

from results.collect import collect
from results.layout import per_query_rows, scored_rows
from results.pool_bias import MEASURED, MEASURED_HOW, MEASURED_WITH, bias, biases_in_sweep
from results.rendering import export, terminal
from results.rows import write_rows
from results.selection import SelectionError
from results.store import open_store
from results.tables import TABLES
from search_spaces.identity import evaluation_id
from search_spaces.specs import PoolSettings
from tests.results.builders import (
    SweepFolder,
    add_magnitudes,
    evaluation,
    evaluation_spec,
    probe,
    similarity_spec,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)

GOLDEN = Path(__file__).parent / "golden"
# What shows no score on a corpus; ranks need several data sets of a tier.
_OTHERS = {"missing", "cost", "predictions", "sts", "cohen_d", "fisher_published", "learned_gamma", "ranks"}
RANKED = sorted(set(TABLES) - _OTHERS)


def sweep_of(root, *tiers):
    """A whole sweep with one group of each tier, on one collection of each, and questions of each."""
    evaluations = [evaluation(f"set{n}", f"group{n}", tier=tier) for n, tier in enumerate(tiers)]
    questions = [evaluation(f"questions{n}", reader="r", num_passages=2, tier=t) for n, t in enumerate(tiers)]
    groups = tuple(f"group{n}" for n in range(len(tiers)))
    folder = SweepFolder(store=open_store(str(root)), evaluations=(*evaluations, *questions), primary_groups=groups)

    def with_answers(score):
        return lambda name, scored: [1, 0.5] if name.startswith("questions") else score(name, scored)

    for similarity, scores in (("cosine", (0.5, 0.3)), ("qnorm", (0.55, 0.33)), ("dnorm", (0.52, 0.36))):
        folder.add_trial(trained(similarity), with_answers(two_queries(scores)))
    folder.add_trial(untrained(), with_answers(untrained_queries((0.4, 0.2))))
    folder.add_probe(probe(), {16: -0.2})
    for planned in (*evaluations, *questions):
        if planned.tier == "pool":
            folder.write_pool(planned)
    add_magnitudes(folder)
    return folder


@pytest.mark.parametrize("name", RANKED)
def test_two_tiers_are_refused_and_each_of_them_has_its_table(tmp_path, name):
    folder = sweep_of(tmp_path, "full", "pool")
    with pytest.raises(SelectionError, match=r"two evaluation tiers, .*0 \(full\) and .*1 \(pool\).*--where tier=full"):
        build(folder, name)
    for tier in ("full", "pool"):
        table = build(folder, name, where={"tier": tier})
        assert set(table.rows["tier"]) == ({tier} if table.rows.height else set()), "one data set has no ranks"
        assert table.rows.height
        assert table.holes == ()
        assert any("Pool against corpus" in note for note in table.notes) == (tier == "pool")
    with pytest.raises(SelectionError, match="there are: full, pool"):
        build(folder, name, where={"tier": "pol"})


@pytest.mark.parametrize("name", RANKED)
def test_every_format_prints_the_measured_bias_under_a_table_of_pools(tmp_path, name):
    table = build(sweep_of(tmp_path, "pool"), name)
    console = Console(width=10_000, record=True, file=io.StringIO())
    console.print(terminal.render(table))
    latex = export(table, "latex")[f"{name}.tex"]
    for text in (export(table, "md")[f"{name}.md"], latex, console.export_text()):
        text = text.replace("{}", "")
        for measured in MEASURED:
            assert f"{measured.collection} ({measured.num_queries} queries" in text
            assert f"{measured.bias.mean_difference * 100:.2f} points in the mean" in text
            assert f"{measured.bias.max_difference * 100:.2f} at most" in text
            assert f"Kendall's tau {measured.bias.kendall_tau:.3f}" in text
        assert "54,321 of 8,841,823" in text
        assert MEASURED_HOW.split(" (")[0] in text
    frame = pl.read_csv(export(table, "csv")[f"{name}.csv"].encode())
    assert frame["tier"].unique().to_list() == ["pool"]


def test_golden_tables_on_pools(tmp_path):
    """To accept a wanted change, write the new text into tests/results/golden/."""
    table = build(sweep_of(tmp_path, "pool"), "gains")
    assert export(table, "md")["gains.md"] == (GOLDEN / "pools" / "gains.md").read_text()
    assert export(table, "latex")["gains.tex"] == (GOLDEN / "pools" / "gains.tex").read_text()


@needs_latex
@pytest.mark.skipif("pdflatex" not in ENGINES, reason="pdflatex is not installed")
def test_latex_of_pools_compiles(tmp_path):
    files = export(build(sweep_of(tmp_path / "sweep", "pool"), "gains"), "latex")
    (tmp_path / "t.tex").write_text(files["gains_document.tex"])
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_recorded_figures_are_of_the_default_settings():
    """A default that changes asks for `make bench BENCH=pool`, and its figures for results/pool_bias.py."""
    assert PoolSettings() == MEASURED_WITH
    assert len({measured.collection for measured in MEASURED}) >= 2
    for measured in MEASURED:
        assert 0 < measured.num_documents < measured.num_corpus_documents
        assert 0 <= measured.bias.mean_difference <= measured.bias.max_difference <= 1
        assert measured.bias.num_scores > 1


def test_figures_of_other_settings_are_said_to_be_so(tmp_path):
    folder = sweep_of(tmp_path, "pool")
    assert not any("not of this table's pools" in note for note in build(folder, "gains").notes)
    folder.write_pool(folder.evaluations[0], replace(PoolSettings(), seed=8))
    assert not any("not of this table's pools" in note for note in build(folder, "gains").notes)
    folder.write_pool(folder.evaluations[0], replace(PoolSettings(), random=3))
    [note] = [note for note in build(folder, "gains").notes if "not of this table's pools" in note]
    assert "random 3" in note


def test_a_sweep_that_has_both_tiers_of_a_data_set_says_how_far_they_are_apart(tmp_path):
    """Rows over the corpus may be of an earlier run of the sweep, which its record does not list any more."""
    folder = sweep_of(tmp_path, "pool")
    collected = collect(folder.store, folder.record())
    assert biases_in_sweep(folder.store, collected.trials.iter_rows(named=True)) == []
    planned = folder.evaluations[0]
    less = {"cosine": 0.01, "qnorm": 0.06, "dnorm": 0.02}  # than on the pool: the winner is another one
    for row in collected.trials.filter(pl.col("kind") == "train").iter_rows(named=True):
        whole = evaluation_spec(planned).whole
        score = {"cosine": 0.3, "qnorm": 0.33, "dnorm": 0.36}[row["similarity"]] - less[row["similarity"]]
        rows = [
            {"checkpoint_hash": row["checkpoint_hash"], "data_set": planned.data_set, "data_hash": planned.data_hash,
             "split": "test", "tier": "full", "score_similarity": row["similarity"], "query_id": f"q{n}",
             "measure": measure, "value": score if measure == "nDCG@10" else 1.0}
            for n in range(2) for measure in ("nDCG@10", "R@100")
        ]  # fmt: skip
        key = evaluation_id(row["checkpoint_hash"], whole, similarity_spec(row["similarity"]))
        assert scored_rows(whole, key) == per_query_rows(key)
        write_rows(folder.store, per_query_rows(key), "per_query", rows)
    [found] = biases_in_sweep(folder.store, collected.trials.iter_rows(named=True))
    assert (found.data_set, found.split, found.measure, found.bias.num_scores) == ("set0", "test", "nDCG@10", 3)
    assert found.bias.mean_difference == pytest.approx(0.03)
    assert found.bias.max_difference == pytest.approx(0.06)
    [note] = [note for note in build(folder, "gains").notes if "in this sweep" in note]
    assert "set0/test: nDCG@10 differs by 3.00 points in the mean and 6.00 at most over 3 scores" in note


def test_bias_by_hand():
    found = bias([0.5, 0.4, 0.45, 0.1], [0.5, 0.38, 0.35, 0.1])
    assert found.num_scores == 4
    assert found.mean_difference == pytest.approx(0.03)
    assert found.max_difference == pytest.approx(0.1)
    assert found.kendall_tau == pytest.approx((5 - 1) / 6)  # one of six pairs has turned round
    assert found.same_winner
    assert not bias([0.3, 0.4], [0.3, 0.2]).same_winner
    assert bias([0.3], [0.2]).kendall_tau is None
    assert bias([0.3, 0.3], [0.2, 0.1]).kendall_tau is None


def test_a_missing_evaluation_on_a_pool_is_told_though_the_corpus_was_searched(tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path)), evaluations=(evaluation("a", "one"), evaluation("a", "two", tier="pool"))
    )
    key = folder.add_trial(trained("cosine"), lambda *_: [0.5])
    both = collect(folder.store, folder.record())
    assert both.missing == ()
    specs = [evaluation_spec(planned) for planned in folder.evaluations]
    folder.store.delete(per_query_rows(evaluation_id(f"checkpoint-{key}", specs[1], similarity_spec("cosine"))))
    [missing] = collect(folder.store, folder.record()).missing
    assert missing.what == "a/test on its pool scored with cosine"
