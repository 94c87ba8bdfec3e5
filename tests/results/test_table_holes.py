"""Holes of tables: refused in every format, dashes where allowed, and told with files and reasons."""

import polars as pl
import pytest

from results.asked import asked_answers, asked_evaluations
from results.collect import collect
from results.missing_files import missing_files
from results.refusals import refusal
from results.rendering import FORMATS, export
from results.store import open_store
from results.tables import TABLES, TableOptions
from results.tables.table import TableHasHolesError
from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders import (
    SweepFolder,
    evaluation,
    failed,
    noisy_queries,
    probe,
    trained,
    untrained,
    untrained_noisy,
)


@pytest.fixture
def holed(folder):
    """A sweep that lacks of everything one thing: a trial, evaluations, scored pairs, answers, norms, a probe."""
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    folder.evaluations += (evaluation("stsb", "sts", main_measure=SPEARMAN), questions)
    for similarity in ("cosine", "qnorm", "learnable"):
        folder.add_trial(trained(similarity), noisy_queries((0.5, 0.3)))
    folder.plan_trial(trained("dnorm"), status=failed("out of memory"))
    folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    folder.fail_probe(probe(), "killed")
    collected = collect(folder.store, folder.record())
    for trial in collected.trials.filter(pl.col("kind") == "train").iter_rows(named=True):
        if trial["similarity"] == "qnorm":
            for asked in (*asked_evaluations(folder.store, trial), *asked_answers(folder.store, trial)):
                folder.store.delete(asked.key)
    return collect(folder.store, folder.record())


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("missing", "cost", "fisher_published")])
def test_every_table_with_holes_is_refused_in_every_format_and_has_dashes_with_a_footnote(holed, name):
    table = TABLES[name].build(holed, TableOptions())
    assert table.holes
    for output_format in FORMATS:
        with pytest.raises(TableHasHolesError) as error:
            export(table, output_format)
        assert all(hole in str(error.value) for hole in table.holes)
        [text, *_] = export(table, output_format, allow_missing=True).values()
        if output_format != "csv":
            assert "INCOMPLETE" in text
    if name != "ranks":  # here no group has two data sets, so there is nothing to rank over
        [markdown] = export(table, "md", allow_missing=True).values()
        assert "–" in "".join(line for line in markdown.splitlines() if line.startswith("|"))


def test_a_refusal_names_the_file_of_every_hole(holed):
    files = missing_files(holed)
    assert set(files) == {str(item) for item in holed.missing}
    for item in holed.missing:
        file = files[str(item)]
        assert not holed.store.exists(file)
        assert file.endswith({"trial": "trial.parquet", "probe": "probes.parquet"}.get(item.kind, ".parquet"))
    kinds = {item.kind for item in holed.missing}
    assert kinds == {"trial", "probe", "evaluation", "sts", "qa"}
    told = refusal({"gains": TABLES["gains"].build(holed, TableOptions()).holes}, holed).splitlines()
    assert told[0].startswith("table 'gains' is not whole, ")
    place = told.index("  failed: out of memory:")
    assert "dnorm/s0: whole trial (trials/" in told[place + 1]
    assert any("qnorm/s0: attack/test scored with qnorm (evaluations/" in line for line in told)


def test_what_several_tables_lack_is_told_once_and_much_of_one_cause_in_short(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "out_of_domain"),))
    for seed in range(30):
        folder.plan_trial(trained("qnorm", seed=seed), status=failed("disk is full"))
    collected = collect(folder.store, folder.record())
    holes = {name: tuple(str(item) for item in collected.missing) for name in ("gains", "winners", "seeds")}
    told = refusal(holes, collected).splitlines()
    assert told[0] == "3 tables are not whole, 30 missing (gains, winners, seeds):"
    assert told[1] == "  failed: disk is full:"
    assert len(told) == 1 + 1 + 10 + 1 + 1
    assert told[-2] == "    and 20 more, which table 'missing' lists"
