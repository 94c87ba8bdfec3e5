"""One data set in a pass over its passages: what is searched how deep, and the measures of what was found."""

from collections.abc import Sequence

from trainers.encoders.encoder import Encoder
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.corpus_pass import search_corpora
from trainers.evaluation.measures import QueryValue, depth, per_query
from trainers.evaluation.ranked_ids import ranked_ids
from trainers.evaluation.shared_texts import text_order
from trainers.evaluation.stream import Evaluated, Keep, Searched
from trainers.search import Rankings


def search_collection(encoder: Encoder, asked: AskedCollection, gammas_d: Sequence[float]) -> Evaluated:
    """Encode queries and corpus once, and rank under each gamma_d while the shards of the corpus go by.

    Memory holds one shard of embeddings, whatever the corpus, and the search takes what the evaluation lets it; the
    depth is what the data set's measures look at.
    """
    [found] = search_corpora(
        encoder,
        [searched_collection(asked, gammas_d)],
        text_order([asked.hash_N2]),
        precision=asked.evaluation.precision,
        memory_budget_bytes=asked.evaluation.memory_budget_bytes,
    )
    return found


def query_values(rankings: Rankings, asked: AskedCollection) -> list[QueryValue]:
    """The data set's measures of each query's ranking."""
    entry = asked.evaluation.data.entry
    ranked = dict(zip(asked.queries.ids, ranked_ids(asked.document_ids, rankings.document_QK), strict=True))
    return per_query(ranked, asked.queries.qrels, entry.measures, relevance_threshold=entry.relevance_threshold)


def searched_collection(asked: AskedCollection, gammas_d: Sequence[float], keep: Keep | None = None) -> Searched:
    """A data set's share of a pass, as deep as its measures look; `keep` is told of its embeddings."""
    return Searched(
        corpus=asked.collection.corpus,
        queries=asked.queries,
        gammas_d=gammas_d,
        k=depth(asked.evaluation.data.entry.measures),
        keep=keep,
        instruction=asked.evaluation.instruction,
    )
