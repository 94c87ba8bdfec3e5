"""All studies of a sweep as Optuna's own, in a file for `optuna-dashboard SWEEP/studies/journal.log`.

The records of the studies are what counts (`results.studies`); this file follows them, and is made anew where it lacks
something. One process writes it, the sweep's driver, so that it needs no lock of Optuna's.
"""

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from orchestrator.tuning.drawing import STATES, as_trial, distributions
from orchestrator.tuning.study import Study
from results.layout import STUDIES_JOURNAL
from results.store import Store
from results.studies import Sample, worth

_WRITE_EVERY_S = 2.0
_SHARE_OF_TIME = 0.05  # the whole file is written each time, so seldom where that takes long
_NUMBER = "sample"  # the attribute of a trial that holds its number in the study


class StoreJournal(BaseJournalBackend):
    """Optuna's journal in a sweep folder of any kind: kept in memory, and written whole when it is due."""

    def __init__(self, store: Store) -> None:
        self._store = store
        data = store.read(STUDIES_JOURNAL) if store.exists(STUDIES_JOURNAL) else b""
        self._lines = data.decode().splitlines()
        self._num_written = len(self._lines)
        self._due = 0.0

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """The entries from that number on."""
        return [json.loads(line) for line in self._lines[log_number_from:]]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Add entries."""
        self._lines += [json.dumps(log, separators=(",", ":")) for log in logs]

    def flush(self, *, at_once: bool = False) -> None:
        """Write what is new, if that is due."""
        begun = time.monotonic()
        if self._num_written == len(self._lines) or (begun < self._due and not at_once):
            return
        self._store.write(STUDIES_JOURNAL, "".join(f"{line}\n" for line in self._lines).encode())
        self._num_written = len(self._lines)
        took_s = time.monotonic() - begun
        self._due = begun + max(_WRITE_EVERY_S, took_s / _SHARE_OF_TIME)


class OptunaStudies:
    """Brings studies to Optuna's form."""

    def __init__(self, store: Store) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._journal = StoreJournal(store)
        self._storage = JournalStorage(self._journal)
        self._ids: dict[str, int] = {}  # study -> Optuna's id
        self._trials: dict[tuple[str, int], FrozenTrial] = {}  # as last shown

    def show(self, study: Study) -> None:
        """Add what Optuna's study lacks of this one."""
        if study.study_id not in self._ids:
            self._open(study)
        for number, sample in enumerate(study.samples):
            self._show(study, number, sample)
        self._journal.flush()

    def close(self) -> None:
        """Write what was not written yet."""
        self._journal.flush(at_once=True)

    def _open(self, study: Study) -> None:
        name = f"{study.title} {study.study_id[:8]}"
        known = {found.study_name: found._study_id for found in self._storage.get_all_studies()}
        if name not in known:
            known[name] = self._storage.create_new_study([StudyDirection.MAXIMIZE], name)
            self._storage.set_study_user_attr(known[name], "study_id", study.study_id)
        self._ids[study.study_id] = known[name]
        for trial in self._storage.get_all_trials(known[name]):
            if _NUMBER in trial.user_attrs:
                self._trials[study.study_id, trial.user_attrs[_NUMBER]] = trial

    def _show(self, study: Study, number: int, sample: Sample) -> None:
        tune, shown = study.cell.tune, self._trials.get((study.study_id, number))
        if (
            shown is not None
            and shown.state == STATES[sample.state]
            and shown.intermediate_values == dict(sample.scores)
        ):
            return
        # What has ended in Optuna ended for good: a failed sample that is trained again is another trial there.
        if shown is None or (shown.state.is_finished() and shown.state != STATES[sample.state]):
            new = as_trial(sample, tune.metric, distributions(tune))
            new.user_attrs[_NUMBER] = number
            self._storage.create_new_trial(self._ids[study.study_id], new)
            shown = self._storage.get_all_trials(self._ids[study.study_id])[-1]
        elif not shown.state.is_finished():
            shown = self._update(shown, sample, worth(tune.metric, sample.scores))
        self._trials[study.study_id, number] = shown

    def _update(self, shown: FrozenTrial, sample: Sample, value: float | None) -> FrozenTrial:
        for step, score in _new(sample.scores, shown.intermediate_values):
            self._storage.set_trial_intermediate_value(shown._trial_id, step, score)
        state = STATES[sample.state]
        if state.is_finished():
            has_value = state in (TrialState.COMPLETE, TrialState.PRUNED) and value is not None
            self._storage.set_trial_state_values(shown._trial_id, state, [value] if has_value else None)
        return self._storage.get_trial(shown._trial_id)


def _new(scores: Sequence[tuple[int, float]], known: Any) -> list[tuple[int, float]]:
    return [(step, score) for step, score in scores if known.get(step) != score]
