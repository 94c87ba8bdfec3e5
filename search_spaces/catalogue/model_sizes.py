"""How large the models of the catalogue are, for planning where their weights are not on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass

_BYTES_FP32, _BYTES_BF16 = 4, 2


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Parameters of a model: those of each of its layers, and all others, which are mostly embeddings."""

    num_layers: int
    parameters_per_layer: int
    other_parameters: int
    hidden_size: int

    def parameters_in_layers(self, layers: int | None) -> int:
        """Those of the first `layers` layers, None for all: what a token is multiplied by."""
        return self.parameters_per_layer * (self.num_layers if layers is None else min(layers, self.num_layers))

    def parameters(self, layers: int | None) -> int:
        """All of a model cut to its first `layers` layers."""
        return self.parameters_in_layers(layers) + self.other_parameters


@dataclass(frozen=True, kw_only=True)
class PublishedSize:
    """A model as it is published; `num_bytes` is about what is fetched of it, where that is known."""

    size: ModelSize | None
    num_bytes: int | None


# A layer: 4 hidden^2 of attention and 8 of feed-forward, with biases and two norms; others: 30,522 words, 512 places, 2
# segments, a norm, the pooler.
_BERT_BASE = ModelSize(
    num_layers=12, parameters_per_layer=7_087_872, other_parameters=23_837_184 + 590_592, hidden_size=768
)
# A layer: grouped attention (16 heads of 128, 8 of keys and values) and gated feed-forward of 3,072.
_QWEN3_LAYER = 15_730_944


def _bert() -> PublishedSize:
    return PublishedSize(size=_BERT_BASE, num_bytes=_BYTES_FP32 * _BERT_BASE.parameters(None))


def _qwen3(num_words: int) -> PublishedSize:
    size = ModelSize(
        num_layers=28, parameters_per_layer=_QWEN3_LAYER, other_parameters=1024 * num_words + 1024, hidden_size=1024
    )
    return PublishedSize(size=size, num_bytes=_BYTES_BF16 * size.parameters(None))


# By hub id. A reader is no encoder: of it only what is fetched is of interest.
PUBLISHED_SIZES: Mapping[str, PublishedSize] = {
    "google-bert/bert-base-uncased": _bert(),
    "facebook/contriever": _bert(),
    "Shitao/RetroMAE": _bert(),
    "intfloat/e5-base-unsupervised": _bert(),
    "Qwen/Qwen3-Embedding-0.6B": _qwen3(151_669),
    "Qwen/Qwen3-0.6B-Base": _qwen3(151_936),
    "google/flan-t5-large": PublishedSize(size=None, num_bytes=3_133_000_000),
}
