"""The best trial of each cell: by its validation score, never by a score of the benchmarks that it is reported on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def cell_name(spec: TrialSpec) -> str:
    """'attack.minilm-3l.finetune.qnorm.fixed-20', with task and towers where they are not the usual ones."""
    assert spec.training_data is not None, "a trained cell has training data"
    assert spec.similarity is not None, "and a similarity"
    assert spec.scale is not None, "and a scale"
    encoder = spec.encoder
    parts = [
        spec.training_data.name,
        encoder.family + (f"-{encoder.layers}l" if encoder.layers else ""),
        encoder.init_regime,
        spec.similarity.name,
        f"{spec.scale.mode}-{spec.scale.value:g}",
        *(["sts"] if spec.task == "sts" else []),
        *(["two-towers"] if encoder.towers == "separate" else []),
    ]
    return ".".join(part.replace("/", "-").replace(":", "-") for part in parts)


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
