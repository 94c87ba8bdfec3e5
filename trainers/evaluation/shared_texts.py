"""Which corpora share passages, and the one order in which all their different texts are encoded. Imports no torch.

Shapes: S corpora, N documents of one, A of all different corpora one after the other, U different texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trainers.arrays import Indices
from trainers.data_sets.rows import take_rows
from trainers.evaluation.text_hashes import Hashes, texts_of

WORTH_SHARING = 0.05  # of the smaller corpus's texts; where fewer are shared, data sets are done one after the other
_EXACT_TEXTS = 1_000_000  # together; of more, one in 16 tells how many are shared
_SAMPLED = np.uint64(16)


@dataclass(frozen=True, kw_only=True, eq=False)
class TextOrder:
    """The different texts of several corpora in the order in which they are first met, corpus after corpus.

    Attributes:
        different: which corpora repeat no earlier one as a whole.
        begin: where each of those begins among the documents of all of them.
        first_U: where each text stands first among those.
        text_SN: for each corpus, repeated ones too, which text each of its documents is.
    """

    different: Sequence[int]
    begin: Sequence[int]
    first_U: Indices
    text_SN: Sequence[Indices]

    def __len__(self) -> int:
        return len(self.first_U)

    def texts(self, corpora: Sequence[pa.Table], start: int, stop: int) -> list[str]:
        """The texts from `start` to `stop`, read where they stand first in the corpora."""
        first = self.first_U[start:stop]
        texts: list[str] = []
        for corpus, begin, end in zip(self.different, self.begin, [*self.begin[1:], None], strict=True):
            low, high = np.searchsorted(first, begin), len(first) if end is None else np.searchsorted(first, end)
            texts += texts_of(take_rows(corpora[corpus], first[low:high] - begin))
        return texts


def text_order(hashes: Sequence[Hashes]) -> TextOrder:
    """The order of the texts that have these hashes. A corpus that repeats another one takes no memory of its own."""
    same_as = [_first_equal(hashes, corpus) for corpus in range(len(hashes))]
    different = list(dict.fromkeys(same_as))
    begin = np.cumsum([0, *(len(hashes[corpus]) for corpus in different)]).tolist()
    first_U, text_A = _numbered(np.concatenate([hashes[corpus] for corpus in different]))
    parts = {corpus: text_A[begin[i] : begin[i + 1]] for i, corpus in enumerate(different)}
    return TextOrder(
        different=different, begin=begin[:-1], first_U=first_U, text_SN=[parts[corpus] for corpus in same_as]
    )


def sharing_groups(hashes: Sequence[Hashes]) -> list[list[int]]:
    """The corpora in groups, in their order: whichever shares enough passages with one of a group is in it."""
    samples = _samples(hashes)
    group = list(range(len(hashes)))
    for later in range(len(hashes)):
        for earlier in range(later):
            if group[earlier] != group[later] and _is_worth_sharing(samples[earlier], samples[later]):
                joined = sorted((group[earlier], group[later]))
                group = [joined[0] if number == joined[1] else number for number in group]
    return [[corpus for corpus, of in enumerate(group) if of == number] for number in sorted(set(group))]


def _first_equal(hashes: Sequence[Hashes], corpus: int) -> int:
    return next(earlier for earlier in range(corpus + 1) if np.array_equal(hashes[earlier], hashes[corpus]))


def _numbered(hash_A2: Hashes) -> tuple[Indices, Indices]:
    """(where each different hash stands first [U], which of those each one is [A])."""
    order_A = np.lexsort((hash_A2[:, 1], hash_A2[:, 0]))  # stable: equal ones keep their order
    is_new_A = np.zeros(len(order_A), dtype=bool)
    is_new_A[:1] = True
    for half in range(2):
        sorted_A = hash_A2[order_A, half]
        is_new_A[1:] |= sorted_A[1:] != sorted_A[:-1]
    first_of_group = order_A[is_new_A]
    first_U = np.sort(first_of_group)
    text_A = np.empty(len(order_A), dtype=np.int64)
    text_A[order_A] = np.searchsorted(first_U, first_of_group)[np.cumsum(is_new_A) - 1]
    return first_U, text_A


def _samples(hashes: Sequence[Hashes]) -> list[npt.NDArray[np.uint64]]:
    """The first halves of different hashes, sorted; the same texts of each corpus, chosen by their hash."""
    keep_all = sum(map(len, hashes)) <= _EXACT_TEXTS
    halves = (hash_N2[:, 0] for hash_N2 in hashes)
    return [np.unique(half if keep_all else half[half % _SAMPLED == 0]) for half in halves]


def _is_worth_sharing(one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> bool:
    smaller = min(len(one), len(other))
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared > 0 and shared >= WORTH_SHARING * smaller
