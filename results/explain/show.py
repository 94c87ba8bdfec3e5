"""An explanation as text for people, and as JSON."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from results.explain.behind import Explanation, TrialBehind
from results.explain.data_behind import DataBehind

FORMAT = "densesweep.explanation/1"


def as_json(explanation: Explanation) -> str:
    """The whole explanation as one JSON object."""
    return json.dumps({"format": FORMAT, **asdict(explanation)}, indent=2, ensure_ascii=False) + "\n"


def as_text(explanation: Explanation) -> str:
    """The whole explanation, a line for each thing."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(found: Explanation) -> Iterator[str]:
    named = ", ".join(f"{header} {text}" for header, text in found.names.items())
    yield f"{found.header} = {found.shown or '–'}   (table {found.table}, row {found.row}: {named})"
    if found.value is not None:
        yield f"raw value: {found.value}"
    if found.formula:
        yield f"formula: {found.formula}"
    if found.reason:
        yield f"note: {found.reason}"
    if found.external:
        yield f"made by others, not by this sweep: {found.external}"
        return
    yield from _section("trials", (_trial(trial) for trial in found.trials))
    yield from _section("probes", (_trial(probe) for probe in found.probes))
    if found.seeds:
        yield f"seeds: {', '.join(map(str, found.seeds))}"
    yield from _section("data", (_data(data) for data in found.data))
    if not (found.trials or found.probes):
        yield "no trial is behind it"
    if found.tracked_at:
        yield f"MLflow: {found.tracked_at}"


def _section(name: str, lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    if listed:
        yield f"{name} ({len(listed)}):"
        yield from (f"  {line}" for line in listed)


def _trial(trial: TrialBehind) -> str:
    parts = [
        f"{trial.role}: {trial.trial_id} {trial.title}".rstrip(),
        "" if trial.seed is None else f"seed {trial.seed}",
        "" if trial.state == "finished" else trial.state,
        f"commit {trial.commit}",
        f"weights {trial.weights}",
        f"checkpoint {trial.checkpoint_hash}" if trial.checkpoint_hash else "",
        f"MLflow run {trial.run_id}" if trial.run_id else "",
    ]
    return ", ".join(part for part in parts if part)


def _data(data: DataBehind) -> str:
    counted = "no rows" if data.num_queries is None else f"{data.num_queries:,} {data.unit}"
    parts = [
        f"{data.used_for}: {data.name}/{data.split}",
        "on its pool" if data.tier == "pool" else "",
        counted,
        data.measure or "",
        f"groups {', '.join(data.groups)}" if data.groups else "",
        f"source {data.source}",
        f"content {data.content_hash}",
    ]
    return ", ".join(part for part in parts if part)
