"""On what trials and probes run, how they fit there, and in which precision they compute."""

from dataclasses import dataclass
from typing import Literal

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """On what a trial or probe runs, and how it fits: no part of an identity.

    `threads` and `device` are those of each of its `num_devices` processes. `chunk_size`: the graphs of how many
    texts of a batch are held at a time (GradCache, arXiv 2101.06983), at least one chunk's; 'auto' holds as many as fit
    the memory, None all. It changes no bit of a training.
    """

    threads: int = 1
    device: Literal["cpu", "gpu"] = "cpu"
    num_devices: int = 1
    chunk_size: int | Literal["auto"] | None = "auto"
    torch_compile: bool = False
