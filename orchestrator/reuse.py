"""Take over from other sweep folders what they have finished, so that nothing is trained twice.

What a sweep lacks is found there by its identity, copied, and held against its hash; the other folder is only read.
Markers go last: a copy that is killed leaves what the next run goes on from. A plan looks the same things up, and
copies nothing (`orchestrator.taking`).
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.only import Only
from orchestrator.plan import Plan, PoolPlan, StudyPlan, TrialPlan, asked_of, is_known, make_plan, plan_of, trial_plan
from orchestrator.resolve import Resolved
from orchestrator.reuse_folders import opened_sources
from orchestrator.taking import ChangedCheckpointError, Copying, Foreseen, Looking, Way
from results import layout
from results.rows import read_rows
from results.schemas import SchemaError
from results.store import Lock, Readable, Store
from results.studies import read_study
from search_spaces.identity import answers_id, encoding_id, evaluation_id, pool_id, pool_part_id, trial_id
from search_spaces.scoring import score_similarities, trained_similarity
from search_spaces.specs import EvaluationSpec, SimilaritySpec, TrialSpec
from trainers.evaluation.evaluations import missing_evaluations


@dataclass(frozen=True, kw_only=True)
class Reused:
    """What was taken over from one folder; `notices` say what could not be used there, and why.

    `keys` are the identities of the trials, probes, pools and searches of which something was taken.
    """

    uri: str
    keys: tuple[str, ...] = ()
    num_trials: int = 0
    num_probes: int = 0
    num_evaluations: int = 0
    num_pools: int = 0
    num_searches: int = 0
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = {
            "pool": self.num_pools,
            "trial": self.num_trials,
            "probe": self.num_probes,
            "evaluation": self.num_evaluations,
        }
        parts = [f"{number} {what}{'s' * (number != 1)}" for what, number in counts.items() if number]
        parts += [f"{self.num_searches} search{'es' * (self.num_searches != 1)}"] if self.num_searches else []
        return f"taken over from {self.uri}: {', '.join(parts) or 'nothing'}"


def reuse_finished(plan: Plan, store: Store, sources: Sequence[Store], lock: Lock) -> list[Reused]:
    """Copy into `store` what it lacks of the plan and a source has; say of each source what was taken from it."""
    return [_reuse(plan, Copying(store, source, lock)) for source in sources if source.uri != store.uri]


def foresee(resolved: Resolved, store: Store | None, only: Only) -> tuple[Plan, Foreseen]:
    """The plan as it will stand when a run has taken over what the file's `reuse` has; nothing is copied.

    `store` is None where there is no sweep folder yet. What only reading all of a folder would tell, such as a
    checkpoint that changed, is found out by the run.

    Raises:
        InputError: a folder to reuse is not there.
    """
    foreseen = Foreseen(store)
    plan = make_plan(resolved, store, only)
    sources = opened_sources(resolved.sweep.reuse, resolved.where)
    if not sources or plan.is_finished:
        return plan, foreseen
    found = [_reuse(plan, Looking(foreseen, s)) for s in sources if store is None or s.uri != store.uri]
    after = plan_of(resolved, foreseen, only)
    taken = {key: reused.uri for reused in reversed(found) for key in reused.keys}
    notices = (*after.notices, *(notice for reused in found for notice in reused.notices))
    return replace(after, taken=taken, notices=notices), foreseen


def _reuse(plan: Plan, way: Way) -> Reused:
    """Take what the part of the sweep that was asked for lacks."""
    uri, notices, keys = way.source.uri, [], []
    lacking = [pool for pool in plan.pools if not way.there.exists(layout.pool_rows(pool.pool_id))]
    shared = set()
    for pool in plan.pools:
        try:
            shared |= {pool.pool_id} if _take_pool(pool, way) else set()
        except (SchemaError, KeyError) as error:
            notices.append(f"{uri}: {pool.title} is not taken over: {error}")
    pools = [pool.pool_id for pool in lacking if pool.pool_id in shared]
    searches = [s for s in plan.studies if s.record is None and plan.only.takes_study(s.cell) and _take_study(s, way)]
    num_trials, num_evaluations = 0, 0
    for trial in (*plan.trials, *_trials_of(searches, plan, way.there)):
        if trial.state == "finished" or not plan.only.takes(trial.spec):
            continue
        try:
            is_taken = _take_trial(trial.trial_id, way)
            num_trials += is_taken
            num_taken = _take_evaluations(trial.spec, trial.trial_id, plan, shared, way)
            num_evaluations += num_taken
            keys += [trial.trial_id] if is_taken or num_taken else []
        except (ChangedCheckpointError, SchemaError, KeyError) as error:
            notices.append(f"{uri}: {trial.spec.title} is not taken over: {error}")
    probes = list(_take_probes(plan, way, notices))
    return Reused(
        uri=uri,
        keys=(*keys, *pools, *probes, *(study.study_id for study in searches)),
        num_trials=num_trials,
        num_probes=len(probes),
        num_evaluations=num_evaluations,
        num_pools=len(pools),
        num_searches=len(searches),
        notices=tuple(notices),
    )


def _take_probes(plan: Plan, way: Way, notices: list[str]) -> Iterator[str]:
    """The keys of those that were taken; `notices` get what could not be."""
    for probe in plan.probes_left:
        rows = layout.probe_rows(probe.probe_id)
        if way.there.exists(rows) or not way.source.exists(rows):
            continue
        try:
            way.file(rows, "probes")
        except SchemaError as error:
            notices.append(f"{way.source.uri}: probe {probe.spec.title} is not taken over: {error}")
            continue
        way.status(layout.probe_prefix(probe.probe_id))
        yield probe.probe_id


def _take_pool(pool: PoolPlan, way: Way) -> bool:
    """A pool, or what starting encoders gave to one that is not built; whether both folders now have the same.

    Pools of one identity that were built on different devices may differ where scores differ by rounding: rows on
    another pool than the own are not taken over.
    """
    rows, source = layout.pool_rows(pool.pool_id), way.source
    if source.exists(rows) and not way.there.exists(rows):
        way.file(layout.pool_record(pool.pool_id))
        way.file(rows, "pools")
    if not way.there.exists(rows):
        encoders = pool.spec.pool.encoders if pool.spec.pool else ()
        for part in (layout.pool_part_rows(pool_part_id(pool.spec, encoder)) for encoder in encoders):
            if source.exists(part) and not way.there.exists(part):
                way.file(part, "pools")
    if not (way.there.exists(rows) and source.exists(rows)):
        return False
    return bool(read_rows(way.there, rows, "pools").equals(read_rows(source, rows, "pools")))


def _take_study(study: StudyPlan, way: Way) -> bool:
    """Its samples' rows, then its record; weights of samples are kept nowhere."""
    source = way.source
    record = read_study(source, study.study_id)
    if record is None:
        return False
    try:
        for key in (sample.trial_id for sample in record.samples):
            for rows, table in ((layout.history_rows(key), "history"), (layout.trial_rows(key), "trials")):
                if source.exists(rows) and not way.there.exists(rows):
                    way.file(rows, table)
            way.file(layout.spec_key(layout.trial_prefix(key)))
            way.no_evaluations(key)
            way.status(layout.trial_prefix(key))
    except (SchemaError, KeyError):  # of another version: it is searched here
        return False
    way.file(layout.study_key(study.study_id))
    return True


