"""Where commands write what they make for people: whole files, each at once, and one line where that cannot be."""

import os
import secrets
from pathlib import Path

from search_spaces.problems import InputError, Problem


def output_folder(folder: Path) -> None:
    """Make the folder where there is none yet.

    Raises:
        InputError: it is a file, or cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError([Problem(where=str(folder), key="-o", message="is a file (give a folder)")])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def write_output(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all: two commands that write it at once leave one of both.

    Raises:
        InputError: it cannot be written, or is a folder.
    """
    if path.is_dir():
        raise InputError([Problem(where=str(path), key="-o", message="is a folder (give a file)")])
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> InputError:
    reason = error.strerror or os.strerror(error.errno or 0)
    return InputError([Problem(where=str(path), key="-o", message=f"cannot be written ({reason})")])
