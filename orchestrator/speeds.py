"""How fast trainings go: as finished trials of the sweep folder measured it, else as a device's arithmetic allows.

A token costs 2 floating-point operations for each parameter of the layers in the forward pass, and 4 in the backward
pass (arXiv 2001.08361, section 2.1); attention's scores and embeddings are left out.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.catalogue.model_sizes import ModelSize
from search_spaces.specs import Precision, TrialSpec, from_json

FORWARD, TRAINING = 2, 6  # operations for each parameter and token
# Dense operations a second by NVIDIA's data sheets, float32 without TF32, bfloat16 (of those without it, float16).
_GPUS = {
    "H200": (67e12, 989e12),
    "H100": (67e12, 989e12),
    "A100": (19.5e12, 312e12),
    "L40": (91e12, 181e12),
    "L4": (30e12, 121e12),
    "A10": (31e12, 125e12),
    "V100": (15.7e12, 125e12),
    "T4": (8.1e12, 65e12),
}
_UNKNOWN_GPU = "A100"
_REACHED = {"fp32": 0.6, "bf16": 0.35}  # the share of it that trainings of encoders reach
# One thread of a present CPU (docs/performance.md: 100 and 200 GFLOP/s of matmuls, which are 7 tenths of the time).
_CPU_THREAD = {"fp32": 7e10, "bf16": 1.2e11}


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A speed, in words what it is known by, and whether it was measured under the sweep's own share of a device."""

    value: float
    basis: str
    is_measured: bool


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A speed that a finished trial had, and the kind of GPU that it had it on; None on CPUs."""

    value: float
    gpu: str | None


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """What is known: pairs a second by shape of a training, operations a second by device and precision.

    `gpu` is the kind of GPU that trials are to run on; what was measured on another kind says nothing of it. Where it
    is not known, all that was measured counts.
    """

    pairs_per_s: Mapping[tuple[Any, ...], Sequence[_Measured]]
    flops_per_s: Mapping[tuple[str, str], Sequence[_Measured]]
    gpu: str | None

    def of_shape(self, spec: TrialSpec) -> Speed | None:
        """Pairs a second of finished trials of the same shape: model, lengths, data, batch and device."""
        found = self._alike(self.pairs_per_s.get(_shape(spec), ()))
        if not found:
            return None
        return Speed(
            value=statistics.median(measured.value for measured in found),
            basis=f"measured by {_trials(found)} of the same shape",
            is_measured=True,
        )

    def _alike(self, found: Sequence[_Measured]) -> Sequence[_Measured]:
        """Of some speeds those of the kind of GPU that trials are to run on."""
        wanted = kind_of_gpu(self.gpu)
        return [measured for measured in found if None in (wanted, measured.gpu) or measured.gpu == wanted]

    def flops(self, spec: TrialSpec, precision: Precision) -> Speed:
        """Operations a second of all devices of a trial together."""
        device = spec.execution.device
        if found := self._alike(self.flops_per_s.get((device, precision), ())):
            each = statistics.median(measured.value for measured in found)
            basis = f"by FLOPs, from the measured speed of {_trials(found)} of other shapes"
            return Speed(value=each * _units(spec), basis=basis, is_measured=True)
        if device == "cpu":
            each = _CPU_THREAD[precision]
            basis = f"by FLOPs, for {each / 1e9:.0f} GFLOP/s a CPU thread: no {precision} training is measured yet"
            return Speed(value=each * _units(spec), basis=basis, is_measured=False)
        name = kind_of_gpu(self.gpu)
        peak = _GPUS[name if name in _GPUS else _UNKNOWN_GPU][precision == "bf16"]
        what = name if name in _GPUS else f"{_UNKNOWN_GPU}, since the kind of GPU is not known"
        reached = f"{_REACHED[precision]:.0%} of the {precision} peak of one {what}"
        on_it = " on one" if self.flops_per_s.get((device, precision)) else ""
        basis = f"by FLOPs, for {reached}: no {precision} training is measured{on_it} yet"
        return Speed(value=_REACHED[precision] * peak * _units(spec), basis=basis, is_measured=False)


def speeds(rows: Iterable[Mapping[str, Any]], sizes: Mapping[str, ModelSize | None], gpu: str | None) -> Speeds:
    """What finished trials measured.

    Args:
        rows: their rows, of the schema TRIALS.
        sizes: of each source of weights the size of the model.
        gpu: the kind of GPU that trials are to run on, None where it is not known.
    """
    by_shape: dict[tuple[Any, ...], list[_Measured]] = {}
    by_device: dict[tuple[str, str], list[_Measured]] = {}
    for row in rows:
        if row["pairs_per_s"] is None:
            continue
        spec = from_json(TrialSpec, row["spec_json"])
        on = _gpu_of(row) if spec.execution.device == "gpu" else None
        by_shape.setdefault(_shape(spec), []).append(_Measured(value=row["pairs_per_s"], gpu=on))
        size = sizes.get(spec.encoder.weights.source)
        if size and spec.training:
            flops = TRAINING * size.parameters_in_layers(spec.encoder.layers) * row["tokens_per_s"]
            key = (spec.execution.device, spec.training.precision)
            by_device.setdefault(key, []).append(_Measured(value=flops / _units(spec), gpu=on))
    return Speeds(pairs_per_s=by_shape, flops_per_s=by_device, gpu=gpu)


def kind_of_gpu(name: str | None) -> str | None:
    """What kind a driver's or Ray's name of a GPU means: 'A100' of 'NVIDIA A100-SXM4-80GB'; itself where unknown."""
    upper = name.upper() if name else ""
    return next((known for known in _GPUS if known in upper), upper or None)


def _gpu_of(row: Mapping[str, Any]) -> str | None:
    """The kind of GPU that a trial was trained on, as its provenance names it."""
    accelerators = json.loads(row["provenance_json"]).get("accelerators", ())
    return kind_of_gpu(next(iter(accelerators), None))


def _units(spec: TrialSpec) -> int:
    """Over what a speed is shared: the devices of a trial, or their threads."""
    execution = spec.execution
    return execution.num_devices * (execution.threads if execution.device == "cpu" else 1)


def _shape(spec: TrialSpec) -> tuple[Any, ...]:
    """What decides how long a pair takes."""
    encoder, settings, execution = spec.encoder, spec.training, spec.execution
    assert settings is not None, "what was trained has settings"
    return (
        *(encoder.family, encoder.layers, encoder.towers, encoder.max_query_length, encoder.max_document_length),
        spec.training_data and spec.training_data.name,
        *(settings.global_batch, settings.hard_negatives, settings.precision, settings.lora_rank is None),
        *(execution.device, execution.num_devices, execution.threads),
    )


def _trials(found: Sequence[_Measured]) -> str:
    kinds = sorted({measured.gpu for measured in found if measured.gpu})
    on = f" on {' and '.join(kinds)}" if kinds else ""
    return ("1 finished trial" if len(found) == 1 else f"{len(found)} finished trials") + on
