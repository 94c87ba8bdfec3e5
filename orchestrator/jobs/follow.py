"""Follow a job to its end, through connections that break; and stop one."""

import asyncio
import time
from collections.abc import Callable

from orchestrator.jobs.api import AwayError, Job, JobsApi

_LOOK_EVERY_S = 1.0
_HEAD_GONE_AFTER_S = 30.0


def follow(api: JobsApi, job_id: str, *, line: Callable[[str], None]) -> Job:
    """Hand what a job prints to `line`, line by line as it comes, until it has ended; returns how it ended.

    Raises:
        InputError: there is no such job; AwayError where nobody answered at the address for 30 s.
    """
    job = _seen(api, job_id)
    lines = _Lines(line)
    while not job.has_ended:
        asyncio.run(_tail(api, job_id, lines))
        time.sleep(_LOOK_EVERY_S)
        job = _seen(api, job_id)
    lines.rest(api.log(job_id))  # Ray may end a tail before the last lines are written
    return job


def stop(api: JobsApi, job_id: str, *, wait_s: float) -> Job:
    """Stop a job and wait so long for its end; returns how it stands then."""
    job = api.job(job_id)
    if job.has_ended:
        return job
    api.stop(job_id)
    until = time.monotonic() + wait_s
    while not (job := api.job(job_id)).has_ended and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
    return job


async def _tail(api: JobsApi, job_id: str, lines: "_Lines") -> None:
    """Once through what it prints, from the beginning; a connection that breaks ends it like the job's end."""
    lines.again()
    try:
        async for text in api.tail(job_id):
            lines.add(text)
    except AwayError:
        return


def _seen(api: JobsApi, job_id: str) -> Job:
    """The job, once somebody answers."""
    until = time.monotonic() + _HEAD_GONE_AFTER_S
    while True:
        try:
            return api.job(job_id)
        except AwayError:
            if time.monotonic() >= until:
                raise
            time.sleep(_LOOK_EVERY_S)


class _Lines:
    """Hands on whole lines, each once, of a text that is read several times from its beginning."""

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._num_shown = 0
        self.again()

    def again(self) -> None:
        """The text begins anew."""
        self._num_read = 0
        self._begun = ""

    def add(self, text: str) -> None:
        """Read on."""
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._read(line)

    def rest(self, text: str) -> None:
        """Read the whole text, and hand on what is new of it, its last line too."""
        self.again()
        self.add(text)
        if self._begun:
            self._read(self._begun)

    def _read(self, line: str) -> None:
        self._num_read += 1
        if self._num_read > self._num_shown:
            self._num_shown = self._num_read
            self._line(line)
