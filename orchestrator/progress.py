"""The live view of a running sweep: a table on a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from orchestrator.events import Ended, EnteredPhase, Event, Planned, Retried, Started, Stepped
from orchestrator.plan import Plan
from search_spaces.specs import TrialSpec

_SAY_EVERY_S = 10.0
_STYLES = {"waiting": "dim", "finished": "green", "pruned": "dim green", "failed": "red"}


@dataclass(kw_only=True)
class _Line:
    """One trial or probe as the table shows it."""

    title: str
    steps: int
    global_batch: int
    num_negatives: int | None = None  # per query, masked ones counted
    state: str = "waiting"
    step: int = 0
    loss: float | None = None
    pairs_per_s: float | None = None
    negatives: float | None = None  # per query of the last batch, without the masked ones
    validation: float | None = None  # the last score, 0 to 1
    has_started: bool = False
    said: float = 0.0  # when a plain line last told of its steps
    note: str = ""

    def eta_s(self) -> float | None:
        """Seconds until the last optimiser step at the present speed."""
        if not self.pairs_per_s or self.state != "training":
            return None
        return (self.steps - self.step) * self.global_batch / self.pairs_per_s


@dataclass(kw_only=True)
class Progress:
    """Takes events and knows how the sweep stands; safe to call from several threads."""

    lines: dict[str, _Line]
    console: Console
    plain: bool
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Event) -> None:
        """Take note of an event; where the output is no terminal, print a line for what matters."""
        with self._lock:
            if isinstance(event, Planned):
                self.lines[event.key] = _line_of(event.spec, event.title)
            line = self.lines.get(event.key)
            if line is None:  # a part of a pool's building, which the pool's own line tells of
                return
            _apply(line, event)
            if self.plain and (text := _plain_line(line, event)):
                self.console.print(text, highlight=False, markup=False)

    def __rich__(self) -> Table:
        """The live table."""
        with self._lock:
            return _table(list(self.lines.values()))


def progress_of(plan: Plan, console: Console) -> Progress:
    """A progress view over all that the plan has left to do, and what is done already."""
    lines = {}
    for pool in plan.pools:
        state = "finished" if pool.built else "waiting"
        lines[pool.pool_id] = _Line(title=pool.title, steps=0, global_batch=0, state=state)
    for probe in filter(lambda p: plan.only.takes(p.spec), plan.probes):
        state = "finished" if probe.finished else "waiting"
        lines[probe.probe_id] = _Line(title=plan.names[probe.probe_id], steps=0, global_batch=0, state=state)
    for trial in filter(lambda t: plan.only.takes(t.spec), plan.trials):
        lines[trial.trial_id] = _line_of(trial.spec, plan.names[trial.trial_id])
        lines[trial.trial_id].state = "finished" if trial.state == "finished" else "waiting"
    return Progress(lines=lines, console=console, plain=not console.is_terminal)


def _line_of(spec: TrialSpec, title: str) -> _Line:
    training = spec.training
    steps, batch = (training.steps, training.global_batch) if training else (0, 0)
    return _Line(title=title, steps=steps, global_batch=batch, num_negatives=spec.num_negatives)


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """Show the live table while the block runs (nothing where the output is no terminal: lines are printed)."""
    if progress.plain:
        yield
        return
    with Live(progress, console=progress.console, refresh_per_second=2, redirect_stdout=False, redirect_stderr=False):
        yield


def _apply(line: _Line, event: Event) -> None:
    match event:
        case Started():
            line.state, line.has_started = "starting", True
        case Stepped(history=history) if history:
            last = history[-1]
            line.state, line.step = "training", int(last["step"])
            line.loss, line.pairs_per_s = float(last["loss"]), float(last["pairs_per_s"])
            line.negatives = last.get("negatives_per_query")
            line.validation = next((score for _, score in reversed(_validations(history))), line.validation)
        case EnteredPhase(phase=phase):
            line.state = phase
        case Retried(reason=reason):
            line.state, line.note = "waiting", reason
        case Ended(status=status):
            line.state = status.state
            line.note = status.reason or ""


def _plain_line(line: _Line, event: Event) -> str | None:
    match event:
        case Started():
            return f"{line.title}: started" + _negatives(line.num_negatives)
        case Stepped(history=history) if history:
            told = [f"step {step}/{line.steps}, validation {score * 100:.2f}" for step, score in _validations(history)]
            if _is_due(line):
                speed = f"{line.pairs_per_s:.1f} pairs/s{_negatives(line.negatives)}"
                told.append(f"step {line.step}/{line.steps}, loss {line.loss:.4f}, {speed}")
            return "\n".join(f"{line.title}: {text}" for text in told) or None
        case EnteredPhase(phase=phase):
            return f"{line.title}: {phase}"
        case Retried(reason=reason):
            return f"{line.title}: will be tried again ({reason})"
        case Ended(status=status):
            # Not since it was told of as started: what asks for several devices waits for them then.
            worked_s = event.ran_s if event.worked_s is None else event.worked_s
            took = f" in {worked_s:.0f} s" if worked_s is not None and line.has_started else ""
            return f"{line.title}: {status.state}{took}" + (f" ({status.reason})" if status.reason else "")
    return None


def _negatives(number: float | None) -> str:
    return "" if number is None else f", {number:.4g} negatives per query"


def _validations(history: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """(step, score) of the steps that were validated."""
    scored = [(int(row["step"]), row.get("validation_score")) for row in history]
    return [(step, score) for step, score in scored if score is not None]


def _is_due(line: _Line) -> bool:
    """Whether to tell of a trial's steps again; the last step always is."""
    now = time.monotonic()
    if line.step < line.steps and now - line.said < _SAY_EVERY_S:
        return False
    line.said = now
    return True


def _table(lines: list[_Line]) -> Table:
    done = sum(line.state in ("finished", "pruned", "failed") for line in lines)
    table = Table(title=f"{done} of {len(lines)} done", title_justify="left", box=None, pad_edge=False)
    table.add_column("trial", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for header in ("step", "loss", "pairs/s", "negatives", "validation", "ETA"):
        table.add_column(header, justify="right", no_wrap=True)
    for line in lines:
        state = f"{line.state}: {line.note}" if line.note else line.state
        table.add_row(line.title, state, *_numbers(line), style=_STYLES.get(line.state, "bold"))
    return table


def _numbers(line: _Line) -> tuple[str, ...]:
    step = f"{line.step}/{line.steps}" if line.step else ""
    loss = f"{line.loss:.4f}" if line.loss is not None else ""
    speed = f"{line.pairs_per_s:.1f}" if line.pairs_per_s else ""
    eta = line.eta_s()
    negatives = "" if line.num_negatives is None else str(line.num_negatives)
    validation = "" if line.validation is None else f"{line.validation * 100:.2f}"
    return step, loss, speed, negatives, validation, "" if eta is None else f"{eta:.0f} s"
