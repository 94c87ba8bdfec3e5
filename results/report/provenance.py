"""What made the rows of a sweep: code, machines and packages, and the weights and data that went in."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from results.collect import Collected
from results.layout import SWEEP_FILE, Status, from_bytes, status_key, trial_prefix
from search_spaces.specs import TrialSpec, from_json


@dataclass(frozen=True, kw_only=True)
class MadeWith:
    """One state of code and machine, and how many trials it made."""

    num_trials: int
    facts: tuple[tuple[str, str], ...]
    packages: str


@dataclass(frozen=True, kw_only=True)
class Input:
    """Weights or a data set: what it is, where it is from, and the hash of its content."""

    kind: str
    name: str
    source: str
    content_hash: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a sweep's numbers come from. Times are for people, in UTC, None where nothing has been recorded."""

    made_with: tuple[MadeWith, ...]
    inputs: tuple[Input, ...]
    sweep_file: str | None
    started_at: str | None
    finished_at: str | None


def provenance(collected: Collected) -> Provenance:
    """Of the trials that have a checkpoint."""
    store = collected.store
    statuses = list(_statuses(collected))
    finished = [status.finished_at for status in statuses if status.finished_at]
    return Provenance(
        made_with=tuple(_made_with(collected)),
        inputs=tuple(dict.fromkeys(_inputs(collected))),
        sweep_file=store.read(SWEEP_FILE).decode() if store.exists(SWEEP_FILE) else None,
        started_at=_minute(min((status.started_at for status in statuses), default=None)),
        finished_at=_minute(max(finished, default=None)),
    )


def _minute(time: str | None) -> str | None:
    return None if time is None else datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _statuses(collected: Collected) -> Iterator[Status]:
    for trial in collected.record.trials:
        key = status_key(trial_prefix(trial.trial_id))
        if collected.store.exists(key):
            yield from_bytes(Status, collected.store.read(key))


def _made_with(collected: Collected) -> Iterator[MadeWith]:
    counts: dict[str, int] = {}
    for text in collected.trials["provenance_json"]:
        counts[text] = counts.get(text, 0) + 1
    for text, number in counts.items():
        made = json.loads(text)
        packages = made.pop("packages", {})
        yield MadeWith(
            num_trials=number,
            facts=tuple((name.replace("_", " "), _told(name, value)) for name, value in sorted(made.items())),
            packages=", ".join(f"{name} {version}" for name, version in sorted(packages.items())),
        )


def _told(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value / 2**30:.1f} GiB"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in sorted(value.items())) or "none"
    return str(value)


def _inputs(collected: Collected) -> Iterator[Input]:
    data = []
    for text in collected.trials["spec_json"]:
        spec = from_json(TrialSpec, text)
        weights = spec.encoder.weights
        yield Input(
            kind="weights",
            name=f"{spec.encoder.family} ({spec.encoder.init_regime})",
            source=weights.source if weights else "random weights",
            content_hash=(weights.content_hash if weights else None) or "",
        )
        if spec.training_data is not None:
            trained = spec.training_data
            data.append(
                Input(
                    kind="training data",
                    name=f"{trained.name}/{trained.split}",
                    source=trained.entry.source,
                    content_hash=trained.content_hash or "",
                )
            )
    yield from data
    for evaluation in collected.record.evaluations:
        name = f"{evaluation.data_set}/{evaluation.split}"
        groups = ", ".join(evaluation.groups) or "no group"
        source = f"{evaluation.tier}; {groups}"
        yield Input(kind="evaluated on", name=name, source=source, content_hash=evaluation.data_hash)
