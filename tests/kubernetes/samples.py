"""The rendered samples of k8s/samples/: the demo with each shipped profile. `make samples` writes them anew."""

import re
from dataclasses import replace
from pathlib import Path

from orchestrator.kubernetes.manifest_files import as_yaml
from orchestrator.kubernetes.render import manifests
from orchestrator.kubernetes.settings import PROFILES, Versions, read_settings

PROJECT = Path(__file__).parents[2]
SAMPLES = PROJECT / "k8s" / "samples"
NAMES = tuple(sorted(path.stem for path in PROFILES.glob("*.yaml")))
_PINNED = re.search(r"^ray==(.*)$", (PROJECT / "constraints.txt").read_text(), flags=re.MULTILINE)[1]
_VERSIONS = Versions(densesweep="0.1.0", ray=_PINNED, python="3.11")  # whatever is installed here


def sample(profile):
    """The text of a sample: a line that says what it is, and what `densesweep k8s render` prints."""
    settings = read_settings(PROJECT / "search_spaces" / "demo.yaml", profile=profile)
    head = f"# densesweep k8s render search_spaces/demo.yaml --profile {profile}\n"
    return head + as_yaml(manifests(replace(settings, client=_VERSIONS)))


if __name__ == "__main__":
    SAMPLES.mkdir(exist_ok=True)
    for name in NAMES:
        (SAMPLES / f"{name}.yaml").write_text(sample(name))
