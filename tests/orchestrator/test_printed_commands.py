"""Every command that a sweep prints for copying is one: it is parsed, and it works on that sweep."""

import io
import re
import shlex
from itertools import product

import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.show import print_status
from orchestrator.show_overview import print_results
from results.layout import SWEEP_RECORD, to_bytes
from results.store import open_store
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.identity import probe_id
from tests.results.builders import (
    SweepFolder,
    add_magnitudes,
    evaluation,
    failed,
    noisy_queries,
    probe,
    trained,
    untrained,
    untrained_noisy,
)

SIMILARITIES = ("cosine", "qnorm", "dnorm")


def two_tiers(folder):
    folder.evaluations = (evaluation("a", "first"), evaluation("b", "second", tier="pool"))
    fill(folder)
    folder.write_pool(folder.evaluations[1])


def answers_of_one_tier(folder):
    two = (evaluation("a", "first"), evaluation("b", "second", tier="pool"))
    folder.evaluations = (*two, evaluation("questions", reader="r", num_passages=2))
    fill(folder)
    folder.write_pool(two[1])


def two_training_data_sets(folder):
    for data in ("attack", "pydoc small"):
        fill(folder, data=data)


def two_scales_of_pairs(folder):
    folder.evaluations += (evaluation("stsb", "sts", main_measure=SPEARMAN),)
    for scale in (20.0, 12.345678901):
        fill(folder, scale=scale)


def two_settings(folder):
    for rate, decay in product((1e-4, 0.000123456789), (0.0, 0.01)):
        fill(folder, learning_rate=rate, weight_decay=decay)


def a_trial_that_failed(folder):
    fill(folder)
    folder.plan_trial(trained("half"), status=failed("out of memory"))


def norms_lost(folder):
    """Scores are whole, so that only tables of norms have holes."""
    fill(folder)
    folder.store.delete(next(key for key in sorted(folder.store.list("encodings")) if key.endswith("norms.parquet")))


def no_cosine(folder):
    fill(folder, similarities=("qnorm", "dot"))


def nothing_but_untrained(folder):
    folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    add_magnitudes(folder)


def nothing_yet(folder):
    folder.plan_trial(trained("cosine"))


def fill(folder, similarities=SIMILARITIES, **settings):
    for similarity in similarities:
        folder.add_trial(trained(similarity, **settings), noisy_queries((0.5, 0.3)))
    if not any("untrained" in trial.title for trial in folder.trials):
        folder.add_trial(untrained(), untrained_noisy((0.4, 0.2)))
    spec = probe(**{name: value for name, value in settings.items() if name in ("data", "scale")})
    if probe_id(spec) not in [planned.trial_id for planned in folder.probes]:
        folder.add_probe(spec, {16: -0.2})
    add_magnitudes(folder)


SWEEPS = [two_tiers, answers_of_one_tier, two_training_data_sets, two_scales_of_pairs]
SWEEPS += [two_settings, a_trial_that_failed, norms_lost, no_cosine, nothing_but_untrained, nothing_yet, fill]


@pytest.fixture(params=SWEEPS, ids=lambda make: make.__name__)
def sweep(request, tmp_path):
    folder = SweepFolder(
        store=open_store(str(tmp_path / "a sweep's folder")),
        evaluations=(evaluation("attack", "out_of_domain"), evaluation("other", "out_of_domain")),
    )
    request.param(folder)
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    return folder


def commands(text):
    """The arguments of each command that the text has at the end of a line."""
    return [shlex.split(found)[1:] for found in re.findall(r"(?<![\w.])densesweep .*$", text, re.MULTILINE)]


def done(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, (arguments, result.exception, result.output[-800:])
    return result.output


def test_what_a_run_and_status_print_can_be_copied(sweep):
    console = Console(file=io.StringIO(), width=160)
    print_status(sweep.store, sweep.record(), console)
    print_results(sweep.store, sweep.record(), console)
    found = commands(console.file.getvalue())
    assert {arguments[0] for arguments in found} == {"tables", "ui"}
    for arguments in found:
        assert arguments[1] == sweep.store.uri
        if arguments[0] == "tables":
            assert "# " in done(arguments)
        else:
            done([*arguments, "--help"])  # it serves until it is stopped


def test_where_only_norms_lack_the_switch_is_printed_and_needed(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path / "sweep")), evaluations=(evaluation("attack", "in"),))
    norms_lost(folder)
    folder.store.write(SWEEP_RECORD, to_bytes(folder.record()))
    console = Console(file=io.StringIO(), width=200)
    print_results(folder.store, folder.record(), console)
    text = console.file.getvalue()
    [lost] = re.findall(r"^- (.+: norms on attack/test): ", text, re.MULTILINE)
    [arguments] = [found for found in commands(text) if "--format" in found]
    assert "--allow-missing" in arguments
    assert lost.rpartition(": ")[0] in done(["tables", folder.store.uri, "missing"])
    refused = CliRunner().invoke(app, [part for part in arguments if part != "--allow-missing"])
    assert "table 'cohen_d' is not whole" in str(refused.exception)
    assert "INCOMPLETE" in done(arguments)


def test_together_the_commands_show_every_trial(sweep, tmp_path):
    console = Console(file=io.StringIO(), width=160)
    print_results(sweep.store, sweep.record(), console)
    shown = ""
    for place, arguments in enumerate(c for c in commands(console.file.getvalue()) if c[0] == "tables"):
        done([*arguments, "--format", "csv", "-o", str(tmp_path / f"tables{place}")])
        shown += "".join(path.read_text() for path in (tmp_path / f"tables{place}").glob("[!m]*.csv"))
    store = sweep.store
    finished = [trial for trial in sweep.trials if store.exists(f"trials/{trial.trial_id}/trial.parquet")]
    assert [trial.title for trial in finished if trial.trial_id not in shown] == []


def test_what_collect_prints_can_be_copied(sweep, tmp_path):
    [arguments] = commands(done(["collect", sweep.store.uri, "-o", str(tmp_path / "all rows")]))
    assert arguments == ["tables", str(tmp_path / "all rows"), "missing"]
    assert "What is missing" in done(arguments)
