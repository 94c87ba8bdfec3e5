"""What a sweep file may ask for and `run` does not do: refused before anything is started, never passed over.

Whoever builds one of these takes its line away.
"""

from collections.abc import Iterator

from search_spaces.problems import Problem
from search_spaces.schema import BudgetBlock, SweepFile


def not_run_problems(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """One problem for each key of the file that nothing would act on."""
    asked = {
        "tune": sweep.tune is not None,
        "budget": sweep.budget != BudgetBlock(),
        "reuse": bool(sweep.reuse),
        "resources.memory": sweep.resources.memory is not None,
        "resources.accelerator_type": sweep.resources.accelerator_type is not None,
    }
    for key, is_asked in asked.items():
        if is_asked:
            message = (
                "is checked and planned, but not supported by `run` yet (leave it out to run the sweep without it)"
            )
            yield Problem(where=where, key=key, message=message)
