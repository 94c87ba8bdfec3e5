"""What a trial reads must still be what was planned: its identity, and so its results' place, says which that was."""

from search_spaces.specs import DataSpec, TrialSpec, WeightsSpec
from trainers import data_sets
from trainers.weights import content_hash


def check_as_planned(spec: TrialSpec) -> None:
    """Hold the content of weights and training data against the hashes of the spec.

    Raises:
        InputError: they cannot be read.
        ValueError: they changed since the sweep was planned.
    """
    check_weights(spec.encoder.weights)
    if spec.training_data:
        _check_data(spec.training_data)


def check_weights(weights: WeightsSpec) -> None:
    """`check_as_planned` of weights alone."""
    found = content_hash(weights)
    if found != weights.content_hash:
        raise ValueError(_changed(f"the weights of {weights.source}", found, weights.content_hash))


def _check_data(data: DataSpec) -> None:
    found = data_sets.fingerprint(data.entry, data.split).content_hash
    if found != data.content_hash:
        raise ValueError(_changed(f"split '{data.split}' of data set '{data.name}'", found, data.content_hash))


def _changed(what: str, found: str, planned: str | None) -> str:
    return f"{what} changed: the content hash is {found}, and {planned} was planned; run the sweep again"
