"""What `densesweep doctor` finds: one thing each, with what helps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

# 'broken': numbers that cannot be trusted or read. 'missing': asked for, and to be run. 'leftover': takes space for
# nothing. 'stale': says that something runs which does not. 'note': worth knowing, and all right.
Severity = Literal["broken", "missing", "leftover", "stale", "note"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing found. `where` is a key of the sweep folder, a lock or an MLflow run.

    `cure` repairs it, and `remedy` says what that does, or what a person can do where there is none.
    """

    severity: Severity
    where: str
    what: str
    remedy: str
    num_bytes: int = 0
    cure: Callable[[], None] | None = field(default=None, compare=False)

    @property
    def is_fault(self) -> bool:
        """Whether something is to be done about it."""
        return self.severity != "note"
