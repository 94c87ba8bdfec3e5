"""What a pilot is worth: nDCG@10 and the raw norm of each development query, as rows of the schema PER_QUERY."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results.schemas import QUERY_NORM
from search_spaces.specs import TrialSpec
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
from trainers.similarity import Gammas
from trainers.training.retriever import Retriever
from trainers.training.validation import MEASURE, ranking_values

Row = dict[str, Any]


def pilot_query_rows(spec: TrialSpec, checkpoint: Path) -> list[Row]:
    """Rank the pilot's validation pool with the checkpoint in this folder, and measure each of its queries.

    Raises as `ranking_values` does.
    """
    assert spec.validation is not None, "pilots have data to be scored on"
    assert spec.similarity is not None, "and a similarity"
    assert spec.training is not None, "and settings"
    retriever = Retriever(load_checkpoint(checkpoint).encoder, Gammas.from_spec(spec.similarity))
    retriever.to("cuda" if spec.execution.device == "gpu" else "cpu")
    found = ranking_values(spec.validation, spec.training.precision)(retriever)
    data = spec.validation.data
    about = {
        "checkpoint_hash": checkpoint_hash(checkpoint),
        "data_set": data.name,
        "data_hash": data.content_hash,
        "split": data.split,
        "tier": "pool",
        "score_similarity": spec.similarity.name,
    }
    scores = [{"query_id": value.query_id, "measure": value.measure, "value": value.value} for value in found.values]
    norms = [{"query_id": key, "measure": QUERY_NORM, "value": norm} for key, norm in found.norms.items()]
    return [about | row for row in (*scores, *norms)]


def mean_score(rows: Sequence[Row]) -> float:
    """The mean of the measure over queries, 0 to 1."""
    values = [row["value"] for row in rows if row["measure"] == MEASURE]
    return sum(values) / len(values)
