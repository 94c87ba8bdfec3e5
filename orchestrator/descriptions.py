"""What a run's page says first: Markdown that fits into MLflow's limit of a description."""

import json
from collections.abc import Mapping, Sequence

from results.layout import PlannedEvaluation, Status
from results.rendering.fitting import fitted
from results.rendering.markdown import escape
from search_spaces.specs import ProbeSpec, TrialSpec

MAX_DESCRIPTION = 7500  # a description is a tag, and ends at 8,000 characters


def run_description(
    spec: TrialSpec | ProbeSpec,
    status: Status,
    scores: Mapping[PlannedEvaluation, float],
    manifest: bytes | None,
) -> str:
    """Why it failed; else what it is, what it scored (times 100), and where its checkpoint lies."""
    if status.reason:
        return status.reason[:MAX_DESCRIPTION]
    lines = [_what(spec), *_score_lines(scores)]
    return fitted(lines, _checkpoint_lines(manifest), MAX_DESCRIPTION).rstrip()


def _what(spec: TrialSpec | ProbeSpec) -> str:
    if isinstance(spec, ProbeSpec):
        return f"Probe of {_encoder(spec)} before training, on {spec.training_data.name} at scale {spec.scale}."
    if spec.training is None or spec.training_data is None or spec.similarity is None:
        return f"{_encoder(spec)} before training."
    settings = spec.training
    trained = f"trained on {spec.training_data.name} for {settings.steps} steps of {settings.global_batch} pairs"
    return f"**{spec.similarity.name}** at scale {spec.scale}: {_encoder(spec)}, {trained}, seed {spec.seed}."


def _encoder(spec: TrialSpec | ProbeSpec) -> str:
    layers = f" ({spec.encoder.layers} layers)" if spec.encoder.layers else ""
    return f"{spec.encoder.family}{layers}, {spec.encoder.init_regime}"


def _score_lines(scores: Mapping[PlannedEvaluation, float]) -> Sequence[str]:
    on_pools = {evaluation: score for evaluation, score in scores.items() if evaluation.tier == "pool"}
    over_corpora = {evaluation: score for evaluation, score in scores.items() if evaluation.tier != "pool"}
    note = ["", "On pools, parts of each corpus that hold all judged documents:"] if on_pools else []
    return [*_score_table(over_corpora), *note, *_score_table(on_pools)]


def _score_table(scores: Mapping[PlannedEvaluation, float]) -> Sequence[str]:
    if not scores:
        return []
    lines = ["", "| data set | group | measure | score |", "| :--- | :--- | :--- | ---: |"]
    for evaluation, score in sorted(scores.items(), key=lambda item: (item[0].groups, item[0].data_set)):
        names = (evaluation.data_set, ", ".join(evaluation.groups), evaluation.main_measure)
        lines.append(f"| {' | '.join(map(escape, names))} | {100 * score:.2f} |")
    return lines


def _checkpoint_lines(manifest: bytes | None) -> Sequence[str]:
    if manifest is None:
        return []
    known = json.loads(manifest)
    size = f"{known['size_bytes'] / 1e6:,.1f} MB"
    return [f"Checkpoint: `{known['uri']}` ({size}; files and hashes: artifact `checkpoint/manifest.json`)"]
