"""What rows take, in the sweep folder and once more in MLflow where that lies in the folder too. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.tracking_place import tracking_place
from results.store import local_folder
from search_spaces.scoring import score_similarities
from search_spaces.specs import EvaluationSpec, TrialSpec

# Of a row, compressed; a test holds them against files that are written.
_NORM_BYTES = 12
_VALUE_BYTES = 9  # of one measure of one query
_PAIR_BYTES = 20  # of one scored pair in one order
_JUDGEMENT_BYTES = 12
_STEP_BYTES = 240
_RANKED_BYTES = 12  # of a document in a run file
_FILE_BYTES = 9_000  # beside its rows: schema, statistics, and what made it
_RUN_BYTES = 40_000  # of an MLflow run: its tags and parameters, spec, provenance and manifest
_METRIC_BYTES = 300  # of one number of one step, with its indices
_NUM_METRICS = 22  # of a step
_RANKED = 100  # of the deepest measure that most data sets have


@dataclass(frozen=True, kw_only=True)
class MirrorPlace:
    """What of MLflow lies in the sweep folder: copies of rows (artifacts), and the numbers of each step (SQLite)."""

    holds_rows: bool
    holds_numbers: bool


NOWHERE = MirrorPlace(holds_rows=False, holds_numbers=False)


def mirror_place(uri: str, tracking_uri: str | None) -> MirrorPlace:
    """Of a sweep in the folder `uri` that is tracked as its file says; nothing is made.

    Raises:
        InputError: as `tracking_place` does.
    """
    folder = local_folder(uri)
    if folder is None:
        return NOWHERE
    mounts: Mapping[Path, str] = {Path(p.mountpoint): p.fstype for p in psutil.disk_partitions(all=True)}
    place = tracking_place(uri, tracking_uri, sweep_id="", mounts=mounts)
    own = folder.resolve().as_uri()
    return MirrorPlace(
        holds_rows=bool(place.artifacts and place.artifacts.startswith(f"{own}/")),
        holds_numbers=place.own_database is not None and place.own_database.is_relative_to(folder.resolve()),
    )


def training_row_bytes(steps: int, mirror: MirrorPlace) -> int:
    """What a training's history and row take, and its run in MLflow."""
    rows = steps * _STEP_BYTES + 2 * _FILE_BYTES
    numbers = steps * _NUM_METRICS * _METRIC_BYTES if mirror.holds_numbers else 0
    return rows * _copies(mirror) + numbers + (_RUN_BYTES if mirror.holds_rows else 0)


def evaluation_row_bytes(
    spec: TrialSpec, evaluation: EvaluationSpec, *, num_documents: int, num_queries: int, mirror: MirrorPlace
) -> int:
    """What one checkpoint's norms, values of measures and rankings on one data set take."""
    entry, num_scored = evaluation.data.entry, len(score_similarities(spec.similarity, evaluation))
    each = 2 * _PAIR_BYTES if entry.is_scored else _VALUE_BYTES * len(entry.measures)
    rows = _FILE_BYTES + _NORM_BYTES * (num_documents + num_queries) + num_scored * (_FILE_BYTES + each * num_queries)
    # The judgements lie in the folder once, and in each run once more.
    judged = _FILE_BYTES + _JUDGEMENT_BYTES * num_queries if mirror.holds_rows and not entry.is_scored else 0
    ranked = num_scored * _RANKED_BYTES * _RANKED * num_queries if evaluation.keeps_runs else 0
    return rows * _copies(mirror) + judged + ranked


def _copies(mirror: MirrorPlace) -> int:
    return 2 if mirror.holds_rows else 1
