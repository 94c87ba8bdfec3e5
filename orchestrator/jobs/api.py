"""Ray's Jobs API over HTTP, and what it answers with in one line.

Not with Ray's own client: that imports all of Ray, whose version then has to be the cluster's, and has no words for a
token that is refused or a head that is gone.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from orchestrator.jobs.address import TOKEN_SOURCES
from search_spaces.problems import InputError, Problem, unknown_name

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_CONNECT_WITHIN_S = 10.0
_ANSWER_WITHIN_S = 120.0  # the head starts an agent first, where it has none yet
_HEARTBEAT_S = 20.0
_MAX_MESSAGE_BYTES = 64 << 20


class AwayError(InputError):
    """Nobody answers at the address, or what answers is about to end: it may answer again."""


class UnknownJobError(InputError):
    """The cluster knows no job of that id: there was none, or it is another cluster than the one it ran on."""


class TakenError(InputError):
    """There is a job of that id already."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as Ray tells of it; times are in seconds since 1970.

    Attributes:
        message: what Ray says of how it stands, which may be the end of its log.
        exit_code: of its command, once that has ended.
    """

    job_id: str
    status: str
    message: str
    metadata: Mapping[str, str]
    started_s: float | None
    ended_s: float | None
    exit_code: int | None

    @property
    def has_ended(self) -> bool:
        """Whether it goes no further."""
        return self.status in ENDED


@dataclass(frozen=True, kw_only=True)
class JobsApi:
    """The Jobs API at a URL. Everything raises InputError with one line; AwayError where nobody answers."""

    url: str
    token: str | None = field(repr=False)

    def jobs(self) -> list[Job]:
        """All that were submitted to the cluster, oldest first."""
        answered = self._json("GET", "/api/jobs/")
        found = [_job(entry) for entry in answered if entry.get("submission_id")]
        return sorted(found, key=lambda job: job.started_s or 0.0)

    def job(self, job_id: str) -> Job:
        """One of them. Raises InputError with the nearest where there is none."""
        return _job(self._json("GET", f"/api/jobs/{job_id}", job_id=job_id))

    def log(self, job_id: str) -> str:
        """All that it has printed so far."""
        return str(self._json("GET", f"/api/jobs/{job_id}/logs", job_id=job_id)["logs"])

    def stop(self, job_id: str) -> None:
        """Have it stopped: its processes get SIGTERM."""
        self._json("POST", f"/api/jobs/{job_id}/stop", job_id=job_id)

    def submit(
        self, *, job_id: str, entrypoint: str, runtime_env: Mapping[str, Any], metadata: Mapping[str, str]
    ) -> None:
        """Start a job. Raises TakenError where there is one of that id."""
        request = {"submission_id": job_id, "entrypoint": entrypoint, "runtime_env": dict(runtime_env)}
        status, text = self._request("POST", "/api/jobs/", body=json.dumps(request | {"metadata": dict(metadata)}))
        if status != 200 and "already exists" in text:
            raise TakenError([self._problem(f"there is a job '{job_id}' at {self.url} already")])
        self._parsed(status, text)

    def upload(self, name: str, content: bytes) -> str:
        """Give the cluster a package, for the working directory of a job; returns the package's URI."""
        path = f"/api/packages/gcs/{name}"
        if self._request("GET", path)[0] != 200:
            status, text = self._request("PUT", path, body=content)
            if status != 200:
                raise InputError([self._problem(self._refusal(status, text))])
        return f"gcs://{name}"

    async def tail(self, job_id: str) -> AsyncIterator[str]:
        """What it prints, from the beginning, as it comes, until it ends or the connection breaks. Raises AwayError."""
        try:
            async with (
                self._session() as session,
                session.ws_connect(
                    f"{self.url}/api/jobs/{job_id}/logs/tail", heartbeat=_HEARTBEAT_S, max_msg_size=_MAX_MESSAGE_BYTES
                ) as socket,
            ):
                async for message in socket:
                    if message.type == aiohttp.WSMsgType.TEXT:
                        yield message.data
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._away(error) from error

    def _json(self, method: str, path: str, *, job_id: str | None = None) -> Any:
        status, text = self._request(method, path)
        if status == 404 and job_id is not None:
            known = [job.job_id for job in self.jobs()]
            message = f"{unknown_name('job', job_id, known)} at {self.url}"
            raise UnknownJobError([Problem(where="JOB", key="", message=message)])
        return self._parsed(status, text)

    def _parsed(self, status: int, text: str) -> Any:
        if status != 200:
            raise InputError([self._problem(self._refusal(status, text))])
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError([self._problem(f"what answers at {self.url} is no Ray dashboard")]) from error

    def _request(self, method: str, path: str, *, body: str | bytes | None = None) -> tuple[int, str]:
        """Status and text of the answer."""
        try:
            status, text = asyncio.run(self._asked(method, path, body))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._away(error) from error
        if status in (401, 403):
            raise InputError([self._problem(self._denial())])
        return status, text

    async def _asked(self, method: str, path: str, body: str | bytes | None) -> tuple[int, str]:
        is_json = isinstance(body, str)
        headers = {"Content-Type": "application/json" if is_json else "application/octet-stream"} if body else {}
        async with (
            self._session() as session,
            session.request(method, f"{self.url}{path}", data=body, headers=headers, allow_redirects=False) as response,
        ):
            return response.status, await response.text(errors="replace")

    def _session(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S, connect=_CONNECT_WITHIN_S)
        return aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=True)

    def _denial(self) -> str:
        if self.token is None:
            return f"the cluster at {self.url} asks for a token, and there is none here ({TOKEN_SOURCES})"
        return f"the cluster at {self.url} refuses the token (it is the one of {TOKEN_SOURCES}, the first there is)"

    def _refusal(self, status: int, text: str) -> str:
        """The last line of what it said, which of a traceback is what it came to."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        reason = f": {lines[-1]}" if lines and not lines[0].startswith("<") else ""
        return f"the cluster at {self.url} answered {status}{reason}"

    def _away(self, error: Exception) -> AwayError:
        if isinstance(error, TimeoutError):
            reason = "it did not answer in time"
        else:
            reason = " ".join(str(getattr(error, "os_error", error)).split()) or type(error).__name__
        hint = (
            "has the head died, or is this another of its ports? The dashboard's is 8265, and needs ray[default] there"
        )
        return AwayError([self._problem(f"no Ray dashboard answers at {self.url} ({hint}): {reason}")])

    @staticmethod
    def _problem(message: str) -> Problem:
        return Problem(where="--address", key="", message=message)


def _job(entry: Mapping[str, Any]) -> Job:
    start, end, code = (entry.get(name) for name in ("start_time", "end_time", "driver_exit_code"))
    return Job(
        job_id=entry["submission_id"],
        status=entry["status"],
        message=entry.get("message") or "",
        metadata=entry.get("metadata") or {},
        started_s=start / 1000 if start else None,
        ended_s=end / 1000 if end else None,
        exit_code=code,
    )
