"""Which file each missing thing should be in: where a run of the sweep will write it."""

from collections.abc import Iterator, Mapping
from typing import Any

from results.asked import asked_answers, asked_evaluations
from results.collect import Collected
from results.layout import probe_rows, trial_rows
from results.missing import MissingKind, scored_words


def missing_files(collected: Collected) -> dict[str, str]:
    """Key in the sweep folder by the line (`str`) of each `Missing`; one whose file cannot be known is not in it."""
    scored = {item.trial_id for item in collected.missing if item.kind in ("evaluation", "sts", "qa")}
    trials = [trial for trial in collected.trials.iter_rows(named=True) if trial["trial_id"] in scored]
    asked = {(trial["trial_id"], what): key for trial in trials for what, key in _asked(collected, trial)}
    found = {str(item): _file(item.kind, item.trial_id, item.what, asked) for item in collected.missing}
    return {line: file for line, file in found.items() if file}


def _file(kind: MissingKind, identity: str, what: str, asked: Mapping[tuple[str, str], str]) -> str | None:
    if not identity:
        return None  # its hyperparameters, and so its identity, are not known yet
    if kind == "trial":
        return trial_rows(identity)
    return probe_rows(identity) if kind == "probe" else asked.get((identity, what))


def _asked(collected: Collected, trial: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(what, key) of everything that the trial's checkpoint must have been scored on."""
    for found, kind in ((asked_evaluations, "evaluation"), (asked_answers, "qa")):
        for rows in found(collected.store, trial):
            data = rows.evaluation.data
            words = scored_words(
                f"{data.name}/{data.split}",
                "qa" if kind == "qa" else "evaluation",
                similarity=rows.score_similarity,
                on_pool=rows.evaluation.tier == "pool",
            )
            yield words, rows.key
