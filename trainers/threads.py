"""The number of computing threads, set in one place for everything that computes.

torch and faiss bring an OpenMP runtime each (faiss#3401), with a pool each; torch is imported first. The variable
OMP_NUM_THREADS only gives the number both start with; `set_threads` stands above it. A trial's result is the same to
the last bit only under the same number of threads.
"""

import os


def set_threads(num_threads: int) -> None:
    """Let torch, faiss and the tokenizers each use `num_threads` threads in this process.

    The tokenizers' pool is fixed when they first work, so call this before the first text is tokenised.
    """
    if num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}; it must be at least 1")
    os.environ["RAYON_NUM_THREADS"] = str(num_threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if num_threads > 1 else "false"
    import torch

    torch.set_num_threads(num_threads)
    import faiss

    faiss.omp_set_num_threads(num_threads)
