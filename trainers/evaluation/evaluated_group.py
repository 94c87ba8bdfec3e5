"""Data sets that share a pass over their passages, from collections to rows. Where it is interrupted, it goes on.

Ranking depends on gamma_d alone (the query's norm scales all of its scores alike), so similarities that share it share
one search and one ranking: dot and qnorm, cosine and dnorm.

Shapes: Q queries, D documents of a shard, H embedding size.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import pyarrow as pa

from results.layout import (
    LAST_EMBEDDINGS,
    embeddings_prefix,
    judgement_rows,
    norm_rows,
    per_query_rows,
    run_file,
    unfinished_prefix,
)
from results.rows import write_rows
from results.store import Store
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.specs import EvaluationSpec, Precision, SimilaritySpec
from trainers.arrays import FloatMatrix, Indices
from trainers.data_sets.rows import take_values
from trainers.encoders.encoder import Encoder, Side
from trainers.evaluation.collection_search import query_values, searched_collection
from trainers.evaluation.corpus_pass import Shards, ShardSearch, search_corpora
from trainers.evaluation.counted_order import order_digest
from trainers.evaluation.encoding_meter import EncodingMeter
from trainers.evaluation.evaluation_rows import judgement_columns, norm_columns, per_query_columns
from trainers.evaluation.evaluations import Wanted
from trainers.evaluation.found_documents import keep_found, kept_found
from trainers.evaluation.judged_queries import split_queries
from trainers.evaluation.kept_embeddings import keep_part
from trainers.evaluation.measures import QueryValue, depth
from trainers.evaluation.pools import load_searched, searched_hashes
from trainers.evaluation.qa import Answering, answer_missing
from trainers.evaluation.reader import Readers
from trainers.evaluation.run_files import packed_run
from trainers.evaluation.shard_queue import NOBODY, Helpers
from trainers.evaluation.shared_texts import TextOrder, text_order
from trainers.evaluation.snapshots import StoredSnapshots
from trainers.evaluation.stream import Evaluated, Searched
from trainers.provenance import provenance
from trainers.search import BLOCK_DOCUMENTS


class EvaluatedGroup:
    """Data sets that share a pass: what it needs, and the rows that come of it."""

    def __init__(
        self,
        checkpoint: str,
        wanted: Wanted,
        *,
        store: Store,
        verify: Callable[[], None],
        readers: Readers | None = None,
        helpers: Helpers = NOBODY,
    ) -> None:
        """Take what `evaluate_all` takes; `readers` only where questions are to be answered."""
        self._checkpoint = checkpoint
        self._wanted = wanted
        self._store = store
        self._verify = verify
        self._readers = readers
        self._helpers = helpers
        self._collections = {evaluation: load_searched(evaluation, store) for evaluation in wanted}
        self._queries = {
            e: split_queries(collection, e.data.split, e.data.entry.exclusion)
            for e, collection in self._collections.items()
        }

    def run(self, encoder: Encoder, name: str, say: Callable[[str], None]) -> None:
        """Encode, search, measure, write."""
        order = self._order()
        num_queries = sum(len(queries.ids) for queries in self._queries.values())
        snapshots = StoredSnapshots(self._store, self._snapshot_key(), verify=self._verify)
        searched = [self._searched(evaluation) for evaluation in self._wanted]
        if snapshots.last([data_set.gammas_d for data_set in searched]) is None:
            self._forget_embeddings()
        meter = EncodingMeter(name, len(order) + num_queries, say)
        found = search_corpora(
            encoder,
            searched,
            order,
            precision=self._precision,
            snapshots=snapshots,
            memory_budget_bytes=self._memory_budget_bytes,
            progress=meter,
            skipped=meter.skip,
            helping=partial(self._helpers.helping, self._wanted, self.order_digest),
        )
        values = [self._values(evaluation, of) for evaluation, of in zip(self._wanted, found, strict=True)]
        documents = [{g: rankings.document_QK for g, rankings in of.rankings.items()} for of in found]
        for evaluation, document_QK in zip(self._wanted, documents, strict=True):
            if evaluation.rag:
                self._verify()
                keep_found(self._store, self._checkpoint, evaluation, self._order_digests[evaluation], document_QK)
        for evaluation, of, by_gamma_d in zip(self._wanted, found, values, strict=True):
            self._write(evaluation, of, by_gamma_d)
        for evaluation, document_QK in zip(self._wanted, documents, strict=True):
            self._answer(evaluation, document_QK, say)

    def answer_kept(self, say: Callable[[str], None]) -> bool:
        """Let questions be answered from what a pass that died since has found, if all of that was kept; whether so."""
        kept = {
            evaluation: kept_found(
                self._store,
                self._checkpoint,
                evaluation,
                self._order_digests[evaluation],
                [similarity.gamma_d for similarity in similarities],
            )
            for evaluation, similarities in self._wanted.items()
        }
        found = {evaluation: document_QK for evaluation, document_QK in kept.items() if document_QK is not None}
        if len(found) < len(kept):
            return False
        for evaluation, document_QK in found.items():
            self._answer(evaluation, document_QK, say)
        return True

    def shard_search(self, encoder: Encoder, query_SQH: Sequence[FloatMatrix], shard_texts: int) -> ShardSearch:
        """What a helper of another process's `run` does."""
        searched = [self._searched(evaluation) for evaluation in self._wanted]
        shards = Shards([data_set.corpus for data_set in searched], self._order(), shard_texts)
        return ShardSearch(
            encoder,
            searched,
            shards,
            query_SQH,
            precision=self._precision,
            memory_budget_bytes=self._memory_budget_bytes,
        )

    @cached_property
    def order_digest(self) -> str:
        """By which order of rows this group counts; who helps it must count by the same."""
        return hashlib.sha256(" ".join(self._order_digests.values()).encode()).hexdigest()

    @cached_property
    def _order_digests(self) -> Mapping[EvaluationSpec, str]:
        return {
            evaluation: order_digest(
                self._queries[evaluation].ids, collection.corpus["id"], searched_hashes(evaluation, collection.corpus)
            )
            for evaluation, collection in self._collections.items()
        }

    @property
    def _precision(self) -> Precision:
        return next(iter(self._wanted)).precision

    @property
    def _memory_budget_bytes(self) -> int | None:
        return next(iter(self._wanted)).memory_budget_bytes

    def _order(self) -> TextOrder:
        return text_order(
            [searched_hashes(evaluation, collection.corpus) for evaluation, collection in self._collections.items()]
        )

    def _searched(self, evaluation: EvaluationSpec) -> Searched:
        gammas_d = list(dict.fromkeys(similarity.gamma_d for similarity in self._wanted[evaluation]))
        keep = partial(self._keep_documents, evaluation) if evaluation.keep_embeddings else None
        return searched_collection(evaluation, self._collections[evaluation], self._queries[evaluation], gammas_d, keep)

    def _snapshot_key(self) -> str:
        """It names all that a snapshot depends on but the gamma_d, which differ with the rows that are missing."""
        parts = [str(BLOCK_DOCUMENTS), self.order_digest]
        for evaluation in self._wanted:
            entry = evaluation.data.entry
            kept = str(evaluation.keep_embeddings)  # or a pass that kept none would be taken for one that did
            parts += [encoding_id(self._checkpoint, evaluation), entry.exclusion, str(depth(entry.measures)), kept]
        digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
        return f"{unfinished_prefix(self._checkpoint)}/{digest}.npz"

    def _values(self, evaluation: EvaluationSpec, found: Evaluated) -> Mapping[float, list[QueryValue]]:
        collection, queries = self._collections[evaluation], self._queries[evaluation]
        return {
            gamma_d: query_values(rankings, collection, queries, evaluation)
            for gamma_d, rankings in found.rankings.items()
        }

    def _write(
        self, evaluation: EvaluationSpec, found: Evaluated, values: Mapping[float, Sequence[QueryValue]]
    ) -> None:
        queries, made_by = self._queries[evaluation], provenance().to_json()
        encoding = encoding_id(self._checkpoint, evaluation)
        if evaluation.keep_embeddings:
            query_ids = pa.array(queries.ids, pa.string())
            self._keep(evaluation, LAST_EMBEDDINGS, "query", query_ids, found.query_QH, found.query_norm_Q)
        norms = norm_columns(
            self._checkpoint,
            evaluation,
            query_ids=queries.ids,
            query_norm_Q=found.query_norm_Q,
            document_ids=self._collections[evaluation].corpus["id"],
            document_norm_N=found.document_norm_N,
        )
        self._verify()
        write_rows(self._store, norm_rows(encoding), "norms", norms, provenance_json=made_by)
        self._keep_judgements(evaluation)
        for similarity in self._wanted[evaluation]:
            self._keep_run(evaluation, found, similarity)
            rows = per_query_columns(self._checkpoint, evaluation, similarity, values[similarity.gamma_d])
            key = per_query_rows(evaluation_id(self._checkpoint, evaluation, similarity))
            self._verify()
            write_rows(self._store, key, "per_query", rows, provenance_json=made_by)

    def _keep_judgements(self, evaluation: EvaluationSpec) -> None:
        """What the norms of relevant and irrelevant documents are told apart by; the same for every checkpoint."""
        data = evaluation.data
        key = judgement_rows(data)
        if not self._store.exists(key):
            columns = judgement_columns(str(data.content_hash), self._queries[evaluation].qrels)
            write_rows(self._store, key, "judgements", columns)

    def _keep_run(self, evaluation: EvaluationSpec, found: Evaluated, similarity: SimilaritySpec) -> None:
        """The rankings as a run file, where they are to be kept: before the rows, which say that all is there."""
        if not evaluation.keeps_runs:
            return
        key = evaluation_id(self._checkpoint, evaluation, similarity)
        rankings = found.rankings[similarity.gamma_d].under(similarity.gamma_q, found.query_norm_Q)
        packed = packed_run(
            query_ids=self._queries[evaluation].ids,
            document_ids=self._collections[evaluation].corpus["id"],
            document_QK=rankings.document_QK,
            score_QK=rankings.score_QK,
            tag=key,
        )
        self._verify()
        self._store.write(run_file(key), packed)

    def _answer(
        self, evaluation: EvaluationSpec, document_QK: Mapping[float, Indices], say: Callable[[str], None]
    ) -> None:
        """Let the questions be answered from what was found under each gamma_d, where that is asked for."""
        if evaluation.rag is None:
            return
        assert self._readers is not None, "who asks for answers gives readers"
        answer_missing(
            self._checkpoint,
            evaluation,
            {s: document_QK[s.gamma_d] for s in self._wanted[evaluation]},
            self._collections[evaluation],
            self._queries[evaluation],
            Answering(store=self._store, readers=self._readers, verify=self._verify, say=say),
        )

    def _keep_documents(
        self, evaluation: EvaluationSpec, number: int, position_D: Indices, vector_DH: FloatMatrix, norm_D: FloatMatrix
    ) -> None:
        ids = take_values(self._collections[evaluation].corpus["id"], position_D)
        self._keep(evaluation, f"{number:06d}", "document", ids, vector_DH, norm_D)

    def _keep(
        self,
        evaluation: EvaluationSpec,
        part: str,
        side: Side,
        ids: pa.Array | pa.ChunkedArray,
        vector_DH: FloatMatrix,
        norm_D: FloatMatrix,
    ) -> None:
        self._verify()
        keep_part(self._store, self._checkpoint, evaluation, part, side, ids, vector_DH, norm_D)

    def _forget_embeddings(self) -> None:
        """Parts of another pass, which may have shared its passages with other data sets."""
        self._verify()
        for evaluation in self._wanted:
            if evaluation.keep_embeddings:
                self._store.delete(embeddings_prefix(encoding_id(self._checkpoint, evaluation)))
