"""Take over from other sweep folders what they have finished, so that nothing is trained twice.

What a sweep lacks is found there by its identity, copied, and held against its hash; the other folder is only read.
Markers go last: a copy that is killed leaves what the next run goes on from.
"""

import shutil
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.plan import Plan, PoolPlan, StudyPlan, TrialPlan, trial_plan
from results import layout
from results.layout import Status
from results.rows import read_rows
from results.schemas import SchemaError
from results.store import Lock, Store, open_existing_store
from results.studies import read_study, write_study
from search_spaces.identity import answers_id, encoding_id, evaluation_id, pool_id, pool_part_id, trial_id
from search_spaces.problems import InputError, Problem
from search_spaces.scoring import score_similarities, trained_similarity
from search_spaces.specs import EvaluationSpec, SimilaritySpec, TrialSpec, evaluation_for
from trainers.evaluation.evaluations import missing_evaluations


@dataclass(frozen=True, kw_only=True)
class Reused:
    """What was taken over from one folder; `notices` say what could not be used there, and why."""

    uri: str
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


class ChangedCheckpointError(ValueError):
    """A checkpoint is not what its trial's row says."""


def opened_sources(uris: Sequence[str], where: str) -> list[Store]:
    """The folders to reuse from.

    Raises:
        InputError: one of them is not there.
    """
    stores = {uri: open_existing_store(uri) for uri in uris}
    absent = [uri for uri, store in stores.items() if store is None]
    if absent:
        raise InputError([Problem(where=where, key="reuse", message=f"there is no sweep folder {u}") for u in absent])
    return [store for store in stores.values() if store]


def reuse_finished(plan: Plan, store: Store, sources: Sequence[Store], lock: Lock) -> list[Reused]:
    """Copy into `store` what it lacks of the plan and a source has; say of each source what was taken from it."""
    return [_reuse(plan, store, source, lock) for source in sources if source.uri != store.uri]


def _reuse(plan: Plan, store: Store, source: Store, lock: Lock) -> Reused:
    notices, num_trials, num_evaluations = [], 0, 0
    lacking = [pool for pool in plan.pools if not store.exists(layout.pool_rows(pool.pool_id))]
    shared = set()
    for pool in plan.pools:
        try:
            shared |= {pool.pool_id} if _take_pool(pool, store, source, lock) else set()
        except (SchemaError, KeyError) as error:
            notices.append(f"{source.uri}: {pool.title} is not taken over: {error}")
    taken = [
        study for study in plan.studies if study.record is None and _take_study(study.study_id, store, source, lock)
    ]
    for trial in (*plan.trials, *_trials_of(taken, plan, store)):
        if trial.state == "finished":
            continue
        try:
            num_trials += _take_trial(trial.trial_id, store, source, lock)
            num_evaluations += _take_evaluations(trial.spec, trial.trial_id, plan, shared, store, source, lock)
        except (ChangedCheckpointError, SchemaError, KeyError) as error:
            notices.append(f"{source.uri}: {trial.spec.title} is not taken over: {error}")
    num_probes = 0
    for probe in plan.probes:
        key = layout.probe_rows(probe.probe_id)
        if not store.exists(key) and source.exists(key):
            try:
                _copy_file(key, "probes", store, source, lock)
            except SchemaError as error:
                notices.append(f"{source.uri}: probe {probe.spec.title} is not taken over: {error}")
                continue
            _copy_status(layout.probe_prefix(probe.probe_id), store, source, lock)
            num_probes += 1
    return Reused(
        uri=source.uri,
        num_trials=num_trials,
        num_probes=num_probes,
        num_evaluations=num_evaluations,
        num_pools=sum(pool.pool_id in shared for pool in lacking),
        num_searches=len(taken),
        notices=tuple(notices),
    )


def _take_pool(pool: PoolPlan, store: Store, source: Store, lock: Lock) -> bool:
    """A pool, or what starting encoders gave to one that is not built; whether both folders now have the same.

    Pools of one identity that were built on different devices may differ where scores differ by rounding: rows on
    another pool than the own are not taken over.
    """
    rows = layout.pool_rows(pool.pool_id)
    if source.exists(rows) and not store.exists(rows):
        lock.verify()
        store.write(layout.pool_record(pool.pool_id), source.read(layout.pool_record(pool.pool_id)))
        _copy_file(rows, "pools", store, source, lock)
    if not store.exists(rows):
        encoders = pool.spec.pool.encoders if pool.spec.pool else ()
        for part in (layout.pool_part_rows(pool_part_id(pool.spec, encoder)) for encoder in encoders):
            if source.exists(part) and not store.exists(part):
                _copy_file(part, "pools", store, source, lock)
    if not (store.exists(rows) and source.exists(rows)):
        return False
    return bool(read_rows(store, rows, "pools").equals(read_rows(source, rows, "pools")))


