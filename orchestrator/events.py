"""What happens to trials and probes while a sweep runs, as the driver tells it to the screen and to tracking."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from results.layout import Status
from search_spaces.specs import TrialSpec


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A search asks for another trial; further events will tell of it."""

    key: str
    spec: TrialSpec
    title: str


@dataclass(frozen=True, kw_only=True)
class Started:
    """A trial or probe was given to a worker."""

    key: str


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """A trial finished optimiser steps; `history` has one HISTORY row for each since the last such event."""

    key: str
    history: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class EnteredPhase:
    """A trial went on to another part of its work, in words: 'evaluating attack'."""

    key: str
    phase: str


@dataclass(frozen=True, kw_only=True)
class Retried:
    """A trial's worker died, and the trial is tried again from its last checkpoint."""

    key: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A trial or probe finished, was pruned, or failed for good.

    `worked_s`: how long it was worked at, where its status does not say: that of a trial, or of a probe, is of its last
    try alone.
    """

    key: str
    status: Status
    worked_s: float | None = None

    @property
    def ran_s(self) -> float | None:
        """How long the last try ran by its own record, to the second; None where that does not say."""
        if not self.status.started_at or not self.status.finished_at:
            return None
        ran = datetime.fromisoformat(self.status.finished_at) - datetime.fromisoformat(self.status.started_at)
        return ran.total_seconds()


Event = Planned | Started | Stepped | EnteredPhase | Retried | Ended

# Whoever wants to know. Called in the driver, possibly from several threads; must be quick and never raise.
Listener = Callable[[Event], None]
