"""Evaluation tiers of a sweep file: which groups are evaluated on a pool, and which encoders contribute to it."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.registry import Registry
from search_spaces.problems import Problem
from search_spaces.specs import EvaluationSpec, PoolSettings, PoolSpec, StartingEncoder, Tier, TrialSpec

if TYPE_CHECKING:
    from search_spaces.schema import EvaluationBlock


def tier_of(evaluation: "EvaluationBlock", group: str | None, entry: DataSet) -> Tier:
    """The tier of a data set in a group (None: it is there for its questions alone). Scored pairs have no corpus."""
    if entry.is_scored:
        return "full"
    tier = evaluation.tier
    return tier if isinstance(tier, str) else tier.get(group or "", "full")


def pool_of(evaluation: "EvaluationBlock", tier: Tier) -> PoolSpec | None:
    """The pool of a data set of that tier, nobody contributing yet; None where its whole corpus is searched."""
    if tier == "full":
        return None
    given = {f.name: getattr(evaluation.pool, f.name) for f in fields(PoolSettings)} if evaluation.pool else {}
    return PoolSpec(settings=PoolSettings(**given))


def with_contributors(evaluation: EvaluationSpec, trials: Iterable[TrialSpec]) -> EvaluationSpec:
    """The evaluation whose pool has contributions of the starting encoder of every trial, so as to favour none."""
    pool = evaluation.pool
    if pool is None:
        return evaluation
    untrained = [trial for trial in trials if trial.kind == "untrained"]
    if not (pool.settings.per_similarity_top or pool.settings.longest):
        return evaluation
    encoders = dict.fromkeys(StartingEncoder(encoder=trial.encoder, seed=trial.seed) for trial in untrained)
    execution = replace(untrained[0].execution, num_devices=1) if untrained else pool.execution
    return replace(evaluation, pool=replace(pool, encoders=tuple(encoders), execution=execution))


def tier_problems(evaluation: "EvaluationBlock", data_sets: Registry[DataSet], where: str) -> Iterator[Problem]:
    """Pools that no data set is evaluated on: a tier or settings that would say nothing."""
    tier, groups = evaluation.tier, evaluation.groups
    if isinstance(tier, str):
        questions = evaluation.rag.data_sets if evaluation.rag else ()
        asked = {"evaluation.tier": [*(r for references in groups.values() for r in references), *questions]}
        asked = asked if tier == "pool" else {}
    else:
        asked = {f"evaluation.tier.{group}": list(groups[group]) for group, of in tier.items() if of == "pool"}
    for key, references in asked.items():
        if all(data_sets[reference.partition("/")[0]].is_scored for reference in references):
            message = "'pool', but scored pairs have no corpus to make a pool of"
            yield Problem(where=where, key=key, message=message)
    if evaluation.pool and not asked:
        message = "no data set is evaluated on a pool (write tier: pool, or tier: {GROUP: pool})"
        yield Problem(where=where, key="evaluation.pool", message=message)
