"""What `densesweep collect` does: all rows of its sources into one folder, and a word on what is missing or mixed."""

import json
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console

from orchestrator.outputs import output_folder
from orchestrator.program import command
from orchestrator.show import source_rows
from results.collected_folder import CollectedRows
from results.collecting import write_collected
from results.sources import Source
from search_spaces.problems import InputError, Problem


def collect_sources(source: Source, output: Path, *, as_json: bool, console: Console) -> None:
    """Write the folder, then say what is in it and what is missing, failed, duplicate or mixed.

    Raises:
        InputError: the folder holds something else or cannot be written, or rows are of another version of this
            program.
    """
    collected = source_rows(source)
    output_folder(output)
    try:
        write_collected(source, collected, output)
    except OSError as error:
        message = f"cannot be written ({error.strerror or error})"
        raise InputError([Problem(where=str(output), key="-o", message=message)]) from error
    told = [*(_kind(item.is_failed) for item in collected.lacking), *(found.kind for found in collected.findings)]
    counts = dict(Counter(told))
    if as_json:
        facts = {
            "folder": str(output),
            "sources": [{"uri": leaf.uri, "kind": leaf.kind, "sweep": leaf.record.name} for leaf in source.leaves],
            "num_rows": CollectedRows(output).num_rows,
            "found": counts,
            "missing": [str(item) for item in collected.lacking],
            "findings": [{"kind": found.kind, "told": str(found)} for found in collected.findings],
            "warnings": list(collected.warnings),
        }
        print(json.dumps(facts, indent=2))
        return
    for warning in collected.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    rows = ", ".join(f"{num:,} {name}" for name, num in CollectedRows(output).num_rows.items() if num)
    found = ", ".join(f"{number} {name}" for name, number in counts.items()) or "nothing is missing"
    number = len(source.leaves)
    console.print(
        f"{output}: {number} {'source' if number == 1 else 'sources'}; rows: {rows}", markup=False, soft_wrap=True
    )
    console.print(f"{found}: {command('tables', str(output), 'missing')}", markup=False, soft_wrap=True)


def _kind(is_failed: bool) -> str:
    return "failed" if is_failed else "missing"
