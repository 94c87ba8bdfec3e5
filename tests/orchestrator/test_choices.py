"""`--where`: a choice that finds nothing is told once, with what is there, before any table, plot or page is made."""

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.show_tables import choices
from results.layout import SWEEP_RECORD, to_bytes
from results.store import open_store
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.problems import InputError
from tests.results.builders import (
    SweepFolder,
    add_magnitudes,
    evaluation,
    noisy_queries,
    trained,
    untrained,
    untrained_noisy,
)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two similarities are trained; the untrained checkpoint is scored with every one, half too."""
    folder = SweepFolder(
        store=open_store(str(tmp_path_factory.mktemp("sweep"))),
        evaluations=(evaluation("attack", "out_of_domain"), evaluation("stsb", "sts", main_measure=SPEARMAN)),
    )
    for similarity in ("cosine", "qnorm"):
        folder.add_trial(trained(similarity, seed=3), noisy_queries((0.5, 0.3)))
    folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    add_magnitudes(folder)
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return folder.store.uri


COMMANDS = (
    ["tables", "{}"],
    ["tables", "{}", "gains"],
    ["tables", "{}", "winners", "cost"],
    ["plots", "{}", "-o", "{}/out"],
    ["plots", "{}", "gains", "-o", "{}/out"],
    ["report", "{}", "-o", "{}/report.html"],
    ["explain", "{}", "gains", "1", "gain"],
)
CHOICES = {
    "similarity=half": "--where similarity=half: no trial has it (there are: cosine, qnorm)",
    "similarity=qnrm": "--where similarity=qnrm: no trial has it (did you mean 'qnorm'? there are: cosine, qnorm)",
    "similarity=untrained": "--where similarity=untrained: no trial has it (there are: cosine, qnorm)",
    "family=minilmm": "--where family=minilmm: no trial has it (did you mean 'minilm'? there are: minilm)",
    "seed=4": "--where seed=4: no trial has it (there are: 3, none)",
    "seed=nan": "--where seed=nan: no trial has it (there are: 3, none)",
    "learning_rate=0.1": "--where learning_rate=0.1: no trial has it (there are: 0.0001, none)",
    "seed=many": "--where seed=many: 'many' is not a number",
    "familly=minilm": "--where familly=minilm: 'familly' is not a column to choose by (did you mean 'family'?)",
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:1] + command[2:3]))
def test_what_nothing_has_is_one_line_with_what_there_is(sweep, command, choice):
    result = CliRunner().invoke(app, [*(part.format(sweep) for part in command), "--where", choice])
    assert isinstance(result.exception, InputError)
    [problem] = result.exception.problems
    assert problem.message == CHOICES[choice]
    assert "\n" not in str(problem)


def test_all_that_nothing_has_is_told_together(sweep):
    result = CliRunner().invoke(app, ["tables", sweep, "--where", "similarity=half", "--where", "seed=4"])
    assert [problem.message for problem in result.exception.problems] == [CHOICES["similarity=half"], CHOICES["seed=4"]]


def test_values_that_no_trial_has_together_are_refused(sweep):
    result = CliRunner().invoke(app, ["tables", sweep, "--where", "kind=untrained", "--where", "tier=pool"])
    assert "no trial has it" in str(result.exception)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (("similarity=qnorm", "similarity=dot"), "'similarity=dot' and 'similarity=qnorm' exclude each other"),
        (("similarity",), "'similarity' is not a choice"),
        (("=qnorm",), "'=qnorm' is not a choice"),
        (("seed=",), "'seed=' is not a choice"),
    ],
)
def test_what_is_no_choice_is_refused(where, message):
    with pytest.raises(InputError, match=message):
        choices(where)
    assert choices(("a = 1", "a=1")) == {"a": "1"}


def test_tables_that_a_choice_leaves_nothing_of_say_so_and_the_others_are_shown(sweep):
    """The baseline's gain over itself is in no table of comparisons."""
    result = CliRunner().invoke(
        app, ["tables", sweep, "--format", "md", "--where", "similarity=cosine"], catch_exceptions=False
    )
    assert result.exit_code == 0
    told = "note: nothing in table 'significance': --where similarity=cosine: no row of this table has it"
    assert f"{told} (there are: qnorm)" in result.stderr
    assert "# " in result.stdout
    alone = CliRunner().invoke(app, ["tables", sweep, "significance", "--where", "similarity=cosine"])
    assert "no row of this table has it" in str(alone.exception)


def test_an_untrained_checkpoint_alone_is_refused_where_the_table_does_not_show_it(sweep):
    choice = ["--where", "kind=untrained", "--where", "similarity=dot"]
    result = CliRunner().invoke(app, ["tables", sweep, "gains", *choice])
    assert "untrained checkpoints alone, which are shown under cosine" in str(result.exception)


@pytest.mark.parametrize("name", ["winners", "claims", "cost", "learned_gamma", "missing"])
def test_a_table_that_does_not_follow_a_choice_says_so(sweep, name):
    result = CliRunner().invoke(app, ["tables", sweep, name, "--where", "similarity=qnorm"])
    if name == "learned_gamma":
        assert "says nothing of this sweep" in str(result.exception)
        return
    assert "lists everything, whatever" in result.stdout or "similarity=qnorm picks no rows" in result.stdout


def test_all_refusals_of_names_are_told_together(sweep):
    result = CliRunner().invoke(app, ["tables", sweep, "ranks", "rag", "fisher_check", "gains"])
    assert [problem.message.split(" says")[0] for problem in result.exception.problems] == [
        "table 'ranks'",
        "table 'rag'",
        "table 'fisher_check'",
    ]
