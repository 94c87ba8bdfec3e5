"""A corpus as a stream of blocks: raw embeddings, or what is kept of them on disk.

Shapes: D documents of a block, T of a tile, N of the corpus, H embedding size.
"""

from dataclasses import dataclass

import numpy as np
import torch

from trainers.arrays import AnyFloats, FloatMatrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Consecutive documents of a corpus. Blocks may come in any order.

    Attributes:
        first: the position of the first document in the corpus.
        vector_DH: raw embeddings, float32 or float16; unit directions where `norm_D` is given.
        norm_D: float32 norms of the raw embeddings, where directions and norms are kept apart.
    """

    first: int
    vector_DH: AnyFloats
    norm_D: FloatMatrix | None = None

    def __len__(self) -> int:
        return len(self.vector_DH)

    def raw(self, start: int, stop: int, room_TH: torch.Tensor) -> torch.Tensor:
        """Raw embeddings float32 [T, H] of some of the documents: as they lie in memory, or else written to `room_TH`.

        Raises:
            ValueError: the embeddings are of another precision.
        """
        # torch takes no read-only (memory-mapped) array without a warning, nor another byte order.
        tile_TH = np.require(self.vector_DH[start:stop], requirements=["C", "W"])
        if tile_TH.dtype not in (np.float32, np.float16):
            raise ValueError(f"embeddings are {tile_TH.dtype}; they must be float32 or float16")
        if tile_TH.dtype == np.float32 and self.norm_D is None:
            return torch.from_numpy(tile_TH)
        raw_TH = room_TH[: len(tile_TH)].copy_(torch.from_numpy(tile_TH))
        if self.norm_D is not None:
            raw_TH *= torch.from_numpy(np.array(self.norm_D[start:stop], np.float32))[:, None]
        return raw_TH
