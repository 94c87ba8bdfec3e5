"""What a data set's entry says: where a collection comes from, how it is read, and what is known about it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from search_spaces.catalogue.families import SourceText

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
    dev_split: str | None = None
    config: str | None = None  # which part of a hub data set
    measures: tuple[str, ...] = Field(default=("nDCG@10", "R@100", "RR@10"), min_length=1)
    exclusion: Exclusion = "none"
    relevance_threshold: int = 1  # grades from here on are relevant to binary measures
    cut: Cut | None = None
    licence: str | None = None
    notice: str | None = None
    counts: Counts | None = None
    reference: tuple[ReferenceFigure, ...] = ()
