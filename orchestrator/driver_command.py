"""The command that runs a sweep on the head of a cluster, however it came there."""

from collections.abc import Mapping

from orchestrator.kept_output import KEEP_OUTPUT


def driver_command(file: str, storage: str, options: Mapping[str, str | None]) -> list[str]:
    """`densesweep run` of a file, with those options that have a value; what it prints outlives the head."""
    given = [part for option, value in options.items() if value is not None for part in (option, value)]
    return ["densesweep", "run", file, "--storage", storage, *given, KEEP_OUTPUT]
