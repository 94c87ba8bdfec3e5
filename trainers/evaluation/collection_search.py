"""One data set in a pass over its passages: what is searched how deep, and the measures of what was found.

Shapes: N documents, K results.
"""

from collections.abc import Sequence

from search_spaces.specs import EvaluationSpec
from trainers.data_sets import Collection
from trainers.encoders.encode import Progress
from trainers.encoders.encoder import Encoder
from trainers.evaluation.corpus_pass import search_corpora
from trainers.evaluation.judged_queries import JudgedQueries
from trainers.evaluation.measures import QueryValue, depth, per_query
from trainers.evaluation.ranked_ids import ranked_ids
from trainers.evaluation.shared_texts import text_order
from trainers.evaluation.stream import Evaluated, Keep, Searched
from trainers.evaluation.text_hashes import corpus_hashes
from trainers.search import Rankings


def search_collection(
    encoder: Encoder,
    collection: Collection,
    queries: JudgedQueries,
    gammas_d: Sequence[float],
    *,
    evaluation: EvaluationSpec,
    progress: Progress | None = None,
) -> Evaluated:
    """Encode queries and corpus once, and rank under each gamma_d while the shards of the corpus go by.

    Memory holds one shard of embeddings, whatever the corpus, and the search takes what the evaluation lets it; the
    depth is what the data set's measures look at.
    """
    searched = searched_collection(evaluation, collection, queries, gammas_d)
    order = text_order([corpus_hashes(collection.corpus)])
    [found] = search_corpora(
        encoder,
        [searched],
        order,
        precision=evaluation.precision,
        memory_budget_bytes=evaluation.memory_budget_bytes,
        progress=progress,
    )
    return found


def query_values(
    rankings: Rankings, collection: Collection, queries: JudgedQueries, evaluation: EvaluationSpec
) -> list[QueryValue]:
    """The data set's measures of each query's ranking."""
    entry = evaluation.data.entry
    ranked = dict(zip(queries.ids, ranked_ids(collection.corpus["id"], rankings.document_QK), strict=True))
    return per_query(ranked, queries.qrels, entry.measures, relevance_threshold=entry.relevance_threshold)


def searched_collection(
    evaluation: EvaluationSpec,
    collection: Collection,
    queries: JudgedQueries,
    gammas_d: Sequence[float],
    keep: Keep | None = None,
) -> Searched:
    """A data set's share of a pass, as deep as its measures look; `keep` is told of its embeddings."""
    k = depth(evaluation.data.entry.measures)
    return Searched(
        corpus=collection.corpus,
        queries=queries,
        gammas_d=gammas_d,
        k=k,
        keep=keep,
        instruction=evaluation.instruction,
    )
