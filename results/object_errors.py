"""What the libraries behind fsspec raise, as errors of the operating system: callers know these alone."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Turn whatever a storage library raises (no credentials, no answer, refused) into OSError."""
    try:
        yield
    except (OSError, KeyError, ValueError):
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error


def is_taken(error: OSError) -> bool:
    """Whether a conditional write was refused because there is an object already."""
    return isinstance(error, FileExistsError) or _code(error) in ("PreconditionFailed", "412")


def is_busy(error: OSError) -> bool:
    """Whether a conditional write met another one of the same object, so that neither may have happened."""
    return _code(error) in ("ConditionalRequestConflict", "OperationAborted", "409")


def _code(error: BaseException) -> str:
    """What the server called it, down the chain of causes."""
    cause: BaseException | None = error
    while cause is not None:
        response: Any = getattr(cause, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
        if code := getattr(cause, "code", None):
            return str(code)
        cause = cause.__cause__
    return ""
