"""Send to MLflow what it lacks of a sweep folder, without running anything."""

from rich.console import Console

from orchestrator.exports import export_all
from orchestrator.labels import provenance_tags
from orchestrator.program import command
from orchestrator.run import EXIT_FAILED, EXIT_OK, keep_log, locked, log_file
from orchestrator.terminal import chatter_to
from orchestrator.tracking import SweepState, Tracking, place_of, sweep_id
from results.layout import Status, SweepRecord, from_bytes, probe_prefix, status_key, trial_prefix
from results.store import Store
from trainers.provenance import provenance

_TIMEOUT_S = 24 * 3600.0  # whoever asks for it waits for uploads too; Ctrl-C ends it


def sync_sweep(store: Store, record: SweepRecord, console: Console) -> int:
    """Bring the mirror up to date with the folder; returns the exit code.

    Raises:
        InputError: the sweep is running, which sends everything itself.
    """
    place = place_of(store, record.tracking_uri, where=store.uri)
    log = log_file(store, "sync")
    with locked(store, store.uri), chatter_to(log) as screen:
        tags = provenance_tags(provenance().to_json())
        tracking = Tracking.open(store, record, place, sweep_id=sweep_id(store), log_file=log, tags=tags)
        summary = export_all(store, record)
        tracking.finish_sweep(_state(store, record, summary.num_missing), summary)
        with screen.status(f"sending what {place.uri} lacks"):
            tracking.close(_TIMEOUT_S)
    keep_log(store, log)
    if tracking.behind:
        console.print(f"MLflow lacks something ({tracking.behind}); the log: {log}", markup=False, soft_wrap=True)
        console.print(f"Nothing is lost; again, when it is back: {command('sync', store.uri)}", markup=False)
        return EXIT_FAILED
    console.print(f"MLflow at {place.uri} holds all of '{record.name}'.", markup=False, soft_wrap=True)
    return EXIT_OK


def _state(store: Store, record: SweepRecord, num_missing: int) -> SweepState:
    """How the sweep ended: killed where something was left undone, failed where something failed."""
    keys = [status_key(trial_prefix(trial.trial_id)) for trial in (*record.trials, *record.pilots)]
    keys += [status_key(probe_prefix(probe.trial_id)) for probe in record.probes]
    states = {from_bytes(Status, store.read(key)).state if store.exists(key) else "waiting" for key in keys}
    if states & {"waiting", "running"} or any(study.waiting for study in record.studies):
        return "killed"
    return "failed" if num_missing else "finished"
