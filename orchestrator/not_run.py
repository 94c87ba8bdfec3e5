"""What a sweep file may ask for and `run` does not do: refused before anything is started, never passed over.

Whoever builds one of these takes its line away.
"""

from collections.abc import Iterator

from search_spaces.problems import Problem
from search_spaces.schema import SweepFile


def not_run_problems(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """One problem for each key of the file that nothing would act on."""
    asked = {
        "tune": sweep.tune is not None,
    }
    for key, is_asked in asked.items():
        if is_asked:
            message = (
                "is checked and planned, but not supported by `run` yet (leave it out to run the sweep without it)"
            )
            yield Problem(where=where, key=key, message=message)
