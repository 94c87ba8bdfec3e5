"""What commands print to: a console for people, JSON for programs."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def command_console(*, stderr: bool = False) -> "Console":
    """Standard output, or error, as commands print to it."""
    from orchestrator.terminal import plain_console

    return plain_console(stderr=stderr)


def print_json(value: object) -> None:
    """A value as indented JSON."""
    print(json.dumps(value, indent=2))
