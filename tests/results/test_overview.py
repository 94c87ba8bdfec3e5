"""The overview: numbers of its tables, side by side, in about a screen, and what must not be overlooked."""

import io

import polars as pl
import pytest
from rich.console import Console

from results.collect import collect
from results.overview import overview
from results.overview_section import MOST_LINES
from results.rendering.overview import parts
from results.tables import TABLES, TableOptions
from search_spaces.catalogue.data_sets import SPEARMAN
from tests.results.builders import (
    add_magnitudes,
    evaluation,
    failed,
    noisy_queries,
    probe,
    trained,
    two_queries,
    untrained,
    untrained_noisy,
    untrained_queries,
)

WIDTH = 100


def text_of(collected, width=WIDTH, **options):
    console = Console(file=io.StringIO(), width=width)
    for part in parts(overview(collected, TableOptions(**options)), lambda table: f"densesweep tables SWEEP {table}"):
        console.print(part)
    return console.file.getvalue()


def cells(text, first, *rest):
    """The texts of the line that begins with these."""
    [line] = [line for line in text.splitlines() if line.split()[: 1 + len(rest)] == [first, *rest]]
    return line.split()[1 + len(rest) :]


@pytest.mark.parametrize(("name", "most_lines"), [("small", 60), ("seeded", 40), ("two_scales", 50)])
def test_it_fits_a_screen_and_each_gain_stands_as_in_the_table(name, most_lines, request):
    """The small sweep has scored pairs and answers, too."""
    collected = request.getfixturevalue(name)
    text = text_of(collected)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert len(text.splitlines()) <= most_lines
    table = TABLES["gains"].build(collected, TableOptions())
    trained_rows = table.rows.filter(pl.col("kind") == "train")
    headers = next(line for line in text.splitlines() if line.split()[:1] == ["model"]).split()
    assert headers[headers.index("cosine") :] == list(trained_rows["similarity"].unique(maintain_order=True))
    for row in trained_rows.iter_rows(named=True):
        names = [row["model"], row["init_regime"], row["group"]]
        shown = cells(text, *names, *([row["scale"]] if "scale" in headers else []))
        at = headers[headers.index("cosine") :].index(row["similarity"])
        number = row["baseline_score"] if at == 0 else row["gain"]
        assert shown[at].rstrip("*()") == f"{100 * number:{'' if at == 0 or not round(100 * number, 2) else '+'}.2f}"
        if at:
            assert shown[at].count("*") == (row["mark"] or "").count("*")


def test_the_best_of_each_line_is_counted_in_words(folder):
    scores = {"cosine": (0.5, 0.3), "qnorm": (0.9, 0.3), "dnorm": (0.1, 0.9)}
    for similarity, values in scores.items():
        folder.add_trial(trained(similarity), two_queries(values))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    assert "Highest score, of 2 lines: qnorm in 1, dnorm in 1." in text_of(collect(folder.store, folder.record()))


def test_the_primary_predictor_has_its_cells_and_every_predictor_a_line_of_counts(small):
    text = text_of(small)
    rows = TABLES["fisher_check"].build(small, TableOptions()).rows.filter("is_primary")
    assert rows.height
    for (predictor,), of_it in rows.group_by("predictor"):
        counts = [(of_it["verdict"] == verdict).sum() for verdict in ("hit", "miss", "undecided", "tie", "not run")]
        counts += [of_it["verdict"].null_count(), of_it.height]
        assert list(map(int, cells(text, predictor))) == counts
    calls = text[text.index("Fisher check:") : text.index("How every predictor")]
    assert "fisher_condition" in calls.splitlines()[0]
    for row in rows.filter(pl.col("predictor") == "fisher_condition").iter_rows(named=True):
        [line] = [line for line in calls.splitlines() if line.startswith(f" {row['model']}") and row["regime"] in line]
        assert line.split()[-1] == row["verdict"].split()[-1]


