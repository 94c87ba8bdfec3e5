"""Published figures of BM25 held against a collection: whether it is the one that others ranked."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from search_spaces.catalogue.data_sets import LUCENE, DataSet, ReferenceFigure
from trainers import data_sets
from trainers.evaluation.bm25 import bm25_top
from trainers.evaluation.judged_queries import JudgedQueries, split_queries
from trainers.evaluation.measures import depth, per_query
from trainers.evaluation.ranked_ids import ranked_ids


@dataclass(frozen=True, kw_only=True)
class ComparedFigure:
    """A figure of the entry and what BM25 finds here, 0 to 1."""

    figure: ReferenceFigure
    found: float

    @property
    def agrees(self) -> bool:
        """Whether they are as near as the entry says."""
        return abs(self.found - self.figure.value) <= self.figure.tolerance

    def __str__(self) -> str:
        told = f"BM25 has {self.figure.measure} {self.found:.4f} on {self.figure.split}"
        if self.agrees:
            return f"{told}, as published ({self.figure.value:g})"
        why = "other documents, judgements or exclusions than others ranked"
        return f"{told}, and {self.figure.value:g} is published (within {self.figure.tolerance:g}): {why}"


def compared_figures(entry: DataSet) -> Iterator[ComparedFigure]:
    """Rank the collection with BM25 as its figures were made; nothing where the entry has none of Lucene's BM25.

    Raises:
        InputError: as `data_sets.load`.
    """
    collection = data_sets.load(entry)
    for figure in entry.reference:
        if figure.method != LUCENE or figure.split not in collection.qrels:
            continue
        queries = split_queries(collection, figure.split, entry.exclusion)
        yield ComparedFigure(figure=figure, found=_mean(entry, collection.corpus, queries, figure.measure))


def _mean(entry: DataSet, corpus: pa.Table, queries: JudgedQueries, measure: str) -> float:
    ranking_QK = bm25_top(corpus, queries.texts, depth([measure]), excluded=queries.excluded)
    ranked = dict(zip(queries.ids, ranked_ids(corpus["id"], ranking_QK), strict=True))
    values = per_query(ranked, queries.qrels, [measure], relevance_threshold=entry.relevance_threshold)
    return sum(value.value for value in values) / len(values)
