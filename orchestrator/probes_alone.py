"""What stands against running of a sweep only what comes before its trials: probes, and pilots.

Imports neither torch nor ray nor mlflow.
"""

from collections.abc import Iterator

from orchestrator.only import PILOT, Only
from orchestrator.plan import Plan, is_known
from orchestrator.resolve import Resolved
from search_spaces.problems import Problem


def unprobed_problems(only: Only, resolved: Resolved) -> Iterator[Problem]:
    """Kinds of work that were asked for by name and that the part has none of."""
    if only.kinds is None:
        return
    expansion = resolved.expansion
    if not any(only.takes(probe) for probe in expansion.probes):
        message = (
            "it has no probe: they are of contrastive trainings; on a symmetric task there is nothing to predict, "
            "since qnorm and dnorm are no choice there"
        )
        yield Problem(where=resolved.where, key="axes.task", message=message)
    elif PILOT in only.kinds and not any(trial.kind == PILOT for trial in expansion.trials):
        message = "it asks for no pilots (write pilot: {steps: N}, or leave --pilot away)"
        yield Problem(where=resolved.where, key="pilot", message=message)


def forgotten_problems(plan: Plan) -> Iterator[Problem]:
    """Evaluations of finished trials that a record written here could not list, since their data is not here."""
    if plan.only.takes_checkpoints or not any(trial.state in ("to evaluate", "finished") for trial in plan.trials):
        return
    for spec in (evaluation.spec for evaluation in plan.evaluations if not is_known(evaluation.spec)):
        message = (
            f"trials of this folder have finished, and '{spec.data.name}', which they are evaluated on, is not here: "
            f"its rows would fall out of the tables (fetch it: densesweep data fetch {spec.data.name}; or probe into "
            "another folder with --storage)"
        )
        yield Problem(where=plan.where, key="evaluation.groups", message=message)
