"""What one evaluation leaves in the sweep folder: norms, judgements, embeddings, run files, measures of each query.

Shapes: Q queries, D documents of a shard, H embedding size.
"""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from results.layout import LAST_EMBEDDINGS, embeddings_prefix, judgement_rows, norm_rows, per_query_rows, run_file
from results.rows import write_rows
from results.store import Store
from search_spaces.identity import encoding_id, evaluation_id
from search_spaces.specs import SimilaritySpec
from trainers.arrays import FloatMatrix, Indices
from trainers.data_sets.rows import take_values
from trainers.encoders.encoder import Side
from trainers.evaluation.asked_collection import AskedCollection
from trainers.evaluation.evaluation_rows import judgement_columns, norm_columns, per_query_columns
from trainers.evaluation.kept_embeddings import keep_part
from trainers.evaluation.measures import QueryValue
from trainers.evaluation.run_files import packed_run
from trainers.evaluation.stream import Evaluated
from trainers.provenance import provenance


class EvaluationWriter:
    """Writes for one checkpoint and one data set; `verify` is called before each write."""

    def __init__(self, checkpoint: str, asked: AskedCollection, *, store: Store, verify: Callable[[], None]) -> None:
        self._checkpoint = checkpoint
        self._asked = asked
        self._evaluation = asked.evaluation
        self._encoding = encoding_id(checkpoint, asked.evaluation)
        self._store = store
        self._verify = verify

    def write(
        self,
        found: Evaluated,
        values: Mapping[float, Sequence[QueryValue]],
        similarities: Sequence[SimilaritySpec],
    ) -> None:
        """Write what a pass found, and the measures under each gamma_d as rows of each similarity.

        The rows of a similarity come last: they say that all is there.
        """
        if self._evaluation.keep_embeddings:
            query_ids = pa.array(self._asked.queries.ids, pa.string())
            self._keep_part(LAST_EMBEDDINGS, "query", query_ids, found.query_QH, found.query_norm_Q)
        self._write_norms(found)
        self._write_judgements()
        for similarity in similarities:
            if self._evaluation.keeps_runs:
                self._write_run(found, similarity)
            self._write_measures(similarity, values[similarity.gamma_d])

    def keep_documents(self, number: int, position_D: Indices, vector_DH: FloatMatrix, norm_D: FloatMatrix) -> None:
        """Write the embeddings of the documents of a shard, which stand at these positions in the corpus."""
        ids = take_values(self._asked.document_ids, position_D)
        self._keep_part(f"{number:06d}", "document", ids, vector_DH, norm_D)

    def forget_documents(self) -> None:
        """Delete the embeddings of another pass, which may have shared its passages with other data sets."""
        if self._evaluation.keep_embeddings:
            self._verify()
            self._store.delete(embeddings_prefix(self._encoding))

    def _keep_part(
        self, part: str, side: Side, ids: pa.Array | pa.ChunkedArray, vector_DH: FloatMatrix, norm_D: FloatMatrix
    ) -> None:
        self._verify()
        keep_part(self._store, self._checkpoint, self._evaluation, part, side, ids, vector_DH, norm_D)

    def _write_norms(self, found: Evaluated) -> None:
        columns = norm_columns(
            self._checkpoint,
            self._evaluation,
            query_ids=self._asked.queries.ids,
            query_norm_Q=found.query_norm_Q,
            document_ids=self._asked.document_ids,
            document_norm_N=found.document_norm_N,
        )
        self._verify()
        write_rows(self._store, norm_rows(self._encoding), "norms", columns, provenance_json=provenance().to_json())

    def _write_judgements(self) -> None:
        """What the norms of relevant and irrelevant documents are told apart by; the same for every checkpoint."""
        data = self._evaluation.data
        key = judgement_rows(data)
        if not self._store.exists(key):
            columns = judgement_columns(str(data.content_hash), self._asked.queries.qrels)
            self._verify()
            write_rows(self._store, key, "judgements", columns)

    def _write_run(self, found: Evaluated, similarity: SimilaritySpec) -> None:
        key = evaluation_id(self._checkpoint, self._evaluation, similarity)
        rankings = found.rankings[similarity.gamma_d].under(similarity.gamma_q, found.query_norm_Q)
        packed = packed_run(
            query_ids=self._asked.queries.ids,
            document_ids=self._asked.document_ids,
            document_QK=rankings.document_QK,
            score_QK=rankings.score_QK,
            tag=key,
        )
        self._verify()
        self._store.write(run_file(key), packed)

    def _write_measures(self, similarity: SimilaritySpec, values: Sequence[QueryValue]) -> None:
        columns = per_query_columns(self._checkpoint, self._evaluation, similarity, values)
        key = per_query_rows(evaluation_id(self._checkpoint, self._evaluation, similarity))
        self._verify()
        write_rows(self._store, key, "per_query", columns, provenance_json=provenance().to_json())
