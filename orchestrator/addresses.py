"""Where the head of a Ray cluster answers. Imports no framework."""

import os
import socket

from search_spaces.problems import InputError, Problem

_CONNECT_TIMEOUT_S = 5.0


def resolved_address(asked: str | None) -> str | None:
    """The address of a running cluster: the one asked for, else that of the variable RAY_ADDRESS; None for none.

    'local' asks for a cluster of one's own even where RAY_ADDRESS is set.

    Raises:
        InputError: it is no HOST:PORT, or nobody answers there.
    """
    address = asked or os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        return None
    if address == "auto":
        return address
    where = "--address" if asked else "RAY_ADDRESS"
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        hint = "HOST:PORT of the head, as `ray start --head` prints it, or auto for the cluster of this machine"
        raise InputError([Problem(where=where, key="", message=f"'{address}' is no address of a Ray head ({hint})")])
    if not answers(address):
        message = f"no Ray head answers at {address} (start one with `ray start --head`, or leave {where} away)"
        raise InputError([Problem(where=where, key="", message=message)])
    return address


def answers(address: str) -> bool:
    """Whether a process takes connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False
