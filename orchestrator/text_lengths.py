"""About how many tokens texts take, before any is tokenised: four characters are one, two are special."""

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from search_spaces.specs import DataSpec, EncoderSpec
from trainers import data_sets
from trainers.data_sets.rows import take_rows

_CHARACTERS_A_TOKEN = 4  # of English under WordPiece or byte pairs
_SPECIAL_TOKENS = 2
_SAMPLE = 2000  # texts


@dataclass(frozen=True, kw_only=True)
class Texts:
    """How many texts a side has (None: not known), and the mean tokens of one; `at_most` where either is a limit."""

    num_texts: int | None
    mean_tokens: float
    at_most: bool = False

    @property
    def tokens(self) -> float:
        """Of all texts, 0 where their number is not known."""
        return (self.num_texts or 0) * self.mean_tokens


def queries_of(data: DataSpec, encoder: EncoderSpec) -> Texts:
    """The queries of a split; of data that is not here, as many as its entry says, as long as they may be."""
    limit, entry = encoder.max_query_length, data.entry
    if data.content_hash is None:
        counts = (
            [split.num_queries for split in entry.counts.splits if split.name == data.split] if entry.counts else []
        )
        return Texts(num_texts=counts[0] if counts else None, mean_tokens=limit, at_most=True)
    characters = _characters(data, "queries")
    return Texts(num_texts=data.num_pairs, mean_tokens=_mean_tokens(characters, limit))


def documents_of(data: DataSpec, encoder: EncoderSpec) -> Texts:
    """The documents of a collection; of one that is not here, by the counts and the size that its entry says.

    Of documents that come with the queries equal ones are then counted each time.
    """
    limit, entry = encoder.max_document_length, data.entry
    if data.content_hash is not None:
        characters = _characters(data, "corpus")
        return Texts(num_texts=data_sets.load(entry).corpus.num_rows, mean_tokens=_mean_tokens(characters, limit))
    num_documents = entry.cut.num_documents if entry.cut else entry.counts.num_documents if entry.counts else None
    at_most = num_documents is None
    if num_documents is None and entry.counts and entry.counts.documents_per_query:
        num_documents = entry.counts.documents_per_query * sum(split.num_queries for split in entry.counts.splits)
    if num_documents and entry.size_bytes and not entry.cut:
        mean = entry.size_bytes / num_documents / _CHARACTERS_A_TOKEN + _SPECIAL_TOKENS
        return Texts(num_texts=num_documents, mean_tokens=min(mean, limit), at_most=at_most)
    return Texts(num_texts=num_documents, mean_tokens=limit, at_most=True)


def _mean_tokens(characters: tuple[int, ...], limit: int) -> float:
    tokens = [min(count / _CHARACTERS_A_TOKEN + _SPECIAL_TOKENS, limit) for count in characters]
    return sum(tokens) / len(tokens) if tokens else 0.0


@lru_cache(maxsize=256)
def _characters(data: DataSpec, side: str) -> tuple[int, ...]:
    """The lengths of texts, evenly over the whole table."""
    table: pa.Table = getattr(data_sets.load(data.entry), side)
    step = max(1, table.num_rows // _SAMPLE)
    rows = take_rows(table, range(0, table.num_rows, step))
    counts = [pc.utf8_length(rows[name]).to_pylist() for name in ("title", "text") if name in rows.column_names]
    return tuple(sum(filter(None, row)) for row in zip(*counts, strict=True))
