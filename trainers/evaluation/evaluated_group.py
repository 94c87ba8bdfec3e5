"""Data sets that share a pass over their passages, from collections to rows. Where it is interrupted, it goes on.

Ranking depends on gamma_d alone (the query's norm scales all of its scores alike), so similarities that share it share
one search and one ranking: dot and qnorm, cosine and dnorm.

Shapes: Q queries, H embedding size.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

from results.store import Store
from search_spaces.specs import EvaluationSpec
from trainers.arrays import FloatMatrix, Indices
from trainers.encoders.encoder import Encoder
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.collection_search import query_values, searched_collection
from trainers.evaluation.corpus_pass import PassHooks, Shards, ShardSearch, search_corpora
from trainers.evaluation.encoding_meter import EncodingMeter
from trainers.evaluation.evaluation_writer import EvaluationWriter
from trainers.evaluation.evaluations import Wanted
from trainers.evaluation.found_documents import keep_found, kept_found
from trainers.evaluation.qa import Answering, answer_missing
from trainers.evaluation.reader import Readers
from trainers.evaluation.shard_queue import NOBODY, Helpers
from trainers.evaluation.shared_texts import TextOrder, text_order
from trainers.evaluation.snapshots import StoredSnapshots
from trainers.evaluation.stream import Evaluated, Searched
from trainers.evaluation.unfinished import digest_of, ranking_parts, unfinished_key
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
        self._asked = {evaluation: AskedCollection.searched(evaluation, store) for evaluation in wanted}
        self._writers = {
            evaluation: EvaluationWriter(checkpoint, asked, store=store, verify=verify)
            for evaluation, asked in self._asked.items()
        }

    def run(self, encoder: Encoder, name: str, say: Callable[[str], None]) -> None:
        """Encode, search, measure, write."""
        found = self._search(encoder, name, say)
        values = {
            evaluation: {g: query_values(r, self._asked[evaluation]) for g, r in of.rankings.items()}
            for evaluation, of in found.items()
        }
        documents = {e: {g: rankings.document_QK for g, rankings in of.rankings.items()} for e, of in found.items()}
        for evaluation, document_QK in documents.items():
            if evaluation.rag:
                self._verify()
                order = self._asked[evaluation].order_digest
                keep_found(self._store, self._checkpoint, evaluation, order, document_QK)
        for evaluation, of in found.items():
            self._writers[evaluation].write(of, values[evaluation], self._wanted[evaluation])
        for evaluation, document_QK in documents.items():
            self._answer(evaluation, document_QK, say)

    def answer_kept(self, say: Callable[[str], None]) -> bool:
        """Let questions be answered from what a pass that died since has found, if all of that was kept; whether so."""
        kept = {
            evaluation: kept_found(
                self._store,
                self._checkpoint,
                evaluation,
                self._asked[evaluation].order_digest,
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
        searched = list(map(self._searched, self._wanted))
        shards = Shards([data_set.corpus for data_set in searched], self._text_order(), shard_texts)
        return ShardSearch(
            encoder,
            searched,
            shards,
            query_SQH,
            precision=self._any.precision,
            memory_budget_bytes=self._any.memory_budget_bytes,
        )

    @cached_property
    def order_digest(self) -> str:
        """By which order of rows this group counts; who helps it must count by the same."""
        return digest_of(asked.order_digest for asked in self._asked.values())

    @property
    def _any(self) -> EvaluationSpec:
        """One of the evaluations: they share precision and memory budget."""
        return next(iter(self._wanted))

    def _search(self, encoder: Encoder, name: str, say: Callable[[str], None]) -> Mapping[EvaluationSpec, Evaluated]:
        order = self._text_order()
        num_queries = sum(len(asked.queries.ids) for asked in self._asked.values())
        found = search_corpora(
            encoder,
            list(map(self._searched, self._wanted)),
            order,
            precision=self._any.precision,
            memory_budget_bytes=self._any.memory_budget_bytes,
            hooks=PassHooks(
                snapshots=StoredSnapshots(self._store, self._snapshot_key(), verify=self._verify),
                start_anew=self._forget_embeddings,
                meter=EncodingMeter(name, len(order) + num_queries, say),
                helping=partial(self._helpers.helping, self._wanted, self.order_digest),
            ),
        )
        return dict(zip(self._wanted, found, strict=True))

    def _text_order(self) -> TextOrder:
        return text_order([asked.hash_N2 for asked in self._asked.values()])

    def _searched(self, evaluation: EvaluationSpec) -> Searched:
        gammas_d = list(dict.fromkeys(similarity.gamma_d for similarity in self._wanted[evaluation]))
        keep = self._writers[evaluation].keep_documents if evaluation.keep_embeddings else None
        return searched_collection(self._asked[evaluation], gammas_d, keep)

    def _snapshot_key(self) -> str:
        """It names all that a snapshot depends on but the gamma_d, which differ with the rows that are missing."""
        parts = [str(BLOCK_DOCUMENTS), self.order_digest]
        for evaluation in self._wanted:
            kept = str(evaluation.keep_embeddings)  # or a pass that kept none would be taken for one that did
            parts += [*ranking_parts(self._checkpoint, evaluation), kept]
        return unfinished_key(self._checkpoint, "snapshot", parts)

    def _answer(
        self, evaluation: EvaluationSpec, document_QK: Mapping[float, Indices], say: Callable[[str], None]
    ) -> None:
        """Let the questions be answered from what was found under each gamma_d, where that is asked for."""
        if evaluation.rag is None:
            return
        assert self._readers is not None, "who asks for answers gives readers"
        answer_missing(
            self._checkpoint,
            self._asked[evaluation],
            {s: document_QK[s.gamma_d] for s in self._wanted[evaluation]},
            Answering(store=self._store, readers=self._readers, verify=self._verify, say=say),
        )

    def _forget_embeddings(self) -> None:
        for writer in self._writers.values():
            writer.forget_documents()
