"""One study while it runs: what it draws next, what it hears of its samples, which of them it stops, what it found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.tuning.drawing import draw, num_needed
from orchestrator.tuning.halving import Course, Verdict, verdicts
from results.studies import Sample, SampleState, Scores, StudyRecord, best, budget
from search_spaces.identity import trial_id
from search_spaces.specs import TrialSpec
from search_spaces.tuning import TunedCell, Value

HistoryRow = Mapping[str, Any]


class Study:
    """Samples of one cell, in the order in which they are drawn; knows neither Ray nor the sweep folder.

    What a failed sample of an earlier run was lost to may be mended, so it is trained again, as failed trials are.
    """

    def __init__(self, cell: TunedCell, study_id: str, record: StudyRecord | None) -> None:
        self.cell = cell
        self.study_id = study_id
        self.budget = budget(cell.tune)
        self._samples = [_resumed(sample) for sample in (record.samples if record else ())]
        self._rows: dict[int, dict[int, HistoryRow]] = {}  # by step, of samples that have not ended
        self._ended: dict[int, SampleState] = {}  # trained to their end, and perhaps not judged yet

    @property
    def title(self) -> str:
        """The study's name for people."""
        return self.cell.title

    @property
    def samples(self) -> tuple[Sample, ...]:
        """As its record has them, those under way with what they have told so far."""
        return tuple(
            replace(s, scores=_scores(rows.values()), steps=max(rows, default=0))
            if s.state == "drawn" and (rows := self._rows.get(number, {}))
            else s
            for number, s in enumerate(self._samples)
        )

    @property
    def record(self) -> StudyRecord:
        """What is kept of it: of samples that have not ended only that they were drawn."""
        return StudyRecord(title=self.title, samples=tuple(self._samples))

    @property
    def is_over(self) -> bool:
        """Whether all samples were drawn and have ended."""
        return len(self._samples) >= self.budget and not self.under_way

    @property
    def under_way(self) -> tuple[str, ...]:
        """Identities of the samples that have not ended, in their order."""
        return tuple(sample.trial_id for sample in self._samples if sample.state == "drawn")

    @property
    def found(self) -> int | None:
        """The number of the best sample of a study that is over; None where none ended well."""
        return best(self._samples[: self.budget], self.cell.tune.metric) if self.is_over else None

    def can_draw(self) -> bool:
        """Whether there is a next sample, and what it is drawn from is known."""
        number = len(self._samples)
        told = self._samples[: num_needed(self.cell.tune, number)]
        return number < self.budget and all(sample.state != "drawn" for sample in told)

    def draw(self) -> TrialSpec:
        """The next sample; its number is the last."""
        values = draw(self.cell.tune, self._samples)
        spec = self.cell.sample(values)
        self._samples.append(Sample(trial_id=trial_id(spec), values=values))
        return spec

    def spec(self, key: str) -> TrialSpec:
        """The training of one of its samples."""
        return self.cell.sample(self._samples[self.number(key)].values)

    def number(self, key: str) -> int:
        """The number of a sample by its identity. Raises ValueError where it is none of this study."""
        return [sample.trial_id for sample in self._samples].index(key)

    def values(self, number: int) -> Mapping[str, Value]:
        """The hyperparameters of a sample."""
        return self._samples[number].values

    def hear_steps(self, key: str, history: Sequence[HistoryRow]) -> None:
        """A sample that is under way told of steps; those that it repeats after a death are the same."""
        number = self.number(key)
        if self._samples[number].state == "drawn":
            self._rows.setdefault(number, {}).update({int(row["step"]): row for row in history})

    def hear_end(self, key: str, state: SampleState) -> None:
        """A sample was trained to its end ('finished'), or 'failed' for good."""
        number = self.number(key)
        if self._samples[number].state == "drawn":
            self._ended[number] = state

    def pruned_at(self, key: str) -> int | None:
        """The rung at which a sample is to end, if what is known by now says so."""
        return self._verdicts()[self.number(key)].pruned_at

    def settle(self, stopped: str | None = None) -> list[str]:
        """End the samples of which nothing more is to come, and return their identities.

        `stopped` is one whose training was ended since it is pruned.
        """
        settled = []
        for number, verdict in enumerate(self._verdicts()):
            sample, ended = self._samples[number], self._ended.get(number)
            if sample.state != "drawn" or not (ended or sample.trial_id == stopped):
                continue
            if state := _final_state(verdict, ended):
                self._end(number, state, verdict.pruned_at if state == "pruned" else None)
                settled.append(sample.trial_id)
        return settled

    def history(self, key: str) -> list[HistoryRow]:
        """The rows of a sample that was just settled; of a pruned one up to its rung."""
        number = self.number(key)
        rows = self._rows.get(number, {})
        return [rows[step] for step in sorted(rows) if step <= self._samples[number].steps]

    def forget(self, key: str) -> None:
        """The rows of a settled sample lie in the sweep folder, and are needed no more."""
        self._rows.pop(self.number(key), None)

    def _end(self, number: int, state: SampleState, rung: int | None) -> None:
        rows = {step: row for step, row in self._rows.get(number, {}).items() if rung is None or step <= rung}
        self._samples[number] = replace(
            self._samples[number], state=state, scores=_scores(rows.values()), steps=max(rows, default=0)
        )

    def _verdicts(self) -> tuple[Verdict, ...]:
        assert self.cell.tuning.training is not None, "what is tuned is trained"
        tune = self.cell.tune
        courses = [
            Course(scores=s.scores, step=s.steps, is_over=s.state != "drawn" or number in self._ended)
            for number, s in enumerate(self.samples)
        ]
        return verdicts(tune.asha, tune.metric, self.cell.tuning.training.steps, courses)


def _resumed(sample: Sample) -> Sample:
    return Sample(trial_id=sample.trial_id, values=sample.values) if sample.state in ("drawn", "failed") else sample


def _scores(rows: Sequence[HistoryRow] | Any) -> Scores:
    scored = [(int(row["step"]), row.get("validation_score")) for row in rows]
    return tuple(sorted((step, float(score)) for step, score in scored if score is not None))


def _final_state(verdict: Verdict, ended: SampleState | None) -> SampleState | None:
    """What becomes of a sample; None while an earlier one may still decide that it is pruned."""
    if ended == "failed":
        return "failed"
    if verdict.pruned_at is not None:
        return "pruned"
    return None if verdict.is_open else ended
