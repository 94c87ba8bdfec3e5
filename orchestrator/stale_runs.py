"""MLflow runs of a sweep that are RUNNING though nothing runs, and their end."""

from collections.abc import Iterator

from orchestrator.findings import Finding
from orchestrator.tracking_place import place_of
from results.layout import SweepRecord
from results.store import Store

_SWEEP_ID = "tracking/sweep_id"


def stale_run_findings(store: Store, record: SweepRecord) -> Iterator[Finding]:
    """One finding for each run; the sweep's lock must be free, or held by the caller."""
    if not store.exists(_SWEEP_ID):
        return
    from orchestrator.tracking import end_left_running, left_running

    place = place_of(store, record.tracking_uri, where=store.uri)
    try:
        runs = left_running(store, record, place)
    except Exception as error:  # noqa: BLE001 - whatever a server that is away raises: the folder is the truth
        what = f"MLflow did not answer ({type(error).__name__}: {str(error).partition(chr(10))[0][:200]})"
        yield Finding(severity="note", where=place.uri, what=what, remedy="look again when it is back")
        return

    def end() -> None:
        end_left_running(store, record, place)  # all at once; ending them again does nothing

    for run in runs:
        yield Finding(
            severity="stale",
            where=f"MLflow run {run.run_id}",
            what=f"'{run.name}' is RUNNING, though nothing runs",
            remedy="ends as KILLED; the next run of the sweep brings it up to date",
            cure=end,
        )
