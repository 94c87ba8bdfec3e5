"""A trial's own row, of the schema TRIALS."""

from typing import Any

from results.cells import cell_of
from search_spaces.identity import trial_id
from search_spaces.specs import TrialSpec, to_json
from trainers.training.train_result import TrainResult


def trial_row(
    spec: TrialSpec, result: TrainResult | None, *, checkpoint_hash: str, provenance_json: str
) -> dict[str, Any]:
    """The row; an untrained trial has no result, and the columns of training stay empty."""
    return {
        "trial_id": trial_id(spec),
        **cell_of(spec),
        "checkpoint_hash": checkpoint_hash,
        **_settings(spec),
        **_outcome(result),
        "spec_json": to_json(spec),
        "provenance_json": provenance_json,
    }


def _settings(spec: TrialSpec) -> dict[str, Any]:
    settings = spec.training
    return {
        "steps": settings.steps if settings else None,
        "global_batch": settings.global_batch if settings else None,
        "learning_rate": settings.learning_rate if settings else None,
    }


def _outcome(result: TrainResult | None) -> dict[str, Any]:
    if result is None:
        return {}
    return {
        "gamma_q": result.gammas[0],
        "gamma_d": result.gammas[1],
        "scale_divisor": result.scale_divisor,
        "num_negatives": result.num_negatives,
        "num_random_negatives": result.num_random_negatives,
        "num_queries": result.num_queries,
        "num_documents": result.num_documents,
        "num_truncated_queries": result.num_truncated_queries,
        "num_truncated_documents": result.num_truncated_documents,
        "steps_done": len(result.history),
        "best_step": result.best_step,
        "validation_score": result.validation_score,
        "final_loss": result.final_loss,
        **{f"start_{name}": value for name, value in vars(result.start).items()},
        **{f"end_{name}": value for name, value in vars(result.end).items()},
        "train_wall_s": result.wall_s,
        "pairs_per_s": result.pairs_per_s,
        "tokens_per_s": result.tokens_per_s,
        "padding_share": result.padding_share,
        "peak_memory_bytes": result.peak_memory_bytes,
    }
