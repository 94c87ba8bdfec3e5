"""Build pools: judged documents, BM25's best, random ones, and what each starting encoder finds best or makes longest.

A starting encoder's share depends on no other one, and is kept by itself (`pool_parts/`): when a sweep is extended by a
family, only that family's encoders read the corpus. A pool is published when all its shares are there.

Shapes: Q queries, N documents, K results.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.layout import POOLS, PoolRecord, pool_part_rows, pool_record, pool_rows, to_bytes
from results.rows import read_rows, write_rows
from results.store import Store
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import pool_id, pool_part_id
from search_spaces.specs import EvaluationSpec, PoolSpec, StartingEncoder, evaluation_for
from trainers.arrays import FloatMatrix, Indices
from trainers.data_sets import Collection
from trainers.data_sets.collection import strings
from trainers.data_sets.rows import take_values
from trainers.encoders.encoder import Encoder
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.bm25 import bm25_top
from trainers.evaluation.corpus_pass import PassHooks, search_corpora
from trainers.evaluation.encoding_meter import EncodingMeter
from trainers.evaluation.pools import contributors, positions_of_ids, unbuilt_pools
from trainers.evaluation.shared_texts import sharing_groups, text_order
from trainers.evaluation.snapshots import StoredSnapshots
from trainers.evaluation.stream import Evaluated, Searched
from trainers.evaluation.unfinished import unfinished_key
from trainers.init_regimes import start_encoder
from trainers.planned import check_weights
from trainers.provenance import provenance
from trainers.randomness import derived_seed
from trainers.search import BLOCK_DOCUMENTS, tie_ranks
from trainers.threads import set_threads

FIXED = {s.name: s.gamma_d for s in SIMILARITIES.values() if not s.trained}
Reasons = Mapping[str, Indices]  # positions of documents, by why they are in the pool
Say = Callable[[str], None]
_NONE: Indices = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Building:
    """Where pools are built. `verify` raises LostLockError where nothing may be written; `say` is told how it goes."""

    store: Store
    verify: Callable[[], None] = lambda: None
    say: Say = lambda _: None


def build_missing(evaluations: Iterable[EvaluationSpec], building: Building) -> None:
    """Build every pool that is not there, in this process.

    Raises:
        InputError: a data set or an encoder's weights cannot be read.
        ValueError: they are not what was planned, or embeddings are not finite.
    """
    missing = unbuilt_pools(evaluations, building.store)
    for encoder in contributors(missing):
        build_parts(encoder, missing, building)
    for evaluation in missing:
        publish(evaluation, building)


def build_parts(encoder: StartingEncoder, evaluations: Sequence[EvaluationSpec], building: Building) -> None:
    """Write what one starting encoder gives to each of these pools, where that is not there yet.

    Data sets that share passages share a pass, and one that was interrupted goes on where it was. Raises as
    `build_missing`.
    """
    missing = [e for e in evaluations if encoder in _pool(e).encoders and not _has_part(e, encoder, building.store)]
    if not missing:
        return
    execution = _pool(missing[0]).execution
    set_threads(execution.threads)
    check_weights(encoder.encoder.weights)
    model = start_encoder(encoder.encoder, encoder.seed).to("cuda" if execution.device == "gpu" else "cpu")
    for precision in dict.fromkeys(evaluation.precision for evaluation in missing):
        some = [AskedCollection.whole(evaluation) for evaluation in missing if evaluation.precision == precision]
        for group in sharing_groups([asked.hash_N2 for asked in some]):
            _build_group(model, encoder, [some[index] for index in group], building)


def publish(evaluation: EvaluationSpec, building: Building) -> None:
    """Put a pool together of its parts, BM25's best, judged and random documents, and publish it.

    Raises:
        KeyError: a part is missing.
    """
    building.say(f"pool of {evaluation.data.name}: BM25")
    asked, pool, key = AskedCollection.whole(evaluation), _pool(evaluation), pool_id(evaluation)
    reasons = {**_without_encoder(asked, pool), **_of_parts(asked, pool, building.store)}
    members_N, rows = _rows(asked.collection, reasons)
    record = PoolRecord(
        pool_id=key,
        data_set=evaluation.data.name,
        split=evaluation.data.split,
        num_corpus_documents=asked.collection.corpus.num_rows,
        num_documents=len(members_N),
        counts={reason: len(positions) for reason, positions in reasons.items()},
        settings=pool.settings,
        encoders=tuple(encoder.title for encoder in pool.encoders),
        made_by=provenance().to_json(),
    )
    building.verify()
    building.store.write(pool_record(key), to_bytes(record))
    building.verify()
    write_rows(building.store, pool_rows(key), "pools", rows, provenance_json=record.made_by)


def _pool(evaluation: EvaluationSpec) -> PoolSpec:
    assert evaluation.pool is not None, "who builds pools has chosen evaluations with one"
    return evaluation.pool


def _has_part(evaluation: EvaluationSpec, encoder: StartingEncoder, store: Store) -> bool:
    return store.exists(pool_part_rows(pool_part_id(evaluation, encoder)))


def _build_group(
    model: Encoder, encoder: StartingEncoder, group: Sequence[AskedCollection], building: Building
) -> None:
    """One pass over the passages that the data sets of a group share."""
    names = ", ".join(dict.fromkeys(asked.evaluation.data.name for asked in group))
    order = text_order([asked.hash_N2 for asked in group])
    num_texts = len(order) + sum(len(asked.queries.ids) for asked in group)
    snapshot = _snapshot_key(group, encoder)
    found = search_corpora(
        model,
        [_searched(asked, encoder) for asked in group],
        order,
        precision=group[0].evaluation.precision,
        memory_budget_bytes=group[0].evaluation.memory_budget_bytes,
        hooks=PassHooks(
            snapshots=StoredSnapshots(building.store, snapshot, verify=building.verify),
            meter=EncodingMeter(f"pool of {names}: {encoder.title}", num_texts, building.say),
        ),
    )
    for asked, of in zip(group, found, strict=True):
        _, rows = _rows(asked.collection, _of_encoder(asked, encoder, of))
        key = pool_part_rows(pool_part_id(asked.evaluation, encoder))
        building.verify()
        write_rows(building.store, key, "pools", rows, provenance_json=provenance().to_json())
    building.verify()
    building.store.delete(snapshot)


def _searched(asked: AskedCollection, encoder: StartingEncoder) -> Searched:
    k = max(1, _pool(asked.evaluation).settings.per_similarity_top)
    gammas_d = list(dict.fromkeys(FIXED.values()))
    told = evaluation_for(encoder.encoder, asked.evaluation).instruction
    return Searched(corpus=asked.collection.corpus, queries=asked.queries, gammas_d=gammas_d, k=k, instruction=told)


def _snapshot_key(group: Sequence[AskedCollection], encoder: StartingEncoder) -> str:
    """It names all that a snapshot depends on."""
    ids = [pool_part_id(asked.evaluation, encoder) for asked in group]
    orders = [asked.order_digest for asked in group]
    return unfinished_key(POOLS, "snapshot", [*ids, *orders, str(BLOCK_DOCUMENTS)])


def _of_encoder(asked: AskedCollection, encoder: StartingEncoder, found: Evaluated) -> Reasons:
    settings = _pool(asked.evaluation).settings
    reasons = {f"longest {encoder.title}": _longest(asked, found.document_norm_N, settings.longest)}
    for name, gamma_d in FIXED.items():
        top_QK = found.rankings[gamma_d].document_QK[:, : settings.per_similarity_top]
        reasons[f"top {name} {encoder.title}"] = np.unique(top_QK[top_QK >= 0])
    return reasons


def _longest(asked: AskedCollection, norm_N: FloatMatrix, num_documents: int) -> Indices:
    """The documents of the largest norm; equal ones in the order of a ranking. Ids are sorted of those alone."""
    num_documents = min(num_documents, len(norm_N))
    if not num_documents:
        return _NONE
    least = np.partition(norm_N, -num_documents)[-num_documents]
    longer, tied = np.flatnonzero(norm_N > least), np.flatnonzero(norm_N == least)
    in_order = tied[np.argsort(tie_ranks(take_values(asked.document_ids, tied)))]
    return np.sort(np.concatenate([longer, in_order[: num_documents - len(longer)]]))


def _without_encoder(asked: AskedCollection, pool: PoolSpec) -> Reasons:
    """What is in a pool whoever encodes."""
    settings, corpus, data = pool.settings, asked.collection.corpus, asked.evaluation.data
    num_random = min(settings.random, corpus.num_rows)
    draw = np.random.default_rng(derived_seed(settings.seed, f"pool {data.content_hash}"))
    random_N = np.sort(draw.choice(corpus.num_rows, num_random, replace=False)) if num_random else _NONE
    bm25_N = _NONE
    if settings.bm25_top:
        found_QK = bm25_top(corpus, asked.queries.texts, settings.bm25_top, excluded=asked.queries.excluded)
        bm25_N = np.unique(found_QK[found_QK >= 0])
    judged_N = positions_of_ids(asked.collection.qrels[data.split]["document_id"], corpus)
    return {"judged": judged_N, "bm25": bm25_N, "random": random_N}


def _of_parts(asked: AskedCollection, pool: PoolSpec, store: Store) -> Reasons:
    reasons: dict[str, Indices] = {}
    for encoder in pool.encoders:
        rows = read_rows(store, pool_part_rows(pool_part_id(asked.evaluation, encoder)), "pools")
        position_M = positions_of_ids(rows["document_id"], asked.collection.corpus)  # a part has the corpus's order
        lists = rows["reasons"].combine_chunks()
        of_P = np.repeat(position_M, pc.list_value_length(lists).to_numpy(zero_copy_only=False))
        names = pc.list_flatten(lists).dictionary_encode()
        number_P = names.indices.to_numpy(zero_copy_only=False)
        for number, name in enumerate(strings(names.dictionary)):
            # Encoders that differ in a length alone have one title.
            reasons[name] = np.union1d(reasons.get(name, _NONE), of_P[number_P == number])
    return reasons


def _rows(collection: Collection, reasons: Reasons) -> tuple[Indices, Mapping[str, Any]]:
    """The documents in the order of the corpus, and the rows that say why each is there."""
    names = list(reasons)
    position_P = np.concatenate([_NONE, *reasons.values()])
    name_P = np.repeat(np.arange(len(names)), [len(positions) for positions in reasons.values()])
    order_P = np.lexsort((name_P, position_P))
    members_N, count_N = np.unique(position_P, return_counts=True)
    texts = pa.array(names, pa.string()).take(pa.array(name_P[order_P], pa.int64()))
    offsets = pa.array([0, *np.cumsum(count_N).tolist()], pa.int32())
    ids = take_values(collection.corpus["id"], members_N)
    return members_N, {"document_id": ids, "reasons": pa.ListArray.from_arrays(offsets, texts)}
