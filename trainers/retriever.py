"""What is trained: the encoder and the exponents of the similarity. Shapes as in `trainers.encoder`."""

from typing import NamedTuple

from torch import Tensor, nn

from trainers.encoder import Encoder
from trainers.similarity import Gammas


class Tokens(NamedTuple):
    """Padded texts of one side: int64 [B, T] each."""

    input_ids: Tensor
    attention_mask: Tensor


class Embedded(NamedTuple):
    """Raw float32 embeddings of a batch, and the exponents to score them with."""

    query: Tensor  # [Q, H]
    document: Tensor  # [D, H]
    gamma_q: Tensor
    gamma_d: Tensor


class Retriever(nn.Module):
    """Encoder and exponents as one module.

    One forward per step takes both sides and yields everything that has a gradient, as data parallelism needs it.
    """

    def __init__(self, encoder: Encoder, gammas: Gammas) -> None:
        super().__init__()
        self.encoder = encoder
        self.gammas = gammas

    def forward(self, query: Tokens, document: Tokens) -> Embedded:
        """Embed both sides of a batch."""
        return Embedded(self.encoder(*query), self.encoder(*document), *self.gammas.values())
