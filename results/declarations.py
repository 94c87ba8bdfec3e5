"""What a sweep declared before it had results: a declaration that comes later is recorded, and decides nothing."""

from dataclasses import dataclass, replace

from results.clock import utc_now
from results.layout import SWEEP_RECORD, Redeclared, SweepRecord, from_bytes, trial_rows
from results.store import Readable


@dataclass(frozen=True, kw_only=True)
class PrimaryGroups:
    """The primary groups that decide, whether the sweep file named them, and what came after them."""

    groups: tuple[str, ...]
    by_default: bool
    redeclared: tuple[Redeclared, ...] = ()


def declared_groups(wanted: PrimaryGroups, store: Readable | None) -> PrimaryGroups:
    """The primary groups that decide, with what was declared after them.

    Until a trial of the folder's record has rows, `wanted`, which the sweep file declares, decides. From then on the
    groups of the record do, and a change of them, back again too, is added with the time of now.
    """
    if store is None or not store.exists(SWEEP_RECORD):
        return wanted
    record = from_bytes(SweepRecord, store.read(SWEEP_RECORD))
    if not any(store.exists(trial_rows(trial.trial_id)) for trial in record.trials):
        return wanted
    first = PrimaryGroups(
        groups=record.primary_groups, by_default=record.primary_by_default, redeclared=record.redeclared
    )
    last = record.redeclared[-1].groups if record.redeclared else record.primary_groups
    if sorted(wanted.groups) == sorted(last):
        return first
    later = Redeclared(groups=wanted.groups, at=utc_now(), by_default=wanted.by_default)
    return replace(first, redeclared=(*first.redeclared, later))
