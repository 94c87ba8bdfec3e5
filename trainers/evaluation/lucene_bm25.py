"""BM25 as Lucene has it, over title and text as one field: what the published figures of the catalogue were made with.

Analysis is that of Anserini: words by Unicode's rules, possessives off, lower case, Lucene's stop words, Porter's
stems. A document's length is rounded to the byte that Lucene keeps of it. Imports no torch.

Shapes: Q queries, D documents of a block, T terms of the queries, K results.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_array

from trainers.evaluation.porter_stemmer import stem
from trainers.evaluation.text_hashes import texts_of

K1, B = 0.9, 0.4
_STOP_WORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    ]
)
_BETWEEN = r"(?<=[^\W\d_])['\u2019.:\u00b7](?=[^\W\d_])|(?<=\d)['\u2019.,;](?=\d)"  # letters, or digits, joins a word
_WORD = re.compile(rf"\w+(?:(?:{_BETWEEN})\w+)*")
_POSSESSIVE = re.compile(r"['\u2019\uff07][sS]$")
_BLOCK_CELLS = 1 << 24  # scores of all queries with a block of documents
_MOST_DOCUMENTS = 16_384
_EXACT_LENGTHS = 24  # shorter documents keep their length; of others a byte keeps four bits
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def terms(text: str) -> list[str]:
    """The terms of a text, in their order."""
    words = (_POSSESSIVE.sub("", word).lower() for word in _WORD.findall(text))
    return [stem(word) for word in words if word not in _STOP_WORDS]


def bm25_ranking(corpus: pa.Table, queries: Sequence[str], k: int, excluded: Sequence[Sequence[int]]) -> Places:
    """Positions in the corpus of the best documents of each query, int64 [Q, K]; -1 where there are fewer.

    Args:
        corpus: titles and texts.
        queries: their texts; a term that stands twice counts twice.
        k: results per query.
        excluded: for each query the positions of documents that it must not find.
    """
    vocabulary: dict[str, int] = {}
    counts = [Counter(terms(query)) for query in queries]
    for count in counts:
        for term in count:
            vocabulary.setdefault(term, len(vocabulary))
    num_holding_T, mean_length = _statistics(corpus, vocabulary)
    idf_T = np.log1p((corpus.num_rows - num_holding_T + 0.5) / (num_holding_T + 0.5))
    weight_TQ = _sparse([{vocabulary[t]: n for t, n in count.items()} for count in counts], len(vocabulary)).T
    weight_TQ = csr_array(weight_TQ.multiply(idf_T[:, None]))
    score_QK, place_QK = np.zeros((len(queries), k)), np.full((len(queries), k), -1, dtype=np.int64)
    size = max(1, min(_MOST_DOCUMENTS, _BLOCK_CELLS // max(1, len(queries))))
    for first, terms_D in _blocks(corpus, size):
        score_QD = (_saturated(terms_D, vocabulary, mean_length) @ weight_TQ).toarray().T
        for query, positions in enumerate(excluded):
            inside = [p - first for p in positions if first <= p < first + len(terms_D)]
            score_QD[query, inside] = 0
        score_QK, place_QK = _merged(score_QK, place_QK, score_QD, first)
    order_QK = np.argsort(-score_QK, axis=1, kind="stable")
    found: Places = np.take_along_axis(np.where(score_QK > 0, place_QK, -1), order_QK, axis=1)
    return found


def kept_length(length: int) -> int:
    """The length of a document as Lucene's byte gives it back."""
    if length < _EXACT_LENGTHS:
        return length
    shift = max(0, (length - _EXACT_LENGTHS).bit_length() - 4)
    return _EXACT_LENGTHS + ((length - _EXACT_LENGTHS) >> shift << shift)


def _blocks(corpus: pa.Table, size: int) -> Iterator[tuple[int, list[list[str]]]]:
    for first in range(0, corpus.num_rows, size):
        yield first, [terms(text) for text in texts_of(corpus.slice(first, size))]


def _statistics(corpus: pa.Table, vocabulary: dict[str, int]) -> tuple[Floats, float]:
    """How many documents hold each term of the queries, and how long a document is on average."""
    num_holding_T, num_terms = np.zeros(len(vocabulary)), 0
    for _, terms_D in _blocks(corpus, _MOST_DOCUMENTS):
        for of_document in terms_D:
            num_terms += len(of_document)
            num_holding_T[[vocabulary[term] for term in set(of_document) if term in vocabulary]] += 1
    return num_holding_T, num_terms / max(1, corpus.num_rows)


def _saturated(terms_D: list[list[str]], vocabulary: dict[str, int], mean_length: float) -> csr_array:
    """What each term counts in each document [D, T], without its rarity."""
    counts = [Counter(term for term in of_document if term in vocabulary) for of_document in terms_D]
    found = _sparse([{vocabulary[t]: n for t, n in count.items()} for count in counts], len(vocabulary))
    length_D = np.array([kept_length(len(of_document)) for of_document in terms_D], dtype=np.float64)
    norm_D = K1 * (1 - B + B * length_D / (mean_length or 1))
    found.data /= found.data + np.repeat(norm_D, np.diff(found.indptr))
    return found


def _sparse(rows: Sequence[dict[int, int]], num_terms: int) -> csr_array:
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([term for row in rows for term in row], dtype=np.int64)
    data = np.array([number for row in rows for number in row.values()], dtype=np.float64)
    return csr_array((data, indices, indptr), shape=(len(rows), num_terms))


def _merged(score_QK: Floats, place_QK: Places, score_QD: Floats, first: int) -> tuple[Floats, Places]:
    places_D = np.broadcast_to(np.arange(first, first + score_QD.shape[1]), score_QD.shape)
    score = np.concatenate([score_QK, score_QD], axis=1)
    place = np.concatenate([place_QK, places_D], axis=1)
    best = np.argpartition(-score, score_QK.shape[1] - 1, axis=1)[:, : score_QK.shape[1]]
    return np.take_along_axis(score, best, axis=1), np.take_along_axis(place, best, axis=1)