def _trials_of(studies: Sequence[StudyPlan], plan: Plan, there: Readable) -> list[TrialPlan]:
    """The trials that these studies, whose records are there now, lead to."""
    found = [replace(study, record=read_study(there, study.study_id)) for study in studies]
    specs = [spec for study in found for spec in study.trials()]
    return [trial_plan(trial_id(spec), spec, plan.evaluations, there) for spec in specs]


def _take_trial(key: str, way: Way) -> bool:
    """Its checkpoint, then its history, then its row, which says that all is there."""
    source, row_key = way.source, layout.trial_rows(key)
    if way.there.exists(row_key) or not source.exists(row_key):
        return False
    [row] = read_rows(source, row_key, "trials").to_pylist()
    if row["kind"] == "pilot":  # it has no weights any more
        way.file(layout.pilot_rows(key), "per_query")
    else:
        way.checkpoint(layout.checkpoint_prefix(key), row["checkpoint_hash"])
    if source.exists(layout.history_rows(key)):
        way.file(layout.history_rows(key), "history")
    way.status(layout.trial_prefix(key))
    way.file(row_key)
    return True


def _take_evaluations(spec: TrialSpec, key: str, plan: Plan, pools: Container[str], way: Way) -> int:
    """The rows of its checkpoint that the plan asks for, on pools those on `pools`, which both folders have.

    Returns how many evaluations are whole now that were not.
    """
    there = way.there
    if not there.exists(layout.trial_rows(key)):
        return 0
    [row] = read_rows(there, layout.trial_rows(key), "trials").to_pylist()
    similarity = trained_similarity(spec.similarity, row["gamma_q"], row["gamma_d"])
    taken = 0
    for evaluation in filter(is_known, asked_of(spec, plan.evaluations)):
        before = missing_evaluations(row["checkpoint_hash"], similarity, evaluation, there)
        if not before or (evaluation.pool is not None and pool_id(evaluation) not in pools):
            continue
        for file, table in files_of(row["checkpoint_hash"], similarity, evaluation, way.source):
            if way.source.exists(file) and not there.exists(file):
                way.file(file, table)
        taken += len(before) - len(missing_evaluations(row["checkpoint_hash"], similarity, evaluation, there))
    return taken


def files_of(
    checkpoint: str, similarity: SimilaritySpec | None, evaluation: EvaluationSpec, source: Store
) -> Iterator[tuple[str, str | None]]:
    """Key and table of all that there is of one evaluation; the norms, which say that it is done, last.

    The table of what holds no rows is None.
    """
    is_scored = evaluation.data.entry.is_scored
    if not is_scored:
        yield layout.judgement_rows(evaluation.data), "judgements"
    for scored in score_similarities(similarity, evaluation):
        key = evaluation_id(checkpoint, evaluation, scored)
        if evaluation.keeps_runs:
            yield layout.run_file(key), None
        yield layout.scored_rows(evaluation, key), "sts" if is_scored else "per_query"
        if evaluation.rag:
            yield layout.answer_rows(answers_id(checkpoint, evaluation, scored)), "qa"
    encoding = encoding_id(checkpoint, evaluation)
    if evaluation.keep_embeddings:
        kept = source.list(layout.embeddings_prefix(encoding))
        last = layout.embedding_rows(encoding, layout.LAST_EMBEDDINGS)
        yield from ((key, "embeddings") for key in [*(k for k in kept if k != last), *(k for k in kept if k == last)])
    yield layout.norm_rows(encoding), "norms"
