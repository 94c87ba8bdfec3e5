"""What a sweep file expands to: frozen, self-contained descriptions of trials, probes and evaluations.

A spec can be written to JSON and read back (`to_json`, `from_json`), so that a trial runs alone from its file.
"""

from search_spaces.specs.data import DataSpec, with_data_hash
from search_spaces.specs.encoders import INSTRUCTION, EncoderSpec, StartingEncoder, Towers, WeightsSpec
from search_spaces.specs.evaluations import (
    EvaluationSpec,
    PoolSettings,
    PoolSpec,
    RagSpec,
    ReaderExecution,
    ReaderSpec,
    Tier,
    evaluation_for,
)
from search_spaces.specs.execution import Execution, Precision
from search_spaces.specs.files import from_json, to_json
from search_spaces.specs.trainings import (
    LossDirections,
    ScaleSpec,
    Schedule,
    SimilaritySpec,
    TrainingSettings,
    ValidationSpec,
)
from search_spaces.specs.trials import MAX_SEED, FisherBlock, ProbeSpec, Task, TrialKind, TrialSpec

__all__ = [
    "INSTRUCTION",
    "MAX_SEED",
    "DataSpec",
    "EncoderSpec",
    "EvaluationSpec",
    "Execution",
    "FisherBlock",
    "LossDirections",
    "PoolSettings",
    "PoolSpec",
    "Precision",
    "ProbeSpec",
    "RagSpec",
    "ReaderExecution",
    "ReaderSpec",
    "ScaleSpec",
    "Schedule",
    "SimilaritySpec",
    "StartingEncoder",
    "Task",
    "Tier",
    "Towers",
    "TrainingSettings",
    "TrialKind",
    "TrialSpec",
    "ValidationSpec",
    "WeightsSpec",
    "evaluation_for",
    "from_json",
    "to_json",
    "with_data_hash",
]
