"""A search of a whole corpus by one call, as tests and benches ask for it."""

from collections.abc import Iterable, Iterator, Sequence

from trainers.arrays import AnyFloats, FloatMatrix
from trainers.search import BLOCK_DOCUMENTS, MEMORY_BUDGET_BYTES, Backend, Block, Rankings, Searcher, tie_ranks
from trainers.search.order import Ids


def in_blocks(vectors_NH: AnyFloats, num_rows: int = BLOCK_DOCUMENTS) -> Iterator[Block]:
    """Raw embeddings of a corpus, which may be memory-mapped, at most `num_rows` at a time."""
    for start in range(0, len(vectors_NH), num_rows):
        yield Block(first=start, vector_DH=vectors_NH[start : start + num_rows])


def search(
    query_QH: FloatMatrix,
    blocks: Iterable[Block | AnyFloats],
    k: int,
    *,
    document_ids: Ids,
    gamma_d: float = 0.0,
    excluded: Sequence[Sequence[int]] | None = None,
    memory_budget_bytes: int = MEMORY_BUDGET_BYTES,
    backend: Backend | None = None,
) -> Rankings:
    """The k documents of highest score for each query; ties by id descending. Else as `Searcher`."""
    searcher = Searcher(
        query_QH,
        k,
        tie_rank_N=tie_ranks(document_ids),
        gammas_d=(gamma_d,),
        excluded=excluded,
        memory_budget_bytes=memory_budget_bytes,
        backend=backend,
    )
    for block in blocks:
        searcher.add(block)
    return searcher.rankings()[gamma_d]
