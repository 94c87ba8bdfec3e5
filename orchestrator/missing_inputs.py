"""What weights and data of a sweep are not on this machine, how large they are, and how to come by them.

Fetches nothing. Only what is on a hub counts: a local folder that is not there is a fault of the file.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.model_sizes import PUBLISHED_SIZES
from search_spaces.catalogue.sources import parse_source
from search_spaces.declared import Declared
from search_spaces.expand import named_data, used_checkpoints
from search_spaces.problems import InputError
from search_spaces.schema import SweepFile
from search_spaces.specs import WeightsSpec
from trainers import weights
from trainers.data_sets.availability import availability
from trainers.data_sets.hub_files import is_hub
from trainers.hub import nothing_fetched
from trainers.weights.hub_weights import fetch_command


@dataclass(frozen=True, kw_only=True)
class MissingInput:
    """Weights or a data set that a sweep needs. `num_bytes` is about how large, None where that is not known.

    Attributes:
        kind: weights, the weights of a reader, or data.
        name: the source of weights, the name of a data set.
        source: where it is fetched from; what has one source is there once.
        num_bytes: about what is fetched.
        reason: what is wrong, in one line.
        command: what fetches it, where the hub can be reached; None where it is here, and `reason` says what to do.
    """

    kind: Literal["weights", "reader", "data"]
    name: str
    source: str
    num_bytes: int | None
    reason: str
    command: str | None


@dataclass(frozen=True, kw_only=True)
class Needed:
    """Sources of weights and names of data sets that a part of a sweep reads, and whether it reads its `reader`."""

    weights: frozenset[str]
    data: frozenset[str]
    reader: bool = True

    def includes(self, found: MissingInput) -> bool:
        """Whether it is among them."""
        if found.kind == "reader":
            return self.reader
        return found.name in (self.data if found.kind == "data" else self.weights)


@dataclass(frozen=True, kw_only=True)
class MissingInputs:
    """All that is missing of a sweep."""

    inputs: tuple[MissingInput, ...] = ()

    @property
    def num_bytes(self) -> int:
        """About how much there is to fetch, of what its size is known of."""
        return sum({found.source: found.num_bytes or 0 for found in self.inputs}.values())

    def of(self, needed: Needed) -> "MissingInputs":
        """Those that a part of the sweep needs."""
        return MissingInputs(inputs=tuple(found for found in self.inputs if needed.includes(found)))

    def but(self, needed: Needed) -> "MissingInputs":
        """Those that it does not need."""
        return MissingInputs(inputs=tuple(found for found in self.inputs if not needed.includes(found)))

    def has_weights(self, spec: WeightsSpec) -> bool:
        """Whether weights are missing."""
        return any(found.kind != "data" and found.name == spec.source for found in self.inputs)

    def has_data(self, entry: DataSet) -> bool:
        """Whether a data set is missing."""
        return any(found.kind == "data" and found.name == entry.name for found in self.inputs)


def missing_inputs(sweep: SweepFile) -> MissingInputs:
    """What is missing of the weights and data that a sweep file names."""
    declared = Declared.by(sweep)
    checkpoints = [declared.families[name].checkpoint(role) for name, role in used_checkpoints(sweep)]
    encoders = [
        WeightsSpec(source=c.source, gguf_file=c.gguf_file, remote_code=c.remote_code) for c in checkpoints if c
    ]
    rag = sweep.evaluation.rag
    readers = [WeightsSpec(source=rag.reader.source, gguf_file=rag.reader.gguf_file)] if rag else []
    entries = dict.fromkeys(data.entry for data in named_data(sweep))
    return MissingInputs(
        inputs=(
            *_missing_weights(encoders, "weights"),
            *_missing_weights(readers, "reader"),
            *filter(None, map(_missing_data, entries)),
        )
    )


def _missing_weights(specs: Iterable[WeightsSpec], kind: Literal["weights", "reader"]) -> Iterable[MissingInput]:
    for spec in dict.fromkeys(specs):
        source = parse_source(spec.source)
        if source.scheme != "hf":
            continue
        if missing := _missing(spec, kind, fetch_command(source)):
            yield missing


def _missing(spec: WeightsSpec, kind: Literal["weights", "reader"], command: str) -> MissingInput | None:
    published = PUBLISHED_SIZES.get(parse_source(spec.source).location)
    num_bytes = published.num_bytes if published else None
    try:
        with nothing_fetched():
            weights.source_folder(spec)
    except InputError:
        reason = "not in the local Hugging Face cache, or not whole"
        return MissingInput(
            kind=kind, name=spec.source, source=spec.source, num_bytes=num_bytes, reason=reason, command=command
        )
    try:
        with nothing_fetched():
            weights.locate(spec)
    except (
        InputError
    ) as error:  # what is there cannot be used yet, and the message says what to do: it was pickled, say
        reason = "; ".join(problem.message for problem in error.problems)
        return MissingInput(
            kind=kind, name=spec.source, source=spec.source, num_bytes=None, reason=reason, command=None
        )
    return None


def _missing_data(entry: DataSet) -> MissingInput | None:
    if not is_hub(entry) or (found := availability(entry)).state != "missing":
        return None
    return MissingInput(
        kind="data",
        name=entry.name,
        source=" ".join(filter(None, (entry.corpus_source or entry.source, entry.config))),
        num_bytes=entry.size_bytes,
        reason=f"lacking {', '.join(found.lacking)}",
        command=f"densesweep data fetch {entry.name}",
    )
