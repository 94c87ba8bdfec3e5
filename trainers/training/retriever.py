"""What is trained: the encoder and the exponents of the similarity."""

from torch import nn

from trainers.encoders.encoder import Encoder
from trainers.similarity import Gammas


class Retriever(nn.Module):
    """Encoder and exponents as one module: what has a gradient in it is what a training changes."""

    def __init__(self, encoder: Encoder, gammas: Gammas) -> None:
        super().__init__()
        self.encoder = encoder
        self.gammas = gammas
