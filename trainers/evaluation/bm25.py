"""The best documents of each query under BM25, by bm25s, of a corpus that is read in parts.

Analysis is that of Anserini, with which published figures were made: words by Unicode's rules, possessives off, lower
case, Lucene's stop words, Porter's stems (PyStemmer's). Lucene keeps a document's length in a byte; here it is exact.

bm25s indexes what it is given as if that were the whole corpus. Here the statistics of the whole one come first, and
each part's index is brought to them: memory holds the index of a part, and the ranking is that of a single index.

Shapes: Q queries, N documents, D documents of a part, T terms of the queries, K results.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import bm25s
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import Stemmer

from trainers.arrays import Indices, Scores
from trainers.evaluation.text_hashes import texts_of
from trainers.search.order import NO_KEY, positions_of, rank_keys, tie_ranks, tie_ranks_of
from trainers.search.running_top import RunningTop

PART_DOCUMENTS = 65_536
K1, B = 0.9, 0.4  # Anserini's
STOP_WORDS = [  # Lucene's
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
    *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
    *("will", "with"),
]
_BETWEEN = r"(?<=[^\W\d_])['\u2019.:\u00b7](?=[^\W\d_])|(?<=\d)['\u2019.,;](?=\d)"  # letters, or digits, joins a word
_WORD = rf"\w+(?:(?:{_BETWEEN})\w+)*"
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019\uff07][sS]\b")
_OTHER = "\n"  # any term that no query has: it counts for the length of a document alone
Floats = npt.NDArray[np.float64]
Terms = list[list[int]]  # of each text


@dataclass(frozen=True, kw_only=True)
class _Statistics:
    """Of the whole corpus: its documents, their mean length in terms, and how many hold each term of the queries."""

    num_documents: int
    mean_length: float
    num_holding_T: Floats


def bm25_top(
    corpus: pa.Table, queries: Sequence[str], k: int, *, excluded: Sequence[Sequence[int]] | None = None
) -> Indices:
    """The positions in the corpus of the best documents of each query, int64 [Q, K]; -1 where there are fewer.

    Title and text are one field. A document that shares no term with a query is none of its best; a term that stands
    twice in a query counts twice. Scores are Lucene's, ties are broken as everywhere (`trainers.search.order`).

    Args:
        corpus: titles and texts.
        queries: their texts.
        k: results per query, at least 1.
        excluded: for each query the positions of documents that it must not find.
    """
    of_queries = terms_of(queries)
    vocabulary = {term: number for number, term in enumerate(dict.fromkeys(t for terms in of_queries for t in terms))}
    vocabulary[_OTHER] = len(vocabulary)
    query_terms = [[vocabulary[term] for term in terms] for terms in of_queries]
    statistics = _statistics(corpus, vocabulary)
    tie_rank_N = tie_ranks(corpus["id"])
    banned = [np.array(sorted(set(positions)), dtype=np.int64) for positions in excluded or [()] * len(queries)]
    top = RunningTop(len(queries), k)
    for first, terms_D in _parts(corpus, vocabulary):
        index = _index(terms_D, vocabulary, statistics)
        if index is None:
            continue
        for query, terms in enumerate(query_terms):
            score_D = _scores(index, terms, banned[query] - first)
            some_D = _best(score_D, k)
            top.add(np.full(len(some_D), query), rank_keys(score_D[some_D], tie_rank_N[first + some_D]))
    keys_QK = top.keys()
    return np.where(keys_QK == NO_KEY, -1, positions_of(tie_ranks_of(keys_QK), tie_rank_N))


def terms_of(texts: Sequence[str]) -> list[list[str]]:
    """The terms of each text, in their order."""
    found: list[list[str]] = bm25s.tokenize(
        [_POSSESSIVE.sub("", text) for text in texts],
        token_pattern=_WORD,
        stopwords=STOP_WORDS,
        stemmer=Stemmer.Stemmer("porter"),
        return_ids=False,
        show_progress=False,
    )
    return found


def _parts(corpus: pa.Table, vocabulary: dict[str, int]) -> Iterator[tuple[int, Terms]]:
    """(position of its first document, terms of each document) of one part after the other."""
    other = vocabulary[_OTHER]
    for first in range(0, corpus.num_rows, PART_DOCUMENTS):
        texts = list(texts_of(corpus.slice(first, PART_DOCUMENTS)))
        yield first, [[vocabulary.get(term, other) for term in terms] for terms in terms_of(texts)]


def _statistics(corpus: pa.Table, vocabulary: dict[str, int]) -> _Statistics:
    num_terms = 0
    num_holding_T = np.zeros(len(vocabulary))
    for _, terms_D in _parts(corpus, vocabulary):
        num_terms += sum(map(len, terms_D))
        np.add.at(num_holding_T, [term for terms in terms_D for term in set(terms)], 1)
    return _Statistics(
        num_documents=corpus.num_rows, mean_length=num_terms / max(1, corpus.num_rows), num_holding_T=num_holding_T
    )


def _index(terms_D: Terms, vocabulary: dict[str, int], whole: _Statistics) -> bm25s.BM25 | None:
    """The index of a part, with the scores that its documents have in the whole corpus; None where it has no term."""
    mean_length = sum(map(len, terms_D)) / len(terms_D)
    if not mean_length:
        return None
    # The part's k1 and b give k1 * (1 - b + b * length / mean_length) the value that the whole corpus's have.
    by_length = K1 * B * mean_length / whole.mean_length
    k1 = K1 * (1 - B) + by_length
    # In float64, so that rounded to float32 a document's score is the same in whichever part it is.
    index = bm25s.BM25(k1=k1, b=by_length / k1, method="lucene", dtype="float64", backend="numpy")
    index.index((terms_D, dict(vocabulary)), create_empty_token=False, show_progress=False)
    num_holding_T = np.diff(index.scores["indptr"]).astype(np.float64)
    ratio_T = _idf(whole.num_documents, whole.num_holding_T) / _idf(len(terms_D), num_holding_T)
    index.scores["data"] = index.scores["data"] * np.repeat(ratio_T, num_holding_T.astype(np.int64))
    return index


def _idf(num_documents: int, num_holding_T: Floats) -> Floats:
    """Inverse document frequencies as Lucene has them, and bm25s."""
    found: Floats = np.log1p((num_documents - num_holding_T + 0.5) / (num_holding_T + 0.5))
    return found


def _scores(index: bm25s.BM25, terms: list[int], banned_D: Indices) -> Scores:
    """Of each document of a part; 0 where the query must not find it."""
    score_D: Scores = np.array(index.get_scores_from_ids(terms), dtype=np.float32)
    score_D[banned_D[(banned_D >= 0) & (banned_D < len(score_D))]] = 0
    return score_D


def _best(score_D: Scores, k: int) -> Indices:
    """Which documents of a part may be among the best k of a query: ties at the kth place are all in."""
    floor = np.partition(score_D, -k)[-k] if k < len(score_D) else 0
    found: Indices = np.flatnonzero((score_D > 0) & (score_D >= floor))
    return found
