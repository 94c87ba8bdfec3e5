"""What is trained: the encoder and the exponents of the similarity. Shapes as in `trainers.encoder`."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from trainers.encoder import Encoder
from trainers.similarity import Gammas


class Tokens(NamedTuple):
    """Padded texts: int64 [B, T] each."""

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> "Tokens":
        """The same on another device."""
        return Tokens(self.input_ids.to(device), self.attention_mask.to(device))


class Texts(NamedTuple):
    """One side of a batch in chunks of similar length, so that few tokens are pads; the batch itself stays random.

    `place` [B] says where each text of the batch stands among the chunks' texts.
    """

    chunks: tuple[Tokens, ...]
    place: Tensor

    def to(self, device: torch.device) -> "Texts":
        """The same on another device."""
        return Texts(tuple(chunk.to(device) for chunk in self.chunks), self.place.to(device))


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

    def forward(self, query: Texts, document: Texts) -> Embedded:
        """Embed both sides of a batch."""
        return Embedded(self._embed(query), self._embed(document), *self.gammas.values())

    def _embed(self, texts: Texts) -> Tensor:
        return torch.cat([self.encoder(*chunk) for chunk in texts.chunks])[texts.place]
