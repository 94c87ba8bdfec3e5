"""The time, as records of the sweep folder hold it."""

from datetime import UTC, datetime


def utc_now() -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
