"""A checkpoint on one data set, as most tests of evaluation ask for it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from results.store import Store
from search_spaces.specs import EvaluationSpec, SimilaritySpec
from trainers.encoders.encoder import Encoder
from trainers.evaluation.evaluate import evaluate_all


def evaluate(
    folder: Path,
    evaluation: EvaluationSpec,
    similarities: Sequence[SimilaritySpec],
    *,
    store: Store,
    encoder: Encoder | None = None,
    verify: Callable[[], None] = lambda: None,
) -> None:
    evaluate_all(folder, {evaluation: similarities}, store=store, encoder=encoder, verify=verify)
