"""Why a trial failed, in one line for people."""

import torch

from results.room import OutOfSpaceError
from search_spaces.problems import InputError
from trainers.training.stepping import DivergedError

# What changes no result comes first.
REMEDY = (
    "give each trial more memory (resources.memory, fewer at_once) or let it hold less at a time "
    "(resources.chunk_size); precision bf16, shorter texts and a smaller global_batch help too, but change results"
)
_OUT_OF_MEMORY = (
    "out of memory",  # CUDA and cuBLAS
    "can't allocate memory",  # torch's allocator of the CPU
    "could not create a primitive",  # oneDNN, which does not say why; what it cannot do at all is not asked of it
)


def reason_of(error: Exception) -> str:
    """One line: what diverged, 'out of memory: ...' with what helps, or the error with its kind."""
    text = " ".join(str(error).split())
    if is_out_of_memory(error):
        return f"out of memory: {text or 'Python could not allocate more'}; {REMEDY}"
    if isinstance(error, DivergedError | InputError | OutOfSpaceError):  # their messages say all
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory of the host or of a device ran out; torch raises a bare RuntimeError for the host's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
