"""An Accelerator for one trial, free of what earlier trials in the process or the environment would leave in it."""

from typing import Literal

from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import GradientAccumulationPlugin

from search_spaces.specs import Precision

_MIXED_PRECISION = {"fp32": "no", "bf16": "bf16"}


def fresh_accelerator(device: Literal["cpu", "gpu"], precision: Precision, *, num_devices: int = 1) -> Accelerator:
    """An Accelerator of the given precision, on this process's device.

    Raises:
        ValueError: there is no such device, or the process is not one of `num_devices` that were launched together.
    """
    # Accelerate's state is shared by all instances: a second one keeps the first one's precision (accelerate#2463).
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(
        cpu=device == "cpu",
        mixed_precision=_MIXED_PRECISION[precision],
        # ACCELERATE_GRADIENT_ACCUMULATION_STEPS would divide the loss, and only the plugin stands above it.
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
    )
    if accelerator.num_processes != num_devices:
        launched = f"was launched with {accelerator.num_processes}"
        raise ValueError(f"the trial's number of devices is {num_devices}, but this process {launched}")
    if (accelerator.device.type == "cpu") != (device == "cpu"):
        raise ValueError(f"the trial's device is '{device}', but torch finds only {accelerator.device.type} here")
    return accelerator
