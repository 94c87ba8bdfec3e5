"""The number of computing threads, set in one place for everything that computes.

torch's is the only OpenMP runtime that a trial loads: faiss, which may bring another one (faiss#3401), is the tests'
oracle and no part of the search. The variable OMP_NUM_THREADS only gives the number that torch starts with;
`set_threads` stands above it. A trial's result is the same to the last bit only under the same number of threads.
"""

import os


def set_threads(num_threads: int) -> None:
    """Let torch and the tokenizers each use `num_threads` threads in this process.

    The tokenizers' pool is fixed when they first work, so call this before the first text is tokenised.
    """
    if num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}; it must be at least 1")
    os.environ["RAYON_NUM_THREADS"] = str(num_threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if num_threads > 1 else "false"
    import torch

    torch.set_num_threads(num_threads)
