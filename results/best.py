"""The best trial of each cell: by its validation score, never by a score of the benchmarks that it is reported on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.cell_names import cell_name
from search_spaces.specs import TrialSpec, from_json


@dataclass(frozen=True, kw_only=True)
class BestTrial:
    """The trial that stands for a cell. `name` is the cell's, of letters, digits, '.', '-' and '_'."""

    name: str
    trial_id: str
    checkpoint_hash: str
    validation_score: float | None
    num_trials: int


def best_trials(rows: Iterable[Mapping[str, Any]]) -> tuple[BestTrial, ...]:
    """The best trained checkpoint of each cell, from rows of the schema TRIALS.

    A cell's trials differ in seed and hyperparameters alone. Of equal scores, the lowest seed's. A cell of several
    trials has a best one only where all were validated; one of a single trial needs no comparison.
    """
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "train":
            cells.setdefault(cell_name(from_json(TrialSpec, row["spec_json"])), []).append(row)
    return tuple(best for name, members in sorted(cells.items()) if (best := _best(name, members)))


def _best(name: str, members: Sequence[Mapping[str, Any]]) -> BestTrial | None:
    scores = [row["validation_score"] for row in members]
    if len(members) > 1 and None in scores:
        return None
    best = max(members, key=lambda row: (row["validation_score"] or 0.0, -row["seed"], row["trial_id"]))
    return BestTrial(
        name=name,
        trial_id=best["trial_id"],
        checkpoint_hash=best["checkpoint_hash"],
        validation_score=best["validation_score"],
        num_trials=len(members),
    )
