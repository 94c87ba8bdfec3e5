"""All studies of a run: hands their samples to Tune, ends those that are pruned, and plans the trials that follow.

Called in the thread in which Tune runs. A study's record is written before a sample is handed out, so that a driver
that is killed is followed by one that goes on with the same samples.
"""

from collections import deque
from collections.abc import Sequence

from orchestrator.events import Ended, Event, Stepped
from orchestrator.trial_queue import NoSource
from orchestrator.tuning.desk import Desk
from orchestrator.tuning.optuna_journal import OptunaStudies
from orchestrator.tuning.study import Study
from results.studies import SampleState, values_text, worth


class Studies:
    """A source of trials for the queue, and a listener of events.

    Args:
        studies: those that are not over.
        desk: reads and writes the sweep folder, and tells of what is planned.
        num_trainings: how many trainings the budget still has; None for no limit.
    """

    def __init__(self, studies: Sequence[Study], desk: Desk, *, num_trainings: int | None) -> None:
        self._studies = list(studies)
        self._desk = desk
        self._num_trainings = num_trainings
        self._study_of: dict[str, Study] = {}
        self._waiting: deque[str] = deque()  # samples of an earlier run, and trials with what was found
        self._optuna = OptunaStudies(desk.store) if studies else None
        for study in studies:
            self._take_up(study)

    def __reduce__(self) -> tuple[type[NoSource], tuple[()]]:
        """Tune pickles what it is given, to restore an experiment, which is never done."""
        return NoSource, ()

    @property
    def is_over(self) -> bool:
        """Whether no more trials will come of the studies, unless one that runs brings them."""
        return self._is_spent or (not self._waiting and all(study.is_over for study in self._studies))

    @property
    def unaffordable(self) -> str | None:
        """Why not all was handed out, if the budget is why."""
        unfinished = self._waiting or not all(study.is_over for study in self._studies)
        return "the budget of trained trials is spent (budget.trials)" if self._is_spent and unfinished else None

    @property
    def _is_spent(self) -> bool:
        return self._num_trainings is not None and self._num_trainings <= 0

    def next_key(self) -> str | None:
        """A trial to run now, if there is one: its spec lies in the sweep folder."""
        while not self._is_spent:
            key = self._waiting.popleft() if self._waiting else self._drawn()
            if key is None:
                return None
            study = self._study_of.get(key)
            if study is not None and self._is_trained(study, key):
                self._settle(study)
                continue
            if self._num_trainings is not None:
                self._num_trainings -= self._desk.is_to_train(key)
            return key
        return None

    def __call__(self, event: Event) -> None:
        """Take note of an event; what is no sample's is passed over."""
        study = self._study_of.get(event.key)
        if study is None:
            return
        match event:
            case Stepped(key=key, history=history):
                study.hear_steps(key, history)
                if any(row.get("validation_score") is not None for row in history):
                    self._show(study)
            case Ended(key=key, status=status) if status.state in ("finished", "failed"):
                self._hear_end(study, key, "finished" if status.state == "finished" else "failed")
                self._settle(study)

    def is_to_stop(self, key: str, events: Sequence[Event]) -> bool:
        """Whether a trial that runs, and tells of `events` now, is a sample to be stopped: it is pruned."""
        study = self._study_of.get(key)
        if study is None or any(isinstance(event, Ended) for event in events):
            return False
        for event in events:
            if isinstance(event, Stepped):
                study.hear_steps(key, event.history)
        return key in study.under_way and study.pruned_at(key) is not None

    def stopped(self, key: str) -> None:
        """Tune has ended a trial because `is_to_stop` said so."""
        study = self._study_of.get(key)
        if study is not None and key in study.under_way and study.pruned_at(key) is not None:
            self._settle(study, stopped=key)

    def close(self) -> None:
        """Nothing more will be told."""
        if self._optuna:
            self._optuna.close()

    def _take_up(self, study: Study) -> None:
        """Go on with a study where an earlier run left it."""
        self._study_of |= {sample.trial_id: study for sample in study.samples}
        for key in study.under_way:
            study.hear_steps(key, self._desk.history(key))
            if not self._is_trained(study, key):
                self._plan_sample(study, key)
                self._waiting.append(key)
        self._settle(study)

    def _is_trained(self, study: Study, key: str) -> bool:
        """Whether the folder has the training whole, from an earlier run or from another sweep: then it is heard."""
        if not self._desk.has_rows(key):
            return False
        self._hear_end(study, key, "finished")
        return True

    def _hear_end(self, study: Study, key: str, state: SampleState) -> None:
        if key in study.under_way:
            study.hear_steps(key, self._desk.history(key))
            study.hear_end(key, state)

    def _drawn(self) -> str | None:
        """The next sample, of the study that has drawn the fewest."""
        ready = [study for study in self._studies if study.can_draw()]
        if not ready:
            return None
        study = min(ready, key=lambda one: len(one.samples))
        study.draw()
        key = study.samples[-1].trial_id
        self._study_of[key] = study
        self._desk.keep(study)
        self._plan_sample(study, key)
        self._show(study)
        return key

    def _plan_sample(self, study: Study, key: str) -> None:
        self._desk.plan_sample(study.title, study.number(key), key, study.spec(key))

    def _settle(self, study: Study, stopped: str | None = None) -> None:
        settled = study.settle(stopped)
        for key in settled:
            sample = study.samples[study.number(key)]
            if sample.state == "pruned":
                self._desk.prune(key, study.history(key), sample.steps)
            if sample.state == "finished":
                self._desk.drop_weights(key)
            study.forget(key)
        if settled:
            self._desk.keep(study)
        self._show(study)
        if study.is_over and study in self._studies:
            self._studies.remove(study)
            self._conclude(study)

    def _conclude(self, study: Study) -> None:
        """Say what a study found, and plan the trials that run with it."""
        number = study.found
        if number is None:
            self._desk.say(f"search {study.title}: no sample ended well, so nothing runs with what it found")
            return
        sample = study.samples[number]
        score = worth(study.cell.tune.metric, sample.scores)
        assert score is not None, "what was found was scored"
        told = values_text(sample.values)
        self._desk.say(
            f"search {study.title}: {told} (sample {number} of {len(study.samples)}, validation {100 * score:.2f})"
        )
        self._waiting += self._desk.plan_chosen(study.cell, study.study_id, sample.values)

    def _show(self, study: Study) -> None:
        if self._optuna:
            self._optuna.show(study)
