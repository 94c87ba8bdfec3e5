"""The live table and the plain lines, from the events of a running sweep."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.events import Ended, EnteredPhase, Retried, Started, Stepped
from orchestrator.progress import Progress, _Line, shown
from results.layout import Status

FINISHED = Status(state="finished", started_at="2026-01-01T00:00:00+00:00")


def _row(step, loss=1.25, pairs_per_s=16.0):
    return {"step": step, "loss": loss, "pairs_per_s": pairs_per_s}


@pytest.fixture
def make_progress():
    def make(*, terminal: bool) -> tuple[Progress, io.StringIO]:
        out = io.StringIO()
        console = Console(file=out, width=120, force_terminal=terminal, color_system=None)
        lines = {key: _Line(title=f"title-{key}", steps=10, global_batch=8) for key in ("a", "b")}
        return Progress(lines=lines, console=console, plain=not console.is_terminal), out

    return make


def _rendered(progress: Progress) -> dict[str, list[str]]:
    out = io.StringIO()
    Console(file=out, width=120).print(progress)
    rows = [line.split() for line in out.getvalue().splitlines()]
    return {row[0].removeprefix("title-"): row[1:] for row in rows if row and row[0].startswith("title-")}


def test_the_table_shows_state_step_loss_speed_and_eta(make_progress):
    progress, _ = make_progress(terminal=True)
    assert _rendered(progress)["a"] == ["waiting"]
    progress(Started(key="a"))
    assert _rendered(progress)["a"] == ["starting"]
    progress(Stepped(key="a", history=[_row(1), _row(2)]))
    # 8 steps of 8 pairs are left, at 16 pairs/s.
    assert _rendered(progress)["a"] == ["training", "2/10", "1.2500", "16.0", "4", "s"]
    progress(EnteredPhase(key="a", phase="evaluating attack"))
    assert _rendered(progress)["a"] == ["evaluating", "attack", "2/10", "1.2500", "16.0"]
    progress(Ended(key="a", status=FINISHED))
    assert _rendered(progress)["a"][0] == "finished"
    assert _rendered(progress)["b"] == ["waiting"]
    progress(Ended(key="b", status=replace(FINISHED, state="failed", reason="loss became nan at step 3")))
    assert " ".join(_rendered(progress)["b"]).startswith("failed: loss became nan at step 3")


def test_plain_lines_tell_of_starts_ends_and_some_steps(make_progress):
    progress, out = make_progress(terminal=False)
    with shown(progress):
        progress(Started(key="a"))
        for step in range(1, 11):
            progress(Stepped(key="a", history=[_row(step)]))
        progress(Retried(key="a", reason="worker died: killed"))
        progress(Ended(key="a", status=FINISHED))
    lines = out.getvalue().splitlines()
    assert lines[0] == "title-a: started"
    assert lines[1] == "title-a: step 1/10, loss 1.2500, 16.0 pairs/s"
    assert lines[2] == "title-a: step 10/10, loss 1.2500, 16.0 pairs/s"  # the last, and none of those between
    assert lines[3] == "title-a: will be tried again (worker died: killed)"
    assert lines[4] == "title-a: finished"  # its status does not say when
    assert len(lines) == 5


def test_negatives_per_query_and_validations_are_told(make_progress):
    progress, out = make_progress(terminal=False)
    progress.lines["a"].num_negatives = 31
    progress(Started(key="a"))
    seen = {**_row(1), "negatives_per_query": 30.75, "validation_score": None}
    progress(Stepped(key="a", history=[seen]))
    progress(Stepped(key="a", history=[{**seen, "step": 2, "validation_score": 0.43216}, {**seen, "step": 3}]))
    progress(Stepped(key="a", history=[{**seen, "step": 4}]))
    assert out.getvalue().splitlines() == [
        "title-a: started, 31 negatives per query",
        "title-a: step 1/10, loss 1.2500, 16.0 pairs/s, 30.75 negatives per query",
        "title-a: step 2/10, validation 43.22",  # told at once, other steps now and then
    ]
    assert _rendered(progress)["a"][:6] == ["training", "4/10", "1.2500", "16.0", "31", "43.22"]


def test_a_terminal_gets_the_live_table(make_progress):
    progress, out = make_progress(terminal=True)
    with shown(progress):
        progress(Stepped(key="a", history=[_row(10)]))
        progress(Ended(key="a", status=FINISHED))
    assert "1 of 2 done" in out.getvalue()
    assert "title-a" in out.getvalue()


def test_what_a_trial_waited_for_is_no_part_of_what_it_took(make_progress):
    """It is told of as started when devices are asked for; its status says when they were there."""
    progress, out = make_progress(terminal=False)
    progress(Started(key="a"))
    progress(Ended(key="a", status=replace(FINISHED, finished_at="2026-01-01T00:01:30+00:00")))
    progress(Started(key="b"))
    progress(Ended(key="b", status=FINISHED, worked_s=12.4))
    assert out.getvalue().splitlines()[1::2] == ["title-a: finished in 90 s", "title-b: finished in 12 s"]


def test_what_never_started_took_no_time(make_progress):
    progress, out = make_progress(terminal=False)
    failed = replace(FINISHED, state="failed", finished_at=FINISHED.started_at, reason="found no place")
    progress(Ended(key="a", status=failed))
    assert out.getvalue().splitlines() == ["title-a: failed (found no place)"]
