"""Validation: how well the encoder under training ranks a pool of a development split, by its own similarity."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from scipy.stats import spearmanr

from search_spaces.catalogue.data_sets import Cut
from search_spaces.specs import EvaluationSpec, Precision, Task, ValidationSpec, evaluation_for
from trainers.data_sets.collection import judged_queries
from trainers.data_sets.cut import cut_collection
from trainers.encoders.encode import encode
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.collection_search import query_values, search_collection
from trainers.evaluation.judged_queries import load_evaluated
from trainers.evaluation.measures import QueryValue
from trainers.evaluation.text_hashes import corpus_hashes
from trainers.similarity import pair_scores
from trainers.training.processes import Processes
from trainers.training.resume import Progress
from trainers.training.retriever import Retriever
from trainers.training.sts_pairs import SIDE, load_scored_pairs, some_of

MEASURE = "nDCG@10"
Score = Callable[[Retriever], float]


class Validator:
    """Scores a training's weights on its development data, in its first process for all of them."""

    def __init__(
        self, spec: ValidationSpec | None, task: Task, retriever: Retriever, processes: Processes, precision: Precision
    ) -> None:
        """Load the data. Raises as `ranking_score` and `load_scored_pairs` do."""
        self._spec = spec
        self._retriever = retriever
        self._processes = processes
        self._score: Score | None = None
        if spec and processes.is_first:
            self._score = (ranking_score if task == "contrastive" else correlation_score)(spec, precision)

    def score(self, step: int) -> float | None:
        """The score after optimiser step `step`, 0 to 1 (a correlation may be negative); None where none is due."""
        if self._spec is None or step % self._spec.every_steps:
            return None
        found = self._score(self._retriever) if self._score else 0.0
        return self._processes.number_of_first(found, next(self._retriever.parameters()).device)

    def is_out_of_patience(self, progress: Progress) -> bool:
        """Whether the last validations, as many as the spec has patience for, were no better than the best before."""
        if self._spec is None or self._spec.patience is None or progress.best is None:
            return False
        return progress.step >= progress.best.step + self._spec.patience * self._spec.every_steps


def ranking_score(spec: ValidationSpec, precision: Precision) -> Score:
    """The mean over queries of `ranking_values`, whose errors it raises."""
    values_of = ranking_values(spec, precision)

    def score(retriever: Retriever) -> float:
        values = values_of(retriever).values
        return sum(value.value for value in values) / len(values)

    return score


@dataclass(frozen=True, kw_only=True)
class RankedQueries:
    """The measure of each query, 0 to 1, and the norms of the queries' raw embeddings, by id."""

    values: Sequence[QueryValue]
    norms: Mapping[str, float]


def ranking_values(spec: ValidationSpec, precision: Precision) -> Callable[[Retriever], RankedQueries]:
    """nDCG@10 of queries of a split, in a pool of the documents judged for them and others by content hash.

    Raises:
        InputError: the data cannot be read, or its queries have more relevant documents than the pool may hold.
        ValueError: its content is not what was planned, or no query has a relevant document.
    """
    entry = spec.data.entry
    # No memory budget: the sweep's is of its evaluations, and may be too small for a search beside a training's
    # optimizer or needlessly slow in a pool that is searched many times. The search's own default bounds it.
    evaluation = EvaluationSpec(
        data=replace(spec.data, entry=entry.model_copy(update={"measures": (MEASURE,)})), precision=precision
    )
    whole = load_evaluated(evaluation)
    judged = replace(whole, qrels={spec.data.split: whole.qrels[spec.data.split]})
    cut = Cut(
        num_documents=spec.num_documents or whole.corpus.num_rows,
        num_queries=spec.num_queries or len(judged_queries(judged.qrels[spec.data.split])),
    )
    pool = cut_collection(judged, cut, threshold=entry.relevance_threshold)
    asked = AskedCollection.of(evaluation, pool, corpus_hashes(pool.corpus))
    if not asked.queries.ids:
        raise ValueError(f"split '{spec.data.split}' of data set '{entry.name}' has no query with a relevant document")

    def values_of(retriever: Retriever) -> RankedQueries:
        told = replace(asked, evaluation=evaluation_for(retriever.encoder.spec, evaluation))
        gamma_d = retriever.gammas.values()[1].item()  # ranking depends on it alone
        found = search_collection(retriever.encoder, told, [gamma_d])
        norms = dict(zip(asked.queries.ids, found.query_norm_Q.tolist(), strict=True))
        return RankedQueries(values=query_values(found.rankings[gamma_d], asked), norms=norms)

    return values_of


def correlation_score(spec: ValidationSpec, precision: Precision) -> Score:
    """Spearman's correlation of scores with the raters' over pairs of a split, `num_queries` of them.

    Raises:
        InputError: the data cannot be read.
        ValueError: it has no scored pairs.
    """
    pairs = some_of(load_scored_pairs(spec.data), spec.num_queries)

    def score(retriever: Retriever) -> float:
        with retriever.encoder.instructed(spec.data.entry.instruction):
            first_PH, second_PH = (
                torch.from_numpy(encode(retriever.encoder, texts, SIDE, precision=precision))
                for texts in (pairs.first_texts, pairs.second_texts)
            )
        scores_P = pair_scores(first_PH, second_PH, *(gamma.item() for gamma in retriever.gammas.values()))
        found = float(spearmanr(scores_P.numpy(), pairs.gold).statistic)
        return found if math.isfinite(found) else -1.0  # scores that are all equal tell nothing: the worst there is

    return score
