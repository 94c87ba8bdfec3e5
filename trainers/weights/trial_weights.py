"""The checkpoint of an earlier trial, as a family's weights. Torch-free."""

import shutil
import tempfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from results.layout import SWEEP_RECORD, Status, SweepRecord, checkpoint_prefix, from_bytes, status_key, trial_prefix
from results.layout import trial_rows as row_of_trial
from results.rows import read_rows
from results.store import Store, local_folder, open_existing_store
from search_spaces.catalogue.sources import Source
from trainers.cache import cache_folder

_AT_MOST = 5  # trials that a message lists


def trial_checkpoint(source: Source) -> Path:
    """The local folder of a finished trial's checkpoint; of a sweep in an object store, a copy in the cache folder.

    Raises:
        ValueError: there is no such sweep or trial, or it has no whole checkpoint yet; the message says which.
    """
    trial_id = source.trial_id
    assert trial_id is not None, "a trial: source names its trial"
    store = open_existing_store(source.location)
    if store is None:
        raise ValueError(f"there is no sweep folder {source.location}")
    if not store.exists(row_of_trial(trial_id)):
        raise ValueError(_not_finished(store, trial_id))
    try:
        if local_folder(store.uri) is None:
            return _copy(store, trial_id)
        with store.get_folder(checkpoint_prefix(trial_id)) as folder:
            return folder
    except KeyError as error:
        raise ValueError(f"the checkpoint of trial {trial_id} was removed from {store.uri}") from error


def _copy(store: Store, trial_id: str) -> Path:
    """The checkpoint in the cache folder, named by its hash, and brought there where it is not yet."""
    row = read_rows(store, row_of_trial(trial_id), "trials").to_pylist()[0]
    kept = cache_folder() / "checkpoints" / row["checkpoint_hash"]
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with store.get_folder(checkpoint_prefix(trial_id)) as folder:
        partial = Path(tempfile.mkdtemp(dir=kept.parent, prefix=".partial-"))
        try:
            shutil.copytree(folder, partial / "whole")
            (partial / "whole").rename(kept)
        except OSError:
            if not kept.is_dir():  # else another process was first
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return kept


def _not_finished(store: Store, trial_id: str) -> str:
    """Why a trial without its row has no checkpoint: the row is written when the checkpoint is whole."""
    key = status_key(trial_prefix(trial_id))
    if store.exists(key):
        status = from_bytes(Status, store.read(key))
        reason = f" ({status.reason})" if status.reason else ""
        return f"trial {trial_id} has no whole checkpoint: it is {status.state}{reason}; run its sweep to the end first"
    titles = _titles(store)
    if trial_id in titles:
        return f"trial {trial_id} ({titles[trial_id]}) has not been run yet; run its sweep first"
    return f"{store.uri} has no trial {trial_id} ({_hint(trial_id, titles)})"


def _hint(trial_id: str, titles: Mapping[str, str]) -> str:
    named = [f"{found} is {title}" for found, title in titles.items()]
    if near := get_close_matches(trial_id, titles, n=1):
        return f"did you mean {near[0]}, {titles[near[0]]}?"
    more = f", and {len(named) - _AT_MOST} more" if len(named) > _AT_MOST else ""
    return ", ".join(named[:_AT_MOST]) + more if named else "it is no sweep folder, or lists no trial"


def _titles(store: Store) -> dict[str, str]:
    if not store.exists(SWEEP_RECORD):
        return {}
    return {trial.trial_id: trial.title for trial in from_bytes(SweepRecord, store.read(SWEEP_RECORD)).trials}
