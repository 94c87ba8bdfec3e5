"""Write small but real sweep folders through the row contract."""

from builders.folder import (
    FIXED,
    SweepFolder,
)
from builders.scores import (
    ANSWERS,
    PAIRS,
    VALIDATED,
    noisy_queries,
    seeded_queries,
    softmax_of,
    two_queries,
    untrained_noisy,
    untrained_queries,
)
from builders.specs import (
    evaluation,
    evaluation_spec,
    failed,
    probe,
    similarity_spec,
    trained,
    untrained,
)
from builders.stored import (
    probe_rows_of,
)
from builders.sweeps import (
    add_magnitudes,
    seeded_sweep,
    small_sweep,
)

__all__ = [
    "ANSWERS",
    "FIXED",
    "PAIRS",
    "VALIDATED",
    "SweepFolder",
    "add_magnitudes",
    "evaluation",
    "evaluation_spec",
    "failed",
    "noisy_queries",
    "probe",
    "probe_rows_of",
    "seeded_queries",
    "seeded_sweep",
    "similarity_spec",
    "small_sweep",
    "softmax_of",
    "trained",
    "two_queries",
    "untrained",
    "untrained_noisy",
    "untrained_queries",
]