def _take_study(study_id: str, store: Store, source: Store, lock: Lock) -> bool:
    """Its samples' rows, then its record; weights of samples are kept nowhere."""
    record = read_study(source, study_id)
    if record is None:
        return False
    try:
        for key in (sample.trial_id for sample in record.samples):
            for rows, table in ((layout.history_rows(key), "history"), (layout.trial_rows(key), "trials")):
                if source.exists(rows) and not store.exists(rows):
                    _copy_file(rows, table, store, source, lock)
            spec = layout.spec_key(layout.trial_prefix(key))
            store.write(spec, source.read(spec))
            store.write(layout.evaluations_key(key), layout.evaluations_to_bytes(()))
            _copy_status(layout.trial_prefix(key), store, source, lock)
    except (SchemaError, KeyError):  # of another version: it is searched here
        return False
    lock.verify()
    write_study(store, study_id, record)
    return True


def _trials_of(studies: Sequence[StudyPlan], plan: Plan, store: Store) -> list[TrialPlan]:
    """The trials that these studies, whose records are there now, lead to."""
    found = [replace(study, record=read_study(store, study.study_id)) for study in studies]
    specs = [spec for study in found for spec in study.trials()]
    return [trial_plan(trial_id(spec), spec, plan.evaluations, store) for spec in specs]


def _take_trial(key: str, store: Store, source: Store, lock: Lock) -> bool:
    """Its checkpoint, then its history, then its row, which says that all is there."""
    if store.exists(layout.trial_rows(key)) or not source.exists(layout.trial_rows(key)):
        return False
    [row] = read_rows(source, layout.trial_rows(key), "trials").to_pylist()
    lock.verify()
    _copy_checkpoint(layout.checkpoint_prefix(key), row["checkpoint_hash"], store, source)
    if source.exists(layout.history_rows(key)):
        _copy_file(layout.history_rows(key), "history", store, source, lock)
    _copy_status(layout.trial_prefix(key), store, source, lock)
    store.write(layout.trial_rows(key), source.read(layout.trial_rows(key)))
    return True


def _copy_checkpoint(prefix: str, expected_hash: str, store: Store, source: Store) -> None:
    from trainers.encoders.checkpoints import checkpoint_hash  # here: it takes torch, which most runs do without

    def fill(folder: Path) -> None:
        with source.get_folder(prefix) as theirs:
            shutil.copytree(theirs, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
        found = checkpoint_hash(folder)
        if found != expected_hash:
            raise ChangedCheckpointError(f"its checkpoint's hash is {found}, and its row says {expected_hash}")

    store.put_folder(prefix, fill)


def _copy_file(key: str, table: str | None, store: Store, source: Store, lock: Lock) -> None:
    if table is not None:
        read_rows(source, key, table)  # what another version of the contract wrote would be no use here
    lock.verify()
    store.write(key, source.read(key))


def _copy_status(prefix: str, store: Store, source: Store, lock: Lock) -> None:
    key = layout.status_key(prefix)
    if not source.exists(key):
        return
    status = layout.from_bytes(Status, source.read(key))
    lock.verify()
    store.write(key, layout.to_bytes(replace(status, reason=f"taken over from {source.uri}")))


def _take_evaluations(
    spec: TrialSpec, key: str, plan: Plan, pools: Container[str], store: Store, source: Store, lock: Lock
) -> int:
    """The rows of its checkpoint that the plan asks for, on pools those on `pools`, which both folders have.

    Returns how many evaluations are whole now that were not.
    """
    if not store.exists(layout.trial_rows(key)):
        return 0
    [row] = read_rows(store, layout.trial_rows(key), "trials").to_pylist()
    similarity = trained_similarity(spec.similarity, row["gamma_q"], row["gamma_d"])
    taken = 0
    for evaluation in (evaluation_for(spec.encoder, e.spec) for e in plan.evaluations):
        before = missing_evaluations(row["checkpoint_hash"], similarity, evaluation, store)
        if not before or (evaluation.pool is not None and pool_id(evaluation) not in pools):
            continue
        for file, table in files_of(row["checkpoint_hash"], similarity, evaluation, source):
            if source.exists(file) and not store.exists(file):
                _copy_file(file, table, store, source, lock)
        taken += len(before) - len(missing_evaluations(row["checkpoint_hash"], similarity, evaluation, store))
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
