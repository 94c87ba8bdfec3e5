"""A corpus in the order in which a pass meets its texts: what a search of it counts by.

Shapes: N documents of the corpus, Q queries, K results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trainers.arrays import Indices
from trainers.evaluation.shared_texts import TextOrder
from trainers.search.order import tie_ranks


@dataclass(frozen=True, kw_only=True, eq=False)
class CorpusOrder:
    """The documents of a corpus as a pass meets them, which is the corpus's own order where no text stands twice.

    Attributes:
        text_N: which text each document is, ascending.
        position_N: where each document stands in the corpus.
        tie_rank_N: where each document stands among equal scores.
    """

    text_N: Indices
    position_N: Indices
    tie_rank_N: Indices

    @classmethod
    def of(cls, ids: pa.ChunkedArray, text_N: Indices) -> "CorpusOrder":
        """The order of a corpus of these ids, of whose documents `text_N` says which text each is."""
        position_N = np.argsort(text_N, kind="stable")
        return cls(text_N=text_N[position_N], position_N=position_N, tie_rank_N=tie_ranks(ids)[position_N])

    def __len__(self) -> int:
        return len(self.position_N)

    def of_texts(self, start: int, stop: int) -> slice:
        """The documents that have the texts from `start` to `stop`."""
        low, high = np.searchsorted(self.text_N, [start, stop])
        return slice(int(low), int(high))

    def places(self, positions: Sequence[Sequence[int]]) -> list[list[int]]:
        """Where documents that stand at these positions in the corpus stand here."""
        place_N = np.empty_like(self.position_N)
        place_N[self.position_N] = np.arange(len(place_N))
        return [place_N[list(some)].tolist() for some in positions]

    def in_corpus(self, place_QK: Indices) -> Indices:
        """Where documents that stand here at these places stand in the corpus; -1 for -1."""
        position_QK = self.position_N[place_QK.clip(min=0)] if len(self) else place_QK
        return np.where(place_QK < 0, place_QK, position_QK)


def corpus_orders(corpora: Sequence[pa.Table], order: TextOrder) -> list[CorpusOrder]:
    """Of each corpus its order. Data sets with one corpus (such as trec_dl_2019 and msmarco_dev) share one.

    Sorting the ids of millions of documents takes longer than comparing them, and its result more memory than they do.
    """
    found: list[CorpusOrder] = []
    for number, (corpus, text_N) in enumerate(zip(corpora, order.text_SN, strict=True)):
        same = (
            earlier
            for earlier in range(number)
            if order.text_SN[earlier] is text_N and corpora[earlier]["id"].equals(corpus["id"])
        )
        earlier = next(same, None)
        found.append(CorpusOrder.of(corpus["id"], text_N) if earlier is None else found[earlier])
    return found
