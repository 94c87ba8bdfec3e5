"""Leaks: scores that are reported on texts that a training, or the choice of its checkpoint, has seen."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from results.layout import SweepRecord
from search_spaces.specs import DataSpec, TrialSpec

_FIELDS = ("entry.name", "split", "content_hash")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One split of a data set. `content_hash` is None where the data is not here yet."""

    data_set: str
    split: str
    content_hash: str | None

    @classmethod
    def of(cls, data: DataSpec) -> "Part":
        """The part that a spec names."""
        return cls(data_set=data.name, split=data.split, content_hash=data.content_hash)

    def is_same(self, other: "Part") -> bool:
        """Whether both hold the same, whatever their names: one folder may be declared twice."""
        by_content = self.content_hash is not None and self.content_hash == other.content_hash
        return by_content or (self.data_set, self.split) == (other.data_set, other.split)

    def __str__(self) -> str:
        return f"{self.data_set}/{self.split}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a training has seen: the pairs it learned from, and those that its checkpoint was chosen by."""

    training: Part
    validation: Part | None


def seen_by(trials: Iterable[TrialSpec]) -> Collection[Seen]:
    """What planned trainings see, each combination once."""
    return dict.fromkeys(
        Seen(training=Part.of(t.training_data), validation=Part.of(t.validation.data) if t.validation else None)
        for t in trials
        if t.training_data
    )


def leaks(seen: Iterable[Seen], reported: Collection[Part], *, is_tuned: bool) -> Iterator[str]:
    """A line for each split that is reported, or validated on, and that trainings have seen."""
    chosen = "checkpoints and hyperparameters are" if is_tuned else "checkpoints are"
    for one in seen:
        if _is_among(one.training, reported):
            yield f"{one.training} is trained on and reported: scores on it are of texts that trainings have seen"
        if one.validation is None:
            continue
        if _is_among(one.validation, reported):
            yield f"{one.validation} is validated on and reported: {chosen} chosen by the scores that are shown of it"
        if one.validation.is_same(one.training):
            yield f"{one.validation} is trained and validated on: {chosen} chosen by texts that trainings have seen"


def leaks_of_sweep(trials: pl.DataFrame, record: SweepRecord) -> tuple[str, ...]:
    """The same of finished trials (the schema TRIALS) and what the record reports."""
    reported = [Part(data_set=e.data_set, split=e.split, content_hash=e.data_hash) for e in record.evaluations]
    trained = trials.filter(pl.col("kind") == "train")
    # Specs are long and many, and few differ in their data.
    fields = [
        pl.col("spec_json").str.json_path_match(f"$.{use}.{field}").alias(f"{use}.{field}")
        for use in ("training_data", "validation.data")
        for field in _FIELDS
    ]
    rows = trained.select(fields).unique(maintain_order=True).rows()
    seen = [Seen(training=_part(*row[:3]), validation=_part(*row[3:]) if row[3] else None) for row in rows]
    return tuple(dict.fromkeys(leaks(seen, reported, is_tuned=bool(record.studies))))


def _is_among(part: Part, reported: Iterable[Part]) -> bool:
    return any(part.is_same(other) for other in reported)


def _part(data_set: str, split: str, content_hash: str | None) -> Part:
    return Part(data_set=data_set, split=split, content_hash=content_hash)
