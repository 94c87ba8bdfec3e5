"""What is looked at in every pod before Ray starts there: the versions it holds, and the storage it reaches."""

import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from orchestrator.kubernetes.settings import client_versions
from results.store import open_store
from search_spaces.problems import InputError, Problem

_PREFIX = "preflight"


def preflight(storage: str, expected: Mapping[str, str]) -> None:
    """Look. Raises InputError with all that keeps trials from running here."""
    host = socket.gethostname()
    if found := list(_version_problems(expected, host)):
        raise InputError(found)
    _reach(storage, host)


def parse_expected(text: str) -> dict[str, str]:
    """Read 'ray=2.60.0,python=3.11'. Raises InputError."""
    pairs = [part.partition("=") for part in text.split(",")]
    for name, separator, value in pairs:
        if not separator or not value or name not in asdict(client_versions()):
            message = f"'{name}{separator}{value}' is no NAME=VERSION (names: {', '.join(asdict(client_versions()))})"
            raise InputError([Problem(where="--expect", key="", message=message)])
    return {name: value for name, _, value in pairs}


def _version_problems(expected: Mapping[str, str], host: str) -> Iterator[Problem]:
    ours = asdict(client_versions())
    for name, version in expected.items():
        if ours[name] != version:
            message = f"the image has {name} {ours[name]}, and the RayJob was rendered for {version} (use that image)"
            yield Problem(where=f"pod {host}", key="", message=message)


def _reach(storage: str, host: str) -> None:
    """Write an object to the sweep folder, read it back and delete it."""
    key = f"{_PREFIX}/{uuid.uuid4().hex}"
    written = host.encode()
    try:
        store = open_store(storage)
        store.write(key, written)
        read = store.read(key)
        store.delete(key)
    except InputError as error:
        raise InputError([Problem(where=f"pod {host}", key="", message=str(error))]) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        message = f"the sweep folder {storage} cannot be written to and read from here ({reason})"
        raise InputError([Problem(where=f"pod {host}", key="", message=message)]) from error
    if read != written:
        message = f"what was written to the sweep folder {storage} is not what is read from it"
        raise InputError([Problem(where=f"pod {host}", key="", message=message)])
