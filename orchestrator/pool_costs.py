"""What pools take: what building them reads, and how large they are at most. Imports no torch."""

from collections.abc import Iterable, Iterator

from orchestrator.plan import Plan
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.specs import EvaluationSpec, StartingEncoder, TrialSpec
from trainers.evaluation.pools import contributors


def num_searched_at_most(evaluation: EvaluationSpec, num_documents: int, num_queries: int) -> int:
    """How many documents an evaluation encodes: of a pool as many as its sources can give, judgements not counted."""
    pool = evaluation.pool
    if pool is None:
        return num_documents
    settings, num_encoders = pool.settings, len(pool.encoders)
    num_rankings = num_encoders * len({s.gamma_d for s in SIMILARITIES.values() if not s.trained})
    of_queries = num_queries * (settings.bm25_top + num_rankings * settings.per_similarity_top)
    return min(num_documents, of_queries + num_encoders * settings.longest + settings.random)


def building(plan: Plan) -> Iterator[tuple[TrialSpec, tuple[EvaluationSpec, ...]]]:
    """Each starting encoder, as its untrained trial, with the corpora that it reads to build the plan's pools."""
    unbuilt = [pool.spec for pool in plan.pools if not pool.built and plan.trials_left]
    untrained = {
        StartingEncoder(encoder=trial.spec.encoder, seed=trial.spec.seed): trial.spec
        for trial in plan.trials
        if trial.spec.kind == "untrained"
    }
    for contributor, trial in untrained.items():
        read = tuple(spec.whole for spec in unbuilt if spec.pool and contributor in spec.pool.encoders)
        if read:
            yield trial, read


def reading_keys(evaluations: Iterable[EvaluationSpec]) -> tuple[str, ...]:
    """By what name events tell of each starting encoder that reads the corpora of some pools, as `contributors` has it.

    Its GPU counts in the sweep's budget.
    """
    return tuple(f"starting encoder {number}" for number, _ in enumerate(contributors(evaluations), 1))
