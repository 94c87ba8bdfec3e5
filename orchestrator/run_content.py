"""All that the mirror of one run should hold, and its digest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from orchestrator.data_inputs import DataInput
from orchestrator.labels import RunLabels
from results.layout import Status

_MIN_PLOTTED_STEPS = 10  # fewer are no curve
HistoryRow = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """All that the mirror of one trial or probe should hold.

    Attributes:
        labels: its name, tags and parameters.
        status: as its record says.
        steps: its history rows.
        metrics: its headline numbers.
        artifacts: files by their path in the run.
        inputs: the data sets that went into it.
        made_with: tags on what it was made with, where its rows say so.
        description: Markdown.
    """

    labels: RunLabels
    status: Status
    steps: tuple[HistoryRow, ...]
    metrics: Mapping[str, float]
    artifacts: Mapping[str, bytes]
    inputs: tuple[DataInput, ...]
    made_with: Mapping[str, str]
    description: str

    @property
    def digest(self) -> str:
        """SHA-256 over the content: a mirror that carries it holds everything."""
        told = [sorted(self.metrics.items()), [asdict(item) for item in self.inputs], dict(self.made_with)]
        digest = hashlib.sha256(json.dumps([*told, self.description], sort_keys=True).encode())
        for name, data in sorted(self.artifacts.items()):
            digest.update(f"\0{name}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()

    def plots(self) -> dict[str, bytes]:
        """Its curves, drawn from its steps; apart from the artifacts, since a mirror that is whole needs none drawn."""
        if len(self.steps) < _MIN_PLOTTED_STEPS:
            return {}
        from results.plots.files import svg  # here, since matplotlib takes half a second
        from results.plots.training import training_curves

        history = pl.DataFrame(self.steps, infer_schema_length=None)
        return {"plots/training.svg": svg(training_curves(history, self.labels.name))}
