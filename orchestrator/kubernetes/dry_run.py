"""What a dry run prints: each object, and what would become of it. Talks to nobody."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console


def print_dry_run(verdicts: Sequence[tuple[Mapping[str, Any], str]], end: str, console: Console) -> None:
    """Print a line for each object, and how it ended."""
    for manifest, verdict in verdicts:
        metadata = manifest["metadata"]
        line = f"{manifest['kind']} {metadata['name']} in namespace {metadata['namespace']}: {verdict}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Dry run: {end}.", markup=False, highlight=False, soft_wrap=True)
