"""What neither the schema of a RayJob nor an API server holds, and a cluster would only show by failing later.

KubeRay's controller checks some of it once the object is there (facts of its version 1.7), Kueue's webhook some, and
nobody the rest.
"""

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.kubernetes.cluster_rules import cluster_faults
from orchestrator.kubernetes.config_map import MAX_BYTES
from orchestrator.kubernetes.job_rules import Fault, job_faults
from orchestrator.kubernetes.pod_rules import pod_faults
from orchestrator.kubernetes.pods import Manifest


def violations(manifests: Sequence[Manifest]) -> list[str]:
    """What is wrong with the manifests of a sweep, one line each: object, field, what came, what to do."""
    return [f"{_title(manifest)}: {line}" for manifest in manifests for line in _lines(_faults(manifest, manifests))]


def _lines(faults: Iterable[Fault]) -> Iterator[str]:
    """What is wrong in the same way in several places is one line: most of it comes from one key of the file."""
    places: dict[str, list[str]] = {}
    for fault in faults:
        places.setdefault(fault.message, []).append(fault.field)
    for message, fields in places.items():
        others = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
        yield f"{fields[0]}{others}: {message}"


def _faults(manifest: Manifest, manifests: Sequence[Manifest]) -> Iterator[Fault]:
    if manifest.get("kind") == "ConfigMap":
        yield from _config_map_faults(manifest)
    if manifest.get("kind") == "RayJob":
        yield from job_faults(manifest)
        yield from cluster_faults(manifest)
        yield from pod_faults(manifest)
        yield from _reference_faults(manifest, manifests)


def _config_map_faults(manifest: Manifest) -> Iterator[Fault]:
    size = sum(len(text.encode()) for text in manifest.get("data", {}).values())
    if size > MAX_BYTES:
        message = f"{size} bytes, and a ConfigMap takes {MAX_BYTES} (make the sweep file shorter)"
        yield Fault(field="data", message=message)


def _reference_faults(job: Manifest, manifests: Sequence[Manifest]) -> Iterator[Fault]:
    """A ConfigMap that the head mounts and that is not applied with it, and objects in several namespaces."""
    given = {other["metadata"]["name"] for other in manifests if other.get("kind") == "ConfigMap"}
    spec = job.get("spec", {}).get("rayClusterSpec") or {}
    volumes = spec.get("headGroupSpec", {}).get("template", {}).get("spec", {}).get("volumes", [])
    for volume in volumes:
        if (name := volume.get("configMap", {}).get("name")) and given and name not in given:
            message = f"ConfigMap '{name}' is not among the manifests ({', '.join(sorted(given))})"
            yield Fault(field="spec.rayClusterSpec.headGroupSpec.template.spec.volumes", message=message)
    namespaces = {other["metadata"].get("namespace") for other in manifests}
    if len(namespaces) > 1:
        named = ", ".join(sorted(str(name) for name in namespaces))
        yield Fault(field="metadata.namespace", message=f"the manifests are in several namespaces: {named}")


def _title(manifest: Manifest) -> str:
    return f"{manifest.get('kind', 'object')} {manifest.get('metadata', {}).get('name', '')}"
