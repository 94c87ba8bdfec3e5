"""MS MARCO passage ranking, and the two TREC Deep Learning tracks over its corpus.

All three name one corpus: a passage is encoded once for them. TREC's judges gave grades of 0 to 3, and binary measures
count those from 2 on, as the track's overview does. The figures are those of Anserini's regressions.
"""

from search_spaces.catalogue.data_sets.entry import Counts, DataSet, SplitCounts
from search_spaces.catalogue.data_sets.figures import lucene_figure

_CORPUS = "hf:mteb/msmarco@c5a29a104738b98a9e76336939199e264163d4a0"
_NUM_PASSAGES = 8_841_823
_SIZE_BYTES = 2_969_000_000  # characters of the passages
_LICENCE = "MS MARCO terms: non-commercial research only"
_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_ANSERINI = "Anserini's regressions of MS MARCO V1 passage (BM25, default)"


def _trec_dl(year: int, revision: str, num_queries: int, num_relevant: int, bm25: float) -> DataSet:
    """The topics that were judged; `num_relevant` are graded 1 to 3."""
    return DataSet(
        name=f"trec_dl_{year}",
        source=f"hf:whybe-choi/trec-dl-{year}@{revision}",
        config="default",
        reader="hub_retrieval",
        measures=("nDCG@10", "R@100", "RR@10", "AP@1000"),
        relevance_threshold=2,
        licence=f"{_LICENCE}; judgements by NIST, public",
        counts=Counts(
            num_documents=_NUM_PASSAGES,
            splits=(SplitCounts(name="test", num_queries=num_queries, num_relevant=num_relevant),),
        ),
        reference=(lucene_figure("nDCG@10", "test", bm25, source=_ANSERINI),),
        groups=("in_domain",),
        instruction=_INSTRUCTION,
        corpus_source=_CORPUS,
        size_bytes=_SIZE_BYTES,
    )


ENTRIES = (
    # The small development set. Its benchmark reports RR@10; the study reports nDCG@10, which is the main measure here,
    # so that a group has one measure.
    DataSet(
        name="msmarco_dev",
        source=_CORPUS,
        config="default",
        reader="hub_retrieval",
        test_split="dev",
        measures=("nDCG@10", "RR@10", "R@100"),
        licence=_LICENCE,
        counts=Counts(
            num_documents=_NUM_PASSAGES,
            splits=(SplitCounts(name="dev", num_queries=6_980, num_relevant=7_437),),
        ),
        reference=(lucene_figure("RR@10", "dev", 0.184, source=_ANSERINI),),
        groups=("in_domain",),
        instruction=_INSTRUCTION,
        size_bytes=_SIZE_BYTES,
    ),
    _trec_dl(2019, "cbb055c2528c544edf84db8ec6aef1885ec8cfda", 43, 4_102, 0.5058),
    _trec_dl(2020, "83d7d3532f3fa653f132da188bbaa852d959d6f9", 54, 3_606, 0.4796),
)
