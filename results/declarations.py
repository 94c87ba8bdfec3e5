"""What a sweep declared before it had results: a declaration that comes later is recorded, and decides nothing."""

from results.clock import utc_now
from results.layout import SWEEP_RECORD, Redeclared, SweepRecord, from_bytes, trial_rows
from results.store import Readable


def declared_groups(wanted: tuple[str, ...], store: Readable | None) -> tuple[tuple[str, ...], tuple[Redeclared, ...]]:
    """The primary groups that decide, and what was declared after them.

    Until a trial of the folder's record has rows, `wanted`, which the sweep file declares, decides. From then on the
    groups of the record do, and a change of them, back again too, is added with the time of now.
    """
    if store is None or not store.exists(SWEEP_RECORD):
        return wanted, ()
    record = from_bytes(SweepRecord, store.read(SWEEP_RECORD))
    if not any(store.exists(trial_rows(trial.trial_id)) for trial in record.trials):
        return wanted, ()
    last = record.redeclared[-1].groups if record.redeclared else record.primary_groups
    if sorted(wanted) == sorted(last):
        return record.primary_groups, record.redeclared
    return record.primary_groups, (*record.redeclared, Redeclared(groups=wanted, at=utc_now()))
