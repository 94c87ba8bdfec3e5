"""Write small but real sweep folders through the row contract."""

from tests.results.builders.folder import (
    FIXED,
    SweepFolder,
)
from tests.results.builders.scores import (
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
from tests.results.builders.specs import (
    data_spec,
    encoder_spec,
    evaluation,
    evaluation_spec,
    failed,
    pilot,
    probe,
    similarity_spec,
    trained,
    untrained,
)
from tests.results.builders.stored import (
    probe_rows_of,
    trial_row,
)
from tests.results.builders.sweeps import (
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
    "data_spec",
    "encoder_spec",
    "evaluation",
    "evaluation_spec",
    "failed",
    "noisy_queries",
    "pilot",
    "probe",
    "probe_rows_of",
    "seeded_queries",
    "seeded_sweep",
    "similarity_spec",
    "small_sweep",
    "softmax_of",
    "trained",
    "trial_row",
    "two_queries",
    "untrained",
    "untrained_noisy",
    "untrained_queries",
]
