"""How nodes that can be taken back at any time are known, by whose they are."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SpotNodes:
    """The label that such nodes have, and whether a taint of the same key and value keeps other pods off them."""

    key: str
    value: str
    tainted: bool

    @property
    def node_selector(self) -> dict[str, str]:
        """What places a pod on them."""
        return {self.key: self.value}

    @property
    def tolerations(self) -> tuple[dict[str, str], ...]:
        """What lets a pod stay on them."""
        toleration = {"key": self.key, "operator": "Equal", "value": self.value, "effect": "NoSchedule"}
        return (toleration,) if self.tainted else ()


SPOT_NODES: Mapping[str, SpotNodes] = {
    "aks": SpotNodes(key="kubernetes.azure.com/scalesetpriority", value="spot", tainted=True),
    "eks": SpotNodes(key="eks.amazonaws.com/capacityType", value="SPOT", tainted=False),
    "gke": SpotNodes(key="cloud.google.com/gke-spot", value="true", tainted=True),
    "karpenter": SpotNodes(key="karpenter.sh/capacity-type", value="spot", tainted=False),
}
