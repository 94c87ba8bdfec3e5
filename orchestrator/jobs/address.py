"""Where a Ray cluster takes jobs, and the token that it asks for. Imports no framework."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from search_spaces.problems import InputError, Problem

ADDRESS_VARIABLE = "RAY_API_SERVER_ADDRESS"  # as `ray job submit` reads it
TOKEN_SOURCES = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
_HINT = "http://HEAD:8265, Ray's dashboard"


def jobs_url(asked: str | None) -> str:
    """The URL that jobs are sent to: the one asked for, else that of RAY_API_SERVER_ADDRESS; without a last slash.

    Raises:
        InputError: there is none, or it is no URL.
    """
    address = asked or os.environ.get(ADDRESS_VARIABLE)
    if not address:
        message = f"is required, or the variable {ADDRESS_VARIABLE}: where the cluster takes jobs ({_HINT})"
        raise InputError([Problem(where="--address", key="", message=message)])
    url = address if "://" in address else f"http://{address}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(url) or parts.query:
        where = "--address" if asked else ADDRESS_VARIABLE
        message = f"'{address}' is not where a Ray cluster takes jobs ({_HINT})"
        raise InputError([Problem(where=where, key="", message=message)])
    return url.rstrip("/")


def _has_port(url: str) -> bool:
    """Whether its port, where it names one, is a number that ports have."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def auth_token() -> str | None:
    """The token that Ray's own client would send: of the variable, of the file, or that of the home folder.

    Raises:
        InputError: the file that RAY_AUTH_TOKEN_PATH names cannot be read, or RAY_AUTH_MODE has no meaning.
    """
    mode = os.environ.get("RAY_AUTH_MODE", "")
    if mode not in ("", "token", "disabled"):
        message = f"'{mode}' is no way to authenticate that jobs are sent with (token, disabled)"
        raise InputError([Problem(where="RAY_AUTH_MODE", key="", message=message)])
    if mode == "disabled":
        return None
    if token := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError as error:
        if named is None:
            return None
        message = f"'{named}' cannot be read: {error.strerror}"
        raise InputError([Problem(where="RAY_AUTH_TOKEN_PATH", key="", message=message)]) from error