def test_of_many_lines_the_primary_groups_stand_and_the_rest_is_counted(folder):
    folder.primary_groups = ("out_of_domain",)
    families = [f"family{number:02}" for number in range(MOST_LINES // 2 + 1)]
    for family in families:
        for similarity in ("cosine", "qnorm"):
            folder.add_trial(trained(similarity, family=family), two_queries((0.5, 0.3)))
        folder.add_trial(untrained(family=family), untrained_queries((0.4, 0.2)))
    text = text_of(collect(folder.store, folder.record()))
    for family in families:
        assert cells(text, f"{family}-3l", "finetune", "out_of_domain")
    assert "and 2 more lines: densesweep tables SWEEP gains" in text


def test_what_is_missing_is_said_and_its_cells_are_dashes(folder):
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    for similarity in ("qnorm", "dnorm", "dot", "learnable", "half"):
        folder.plan_trial(trained(similarity), status=failed("out of memory"))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    folder.add_probe(probe(), {16: -0.2})
    add_magnitudes(folder)
    found = overview(collect(folder.store, folder.record()), TableOptions())
    text = text_of(collect(folder.store, folder.record()))
    assert found.summary == "'small': 7 trials and 1 probe, 5 missing, 5 of them failed."
    assert "- minilm-3l/finetune/qnorm/s0: whole trial: failed: out of memory" in text
    assert "and 1 more" in text
    assert set(found.holes) == {"gains", "fisher_check"}
    assert found.whole.sections == ()


def test_scored_pairs_and_answers_have_sections_of_their_own(folder):
    questions = evaluation("questions", reader="tiny-reader", num_passages=2)
    folder.evaluations = (*folder.evaluations, questions, evaluation("stsb", "sts", main_measure=SPEARMAN))
    for similarity, scores in {"cosine": (0.5, 0.3), "qnorm": (0.4, 0.3)}.items():
        folder.add_trial(trained(similarity), noisy_queries(scores))
    folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    collected = collect(folder.store, folder.record())
    text = text_of(collected)
    for name, place, value in (("sts", "shown_data_set", "forward"), ("rag", "data_set", "f1")):
        rows = TABLES[name].build(collected, TableOptions()).rows.filter(pl.col("rank").is_not_null())
        assert rows.height
        for (shown,), of_place in rows.group_by(place):
            expected = [f"{100 * score:.2f}" for score in of_place[value]]
            assert cells(text, "minilm-3l", "finetune", *str(shown).split()) == expected


def test_before_anything_is_trained_it_says_so(folder):
    folder.plan_trial(trained("cosine"))
    text = text_of(collect(folder.store, folder.record()))
    assert "1 missing" in text
    assert cells(text, "minilm-3l", "finetune", "in_domain") == ["–"]
    assert "Highest score" not in text


@pytest.mark.parametrize("names", [["attack", "pydoc"], ["attack", "pydoc", "zoo", "code"]])
def test_a_sweep_that_cannot_be_one_table_has_one_of_each_choice_or_says_how_to_choose(folder, names):
    for data in names:
        folder.add_trial(trained("cosine", data=data), two_queries((0.5, 0.3)))
        folder.add_trial(trained("qnorm", data=data), two_queries((0.5, 0.4)))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    collected = collect(folder.store, folder.record())
    text = text_of(collected)
    is_refused = "Table 'gains' is not shown: the rows hold more than one training data set" in text
    titles = [f"the best in bold (training_data {data})" in text.replace("\n", " ") for data in names]
    assert (is_refused, set(titles)) == ((False, {True}) if len(names) == 2 else (True, {False}))
    assert "Gains against cosine" in text_of(collected, where={"training_data": "attack"})


def test_another_baseline_stands_first(small):
    text = text_of(small, baseline="qnorm")
    headers = next(line for line in text.splitlines() if line.split()[:1] == ["model"]).split()
    assert headers[3] == "qnorm"


def test_texts_of_users_are_no_markup(folder):
    folder.add_trial(trained("cosine", family="[red]x[/red]"), two_queries((0.5, 0.3)))
    folder.add_trial(untrained(family="[red]x[/red]"), untrained_queries((0.4, 0.2)))
    assert "[red]x[/red]-3l" in text_of(collect(folder.store, folder.record()))
