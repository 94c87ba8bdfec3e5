"""What the studies of a run read and write in the sweep folder, and whom they tell: specs, rows, records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from orchestrator.events import Ended, Listener, Planned
from orchestrator.plan import Plan, TrialPlan, trial_plan
from orchestrator.tuning.study import HistoryRow, Study
from results import layout
from results.clock import utc_now
from results.layout import PlannedTrial, Status, SweepRecord
from results.rows import read_rows, write_rows
from results.store import Lock, Store
from results.studies import sample_title, write_study
from search_spaces.identity import trial_id
from search_spaces.specs import EvaluationSpec, TrialSpec, evaluation_for, to_json
from search_spaces.tuning import TunedCell, Value


class Desk:
    """Writes for the studies of one run, as long as it holds the sweep's lock.

    Args:
        plan: of the run.
        store: the sweep folder.
        lock: the sweep's.
        listener: told of each event.
        say: prints a line.
    """

    def __init__(self, plan: Plan, store: Store, lock: Lock, *, listener: Listener, say: Callable[[str], None]) -> None:
        self.store = store
        self.say = say
        self._plan = plan
        self._lock = lock
        self._listener = listener

    def has_rows(self, key: str) -> bool:
        """Whether a trial is trained."""
        return self.store.exists(layout.trial_rows(key))

    def is_to_train(self, key: str) -> bool:
        """Whether a trial takes a training of the budget."""
        return not self.has_rows(key)

    def history(self, key: str) -> list[HistoryRow]:
        """The steps of a trial; of one that is not trained whole, up to its newest training checkpoint."""
        keys = [
            name for name in self.store.list(f"{layout.trial_prefix(key)}/steps") if name.endswith("/history.parquet")
        ]
        newest = layout.history_rows(key) if self.store.exists(layout.history_rows(key)) else next(reversed(keys), None)
        return [*read_rows(self.store, newest, "history").to_pylist()] if newest else []

    def keep(self, study: Study) -> None:
        """Write the study's record."""
        self._lock.verify()
        write_study(self.store, study.study_id, study.record)

    def plan_sample(self, study_title: str, number: int, key: str, spec: TrialSpec) -> None:
        """Leave a sample's spec for its worker. It is validated as it trains, and evaluated on nothing."""
        if not self.has_rows(key):
            self._write(key, spec, ())
        self._listener(Planned(key=key, spec=spec, title=sample_title(study_title, number)))

    def plan_chosen(self, cell: TunedCell, study_id: str, values: Mapping[str, Value]) -> list[str]:
        """Add the trials of a cell with what was found to the sweep; returns the identities of those left to run."""
        trials = [trial_plan(trial_id(spec), spec, self._plan.evaluations, self.store) for spec in cell.chosen(values)]
        wanted = [trial for trial in trials if self._plan.only.takes(trial.spec)]
        for trial in trials:
            evaluations = [evaluation_for(trial.spec.encoder, e.spec) for e in self._plan.evaluations]
            self._write(trial.trial_id, trial.spec, evaluations)
        self._record(study_id, trials)
        left = [trial for trial in wanted if trial.state != "finished"]
        for trial in left:
            self._listener(Planned(key=trial.trial_id, spec=trial.spec, title=trial.spec.title))
        return [trial.trial_id for trial in left]

    def prune(self, key: str, history: Sequence[HistoryRow], step: int) -> None:
        """Keep the rows of a sample up to the step at which it was pruned, and remove its weights.

        A trial that the folder had before, with evaluations of its own, stays as it is.
        """
        if self._is_evaluated(key):
            return
        self._lock.verify()
        self.store.delete(layout.trial_rows(key))
        self.drop_weights(key)
        write_rows(self.store, layout.history_rows(key), "history", history)
        status = replace(
            self._status(key),
            state="pruned",
            finished_at=utc_now(),
            reason=f"pruned after {step} steps: others of its search were better",
            error=None,
        )
        self.store.write(layout.status_key(layout.trial_prefix(key)), layout.to_bytes(status))
        self._listener(Ended(key=key, status=status))

    def drop_weights(self, key: str) -> None:
        """Remove the weights of a sample that has ended: its rows say what it was worth, and nothing evaluates it."""
        if self._is_evaluated(key):
            return
        self._lock.verify()
        for prefix in (
            layout.checkpoint_prefix(key),
            layout.last_checkpoint_prefix(key),
            layout.step_prefix(key, 0).rpartition("/")[0],
            layout.best_prefix(key, 0).rpartition("/")[0],
        ):
            self.store.delete(prefix)

    def _is_evaluated(self, key: str) -> bool:
        stored = layout.evaluations_key(key)
        return self.store.exists(stored) and bool(layout.evaluations_from_bytes(self.store.read(stored)))

    def _status(self, key: str) -> Status:
        status_key = layout.status_key(layout.trial_prefix(key))
        if self.store.exists(status_key):
            return layout.from_bytes(Status, self.store.read(status_key))
        return Status(state="running", started_at=utc_now())

    def _write(self, key: str, spec: TrialSpec, evaluations: Sequence[EvaluationSpec]) -> None:
        self._lock.verify()
        self.store.write(layout.spec_key(layout.trial_prefix(key)), to_json(spec).encode())
        self.store.write(layout.evaluations_key(key), layout.evaluations_to_bytes(evaluations))

    def _record(self, study_id: str, trials: Sequence[TrialPlan]) -> None:
        """The sweep's record, with the trials that the study led to in place of those that waited for it."""
        record = layout.from_bytes(SweepRecord, self.store.read(layout.SWEEP_RECORD))
        known = {trial.trial_id for trial in record.trials}
        new = [PlannedTrial(trial_id=t.trial_id, title=t.spec.title) for t in trials if t.trial_id not in known]
        studies = [replace(s, waiting=()) if s.study_id == study_id else s for s in record.studies]
        record = replace(record, trials=(*record.trials, *new), studies=tuple(studies))
        self.store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
