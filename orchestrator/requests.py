"""What one process is given, as Ray counts it, and what a cluster lacks for it. Imports no framework."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from search_spaces.schema import ProbeResourcesBlock, ResourcesBlock

_KIND = "accelerator_type:"  # Ray's resource for a kind of GPU: each node that has one holds 1 of it
_OF_A_KIND = 0.001  # what asks for the kind takes so little of it that it never runs out

Node = Mapping[str, float]  # all that a node has, by the names of Ray's resources


@dataclass(frozen=True, kw_only=True)
class Request:
    """CPUs, GPUs (whole ones or 1/k of one), memory and the kind of GPU for one process."""

    cpus: float
    gpus: float = 0
    memory_bytes: int | None = None
    accelerator_type: str | None = None

    @property
    def bundle(self) -> dict[str, float]:
        """By the names of Ray's resources."""
        kind = {f"{_KIND}{self.accelerator_type}": _OF_A_KIND} if self.accelerator_type else {}
        memory = {"memory": float(self.memory_bytes)} if self.memory_bytes else {}
        return {"CPU": float(self.cpus), **({"GPU": float(self.gpus)} if self.gpus else {}), **memory, **kind}

    @property
    def options(self) -> dict[str, object]:
        """As `ray.remote` takes them."""
        named = {"num_cpus": self.cpus, "num_gpus": self.gpus, "memory": self.memory_bytes}
        given = {name: value for name, value in named.items() if value is not None}
        return {**given, **({"accelerator_type": self.accelerator_type} if self.accelerator_type else {})}

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}"]
        if self.gpus:
            kind = f" ({self.accelerator_type})" if self.accelerator_type else ""
            parts.append(f"{self.gpus:g} GPU{'s' * (self.gpus != 1)}{kind}")
        if self.memory_bytes:
            parts.append(f"{_gib(self.memory_bytes)} of memory")
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def request_of(resources: ResourcesBlock) -> Request:
    """What the file asks for one process of a trial."""
    return Request(
        cpus=resources.cpus,
        gpus=resources.gpus,
        memory_bytes=resources.memory,
        accelerator_type=resources.accelerator_type,
    )


def request_of_probe(probe: ProbeResourcesBlock, resources: ResourcesBlock) -> Request:
    """What the file asks for a probe: its own CPUs and GPUs, all else as a trial."""
    cpus, gpus = probe.cpus_of(resources), probe.gpus_of(resources)
    return replace(
        request_of(resources), cpus=cpus, gpus=gpus, accelerator_type=resources.accelerator_type if gpus else None
    )


def lacking(nodes: Sequence[Node], request: Request, *, num_processes: int = 1) -> str | None:
    """Why so many processes of one trial can never be placed on these nodes, in one line; None where they can.

    A process is on one node; those of one trial may be on several.
    """
    if sum(_places(node, request) for node in nodes) >= num_processes:
        return None
    if num_processes == 1:
        asked, where = f"{request} on one node", "no node has"
    else:
        asked, where = f"{request} for each of {num_processes} processes", "the nodes have no room for"
    return f"a trial needs {asked}, but {where} that: {_what_there_is(nodes, request)}"


def groups_at_once(
    nodes: Sequence[Node], request: Request, *, num_processes: int, at_once: int | None, foreseen: int | None = None
) -> int:
    """How many trials of so many processes begin side by side, at least 1: what never fits is told elsewhere.

    As many as fit, or as will fit (`foreseen`) once nodes have come, which only come for what waits for them.
    """
    fits = max(sum(_places(node, request) for node in nodes) // num_processes, foreseen or 0)
    return max(1, min(fits, at_once) if at_once else fits)


def _places(node: Node, request: Request) -> int:
    """How many such processes the node has room for, were it empty."""
    # Ray counts in ten-thousandths, so that three times 0.3333 of a GPU fit on one.
    return min(int(node.get(name, 0) / each + 1e-6) for name, each in request.bundle.items())


def _what_there_is(nodes: Sequence[Node], request: Request) -> str:
    """Each different node once: '2 nodes with 2 CPUs and no GPU'."""
    if not nodes:
        return "there are no nodes"
    counted: dict[str, int] = {}
    for node in nodes:
        text = _shown(node, request)
        counted[text] = counted.get(text, 0) + 1
    return "; ".join(f"{number} node{'s' * (number > 1)} with {text}" for text, number in sorted(counted.items()))


def _shown(node: Node, request: Request) -> str:
    parts = [f"{node.get('CPU', 0):g} CPU{'s' * (node.get('CPU', 0) != 1)}"]
    if request.gpus:
        gpus, kinds = node.get("GPU", 0), [name.removeprefix(_KIND) for name in node if name.startswith(_KIND)]
        kind = f" ({', '.join(sorted(kinds))})" if gpus and kinds else ""
        parts.append(f"{gpus:g} GPU{'s' * (gpus != 1)}{kind}" if gpus else "no GPU")
    if request.memory_bytes:
        parts.append(f"{_gib(node.get('memory', 0))} of memory")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _gib(number_of_bytes: float) -> str:
    return f"{number_of_bytes / 2**30:.1f} GiB"
