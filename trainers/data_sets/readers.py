"""The readers by name: how a source becomes a collection, and what decides what it holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from search_spaces.catalogue.data_sets import DataSet, Reader
from trainers.data_sets import (
    attack,
    beir,
    bright,
    hub_retrieval,
    jsonl,
    ms_marco,
    multi_hop,
    open_qa,
    pydoc,
    sts,
    tevatron,
)
from trainers.data_sets.collection import Absent, Collection
from trainers.data_sets.faults import Faults


@dataclass(frozen=True, kw_only=True)
class CollectionReader:
    """How one kind of source is read.

    `version` is raised by hand when the same source no longer gives the same collection. `inputs` says, cheaply, what
    the collection depends on outside the entry: when it changes, the collection is built anew. `read` builds it, and
    notes in its second argument what is wrong with it. `absent` says whether judged documents that the corpus does not
    have are a fault, or known of the benchmarks that it reads.
    """

    version: int
    inputs: Callable[[DataSet], list[str]]
    read: Callable[[DataSet, Faults], Collection]
    absent: Absent = "fault"


READERS: Mapping[Reader, CollectionReader] = {
    "beir": CollectionReader(version=beir.VERSION, inputs=beir.inputs, read=beir.read),
    "attack": CollectionReader(version=attack.VERSION, inputs=attack.inputs, read=attack.read),
    "pydoc": CollectionReader(version=pydoc.VERSION, inputs=pydoc.inputs, read=pydoc.read),
    "sts": CollectionReader(version=sts.VERSION, inputs=sts.inputs, read=sts.read),
    "jsonl": CollectionReader(version=jsonl.VERSION, inputs=jsonl.inputs, read=jsonl.read),
    "ms_marco": CollectionReader(version=ms_marco.VERSION, inputs=ms_marco.inputs, read=ms_marco.read),
    "tevatron": CollectionReader(version=tevatron.VERSION, inputs=tevatron.inputs, read=tevatron.read),
    "hub_retrieval": CollectionReader(
        version=hub_retrieval.VERSION, inputs=hub_retrieval.inputs, read=hub_retrieval.read, absent="reported"
    ),
    "bright": CollectionReader(version=bright.VERSION, inputs=bright.inputs, read=bright.read, absent="reported"),
    "multi_hop": CollectionReader(version=multi_hop.VERSION, inputs=multi_hop.inputs, read=multi_hop.read),
    "open_qa": CollectionReader(version=open_qa.VERSION, inputs=open_qa.inputs, read=open_qa.read),
}
