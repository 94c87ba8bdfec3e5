"""The command line. Commands import what they need when they run: `--help` and `tables` must start at once."""

import sys

import typer
from rich.console import Console

from orchestrator.commands.data import data
from orchestrator.commands.keeping import doctor, sync, ui
from orchestrator.commands.running import plan, probe, recommend, run, schema, validate
from orchestrator.commands.showing import collect, explain, plots, report, runs, status, tables
from orchestrator.jobs.command import jobs, submit
from orchestrator.kubernetes.command import k8s
from search_spaces.problems import InputError, Problem, UnreadableError

app = typer.Typer(
    name="densesweep",
    help="Sweep dense-retrieval trainings over models, similarities and init regimes, and say what the sweep showed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for of_sweep_files in (validate, schema, plan, run, probe, recommend):
    app.command()(of_sweep_files)
for of_sweeps in (status, collect, tables, explain, plots, report, runs, ui, sync, doctor, submit):
    app.command()(of_sweeps)
app.add_typer(data, name="data")
app.add_typer(jobs, name="jobs")
app.add_typer(k8s, name="k8s")

_DOCTOR = "densesweep doctor SWEEP says which; with --repair it goes, and the next run makes it again"


def main() -> None:
    """The console script: problems of the input end with exit code 2 and one line each."""
    try:
        app()
    except InputError as error:
        _print_problems(error.problems)
        sys.exit(2)
    except UnreadableError as error:
        _print_problems((Problem(where="densesweep", key="", message=f"{error} ({_DOCTOR})"),))
        sys.exit(2)


def _print_problems(problems: tuple[Problem, ...]) -> None:
    console = Console(stderr=True, soft_wrap=True)
    for problem in problems:
        console.print(f"error: {problem}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
