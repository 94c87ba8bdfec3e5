"""What the folder of a sweep says of its trainings, for people: negatives, speed, validation, what was lost."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from results.layout import spec_key, trial_prefix, trial_rows
from results.rows import read_rows
from results.schemas import SchemaError
from results.store import Store
from search_spaces.specs import TrialSpec, from_json


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """Of one training, as far as it has come: None where the folder does not say.

    Attributes:
        num_negatives: per query, masked ones counted.
        pairs_per_s: over all steps; of one that is not finished, of the last step that has a checkpoint.
        validation_score: of its checkpoint, or the last one, 0 to 1.
    """

    num_negatives: int | None = None
    pairs_per_s: float | None = None
    validation_score: float | None = None


def training_facts(store: Store, trial_id: str) -> TrainingFacts:
    """The facts of a trial: from its row, else from its spec and its newest training checkpoint."""
    try:
        if store.exists(trial_rows(trial_id)):
            [row] = read_rows(store, trial_rows(trial_id), "trials").to_pylist()
            return TrainingFacts(**{name: row[name] for name in TrainingFacts.__dataclass_fields__})
        last = _last_step(store, trial_id)
    except SchemaError:  # another version wrote it: what stands in the status record is shown all the same
        return TrainingFacts()
    key = spec_key(trial_prefix(trial_id))
    num_negatives = from_json(TrialSpec, store.read(key)).num_negatives if store.exists(key) else None
    return TrainingFacts(
        num_negatives=num_negatives,
        pairs_per_s=last.get("pairs_per_s"),
        validation_score=last.get("validation_score"),
    )


def training_notes(trials: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What trainings did not get of their data, a line each: texts that were cut, hard negatives; `trials` are rows."""
    lines: list[str] = []
    for row in trials:
        spec = from_json(TrialSpec, row["spec_json"])
        lines += [*_cut_texts(row, spec), *_random_negatives(row, spec)]
    return tuple(dict.fromkeys(lines))


def _cut_texts(row: Mapping[str, Any], spec: TrialSpec) -> Iterator[str]:
    for texts, num_cut, num_texts, length in _sides(row, spec):
        if num_cut:
            of_data = f"of {row['training_data']}"
            cut = f"{num_cut:,} of {num_texts:,} {texts} {of_data} are longer than {length} tokens and are cut"
            yield f"{cut} ({row['family']})"


def _random_negatives(row: Mapping[str, Any], spec: TrialSpec) -> Iterator[str]:
    """In percent, which is the same for all seeds, or nearly so; the row has the number."""
    if (num_random := row["num_random_negatives"]) and (settings := spec.training):
        percent = 100 * num_random / (settings.steps * settings.global_batch * settings.hard_negatives)
        share = f"{percent:.0f} %" if percent >= 1 else "less than 1 %"
        lacking = f"some queries have fewer than {settings.hard_negatives}"
        yield f"{share} of the hard negatives of {row['training_data']} are random documents, since {lacking}"


def _sides(row: Mapping[str, Any], spec: TrialSpec) -> list[tuple[str, int | None, int | None, int]]:
    """(what the texts are, how many are cut, of how many, the maximum length) of both sides."""
    names, encoder = ("training queries", "training documents"), spec.encoder
    lengths = (encoder.max_query_length, encoder.max_document_length)
    if spec.task == "sts":  # both texts of a pair are encoded as queries
        names, lengths = ("first texts", "second texts"), (encoder.max_query_length,) * 2
    cut, found = ((row[f"{kind}_queries"], row[f"{kind}_documents"]) for kind in ("num_truncated", "num"))
    return list(zip(names, cut, found, lengths, strict=True))


def _last_step(store: Store, trial_id: str) -> dict[str, Any]:
    """The last row of the newest history, with the last validation of all; empty where there is none."""
    keys = [key for key in store.list(f"{trial_prefix(trial_id)}/steps") if key.endswith("/history.parquet")]
    if not keys:
        return {}
    try:
        rows = read_rows(store, keys[-1], "history").to_pylist()
    except KeyError:  # a running trial has removed it, since a newer one is there
        return {}
    scores = [row["validation_score"] for row in rows if row["validation_score"] is not None]
    return {**rows[-1], "validation_score": scores[-1] if scores else None}
