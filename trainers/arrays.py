"""What numpy arrays hold, by name: one place for the types that several modules write. Imports no torch."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatMatrix = npt.NDArray[np.float32]  # embeddings, norms
HalfMatrix = npt.NDArray[np.float16]
AnyFloats = npt.NDArray[np.floating[Any]]  # float32 or float16, in memory or mapped
Scores = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]  # rows, positions in a corpus, places in an order; -1 for none
Keys = npt.NDArray[np.int64]  # rank keys, which sort as a ranking (`trainers.search.order`)
