"""Under which conditions figures were measured."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("torch", "transformers", "sentence-transformers")
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # what decides how fast float32 and bfloat16 matmuls are


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine, its load in processes (mean of the last minute), and the versions of what computes."""

    processor: str
    flags: tuple[str, ...]
    num_cores: int
    load: float
    versions: dict[str, str]

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        processor = f"{self.processor} ({' '.join(self.flags)})"
        return f"{processor}, {self.num_cores} cores, load {self.load:.1f}, {versions}"


def environment() -> Environment:
    """Those of this moment."""
    model, flags = _processor()
    versions = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    return Environment(
        processor=model,
        flags=tuple(flag for flag in _FLAGS if flag in flags),
        num_cores=os.cpu_count() or 1,
        load=os.getloadavg()[0],
        versions=versions,
    )


def _processor() -> tuple[str, set[str]]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine(), set()
    fields = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    return fields.get("model name", platform.machine()), set(fields.get("flags", "").split())
