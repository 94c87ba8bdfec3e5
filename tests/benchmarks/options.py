"""What can be asked of a benchmark."""

from dataclasses import dataclass

from search_spaces.specs import Precision


@dataclass(frozen=True, kw_only=True)
class Options:
    """The same for all benchmarks; each reads what concerns it.

    Attributes:
        data: names of data sets.
        batches: pairs in an optimiser step.
        precisions: 'fp32' or 'bf16'.
        threads: computing threads of each contestant; of the first case, where a benchmark runs several.
        all_threads: those of each case.
        rounds: how many blocks of each contestant are compared.
        steps: optimiser steps of a block.
        check: whether losses are compared first.
        trials: of each sweep whose overhead is measured.
        replicates: of a simulation on real embeddings.
    """

    data: tuple[str, ...]
    batches: tuple[int, ...]
    precisions: tuple[Precision, ...]
    threads: int
    all_threads: tuple[int, ...]
    rounds: int
    steps: int
    check: bool
    trials: tuple[int, ...] = (20, 200)
    replicates: int = 200
