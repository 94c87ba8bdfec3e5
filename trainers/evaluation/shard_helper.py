"""What a process does that helps a trial to evaluate: load the same checkpoint and data sets, then single shards.

Embeddings are equal to the last bit only on equal hardware and threads, so other hardware is no help.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from results.layout import checkpoint_prefix
from results.store import Store
from trainers.arrays import FloatMatrix
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
from trainers.evaluation.corpus_pass import ShardSearch
from trainers.evaluation.evaluated_group import EvaluatedGroup
from trainers.evaluation.evaluations import Wanted
from trainers.provenance import provenance
from trainers.threads import set_threads

Device = Literal["cpu", "gpu"]


class OtherHardwareError(RuntimeError):
    """This process would give embeddings that differ from the trial's in the last bits."""


class OtherOrderError(RuntimeError):
    """This process has the rows of the data sets in another order: its shards and positions are not the trial's."""


@dataclass(frozen=True, kw_only=True)
class Helped:
    """The trial that is helped, and what it encodes on."""

    trial_id: str
    device: Device
    threads: int
    hardware: str


def hardware(device: Device) -> str:
    """What computes in this process, as far as it decides the last bits."""
    import torch

    if device == "gpu":
        return torch.cuda.get_device_name()
    return f"{provenance().cpu_model}, {torch.backends.cpu.get_cpu_capability()}"


def open_shard_search(
    helped: Helped,
    wanted: Wanted,
    order: str,
    query_SQH: Sequence[FloatMatrix],
    *,
    shard_texts: int,
    store: Store,
    verify: Callable[[], None],
) -> ShardSearch:
    """Make ready to do shards, of so many texts, of the pass over the data sets of `wanted`, whose queries these are.

    `order` is the `order_digest` of the group that makes the pass.

    Raises:
        OtherHardwareError: the trial encodes on another kind.
        OtherOrderError: the data sets were built here with their rows in another order.
        Exception: whatever keeps a checkpoint or a data set from being loaded.
    """
    set_threads(helped.threads)
    if (found := hardware(helped.device)) != helped.hardware:
        raise OtherHardwareError(f"the trial encodes on {helped.hardware}, this is {found}")
    device = "cuda" if helped.device == "gpu" else "cpu"
    with store.get_folder(checkpoint_prefix(helped.trial_id)) as folder:
        encoder = load_checkpoint(folder).encoder.to(device)
        group = EvaluatedGroup(checkpoint_hash(folder), wanted, store=store, verify=verify)
    if group.order_digest != order:
        names = ", ".join(dict.fromkeys(evaluation.data.name for evaluation in wanted))
        raise OtherOrderError(
            f"the rows of {names} are in another order here than where the trial runs (or this is another version of "
            f"densesweep): they were built apart, from files in other orders; share one cache folder, or delete "
            f"the built data sets here"
        )
    return group.shard_search(encoder, query_SQH, shard_texts)
