"""What a data set's entry says: where a collection comes from, how it is read, and what is known about it."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from search_spaces.catalogue.data_sets.figures import ReferenceFigure
from search_spaces.catalogue.families import DataSourceText, SourceText

Reader = Literal[
    "beir", "attack", "pydoc", "sts", "jsonl", "ms_marco", "tevatron", "hub_retrieval", "bright", "multi_hop", "open_qa"
]
Exclusion = Literal["none", "query_id", "excluded_ids"]


SPEARMAN = "Spearman"  # the measure of scored pairs: a rank correlation over all pairs, not a mean over queries


class Cut(BaseModel):
    """A smaller version of a collection: the texts with the smallest content hashes, the same on every machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_documents: int = Field(gt=0)
    num_queries: int = Field(gt=0)


class SplitCounts(BaseModel):
    """How many queries a split judges, and how many judgements it has.

    `num_relevant` are the judgements graded 1 or higher, whatever the threshold: copies of one collection may have its
    judgements of grade 0 or not. What is not known is None.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    num_queries: int
    num_judgements: int | None = None
    num_relevant: int | None = None


class Counts(BaseModel):
    """What a right build of a collection holds; another build of it is refused. What is not known is None.

    `documents_per_query` is how many documents each query comes with: of all queries together they are the corpus,
    equal ones once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_documents: int | None = None
    documents_per_query: int | None = None
    splits: tuple[SplitCounts, ...]


class Answers(BaseModel):
    """Gold answers that lie apart from the questions: a file of a data set repository, joined by the question's words.

    Its lines are JSON objects with a `question` and `golden_answers`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SourceText
    file: str


class Unknown(BaseModel):
    """Something that the entry should say and cannot, and why; a person sees it where the thing itself would stand."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: Literal["revision", "counts", "reference"]
    why: str


def _default_measures(entry: dict[str, Any]) -> tuple[str, ...]:
    return (SPEARMAN,) if entry.get("reader") == "sts" else ("nDCG@10", "R@100", "RR@10")


class DataSet(BaseModel):
    """A collection: corpus, queries and graded qrels in one or more splits; with reader 'sts', scored pairs of texts.

    `measures` are ir-measures expressions; the first is the main one. `exclusion` says which documents are taken out
    of a query's ranking before the cut to k. Scored pairs have the one measure Spearman, and a `score_range`: the
    lowest and the highest score that a rater could give.

    `groups` are the default groups it stands in. Where `part_of` is set, tables take the unweighted mean over all parts
    of that name first, and this mean is one data set beside the others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: DataSourceText
    reader: Reader = "beir"
    test_split: str = "test"
    train_split: str | None = None
    dev_split: str | None = None
    config: str | None = None  # which part of a hub data set
    measures: tuple[str, ...] = Field(default_factory=_default_measures, min_length=1)
    exclusion: Exclusion = "none"
    relevance_threshold: int = 1  # grades from here on are relevant to binary measures
    cut: Cut | None = None
    licence: str | None = None
    notice: str | None = None
    counts: Counts | None = None
    reference: tuple[ReferenceFigure, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    score_range: tuple[float, float] | None = None
    groups: tuple[str, ...] = ()
    part_of: str | None = None
    instruction: str | None = None  # what an instructed encoder may be told that a query asks for
    corpus_source: SourceText | None = None  # where the corpus lies, if not beside the queries
    qrels_source: SourceText | None = None  # and the judgements
    answers: Answers | None = None
    size_bytes: int | None = None  # about how large its texts are

    def why_unknown(self, what: str) -> str | None:
        """Why the entry does not say it; None where it gives no reason."""
        return next((unknown.why for unknown in self.unknown if unknown.what == what), None)

    @property
    def is_scored(self) -> bool:
        """Whether it holds scored pairs of texts (for the task 'sts') instead of queries and relevant documents."""
        return self.reader == "sts"

    @property
    def is_never_judged(self) -> bool:
        """Whether it is known, before anything is fetched, to have questions with answers and no judgement at all."""
        return self.reader == "open_qa" and self.source.startswith("hf:")  # a folder in BEIR's layout may have some

    def read_from(self, source: str | None) -> "DataSet":
        """The entry with all of its files, judgements and answers too, at `source`; itself, where there is none."""
        elsewhere = {"source": source, "corpus_source": None, "qrels_source": None, "answers": None}
        return self.model_copy(update=elsewhere) if source else self

    @model_validator(mode="after")
    def _scores_belong_to_pairs(self) -> "DataSet":
        if not self.is_scored:
            if self.score_range is not None:
                raise ValueError(f"'{self.name}': score_range is for scored pairs (reader: sts)")
            return self
        if self.score_range is None or not self.score_range[0] < self.score_range[1]:
            message = "scored pairs need score_range, the lowest and highest score that was given (such as [0, 5])"
            raise ValueError(f"'{self.name}': {message}")
        if self.measures != (SPEARMAN,):
            raise ValueError(f"'{self.name}': scored pairs have the measure {SPEARMAN} alone, not {self.measures}")
        if self.source.startswith("hf:") and self.config is None:
            raise ValueError(f"'{self.name}': a hub data set names its config (config: default, where it has only one)")
        if self.cut is not None:
            raise ValueError(f"'{self.name}': scored pairs cannot be cut")
        return self
