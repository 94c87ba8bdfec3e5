"""What happens to trials and probes while a sweep runs, as the driver tells it to the screen and to tracking."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """A trial or probe finished, was pruned, or failed for good."""

    key: str
    status: Status


Event = Planned | Started | Stepped | EnteredPhase | Retried | Ended

# Whoever wants to know. Called in the driver, possibly from several threads; must be quick and never raise.
Listener = Callable[[Event], None]
