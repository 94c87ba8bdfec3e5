"""BRIGHT (arXiv 2407.12883), its short documents: 12 domains whose questions need reasoning to see what answers them.

Of each query the documents in `excluded_ids` are taken out before the cut. The revision is the one whose card counts
1,384 queries. BM25 is Lucene's, as Pyserini reproduces it. The instructions are the benchmark's.
"""

from search_spaces.catalogue.data_sets.entry import Counts, DataSet, SplitCounts
from search_spaces.catalogue.data_sets.figures import lucene_figure

_REPOSITORY = "hf:xlangai/BRIGHT@0dc152a5d69327d457c0390c692baf8e5808424b"
_POST = "Represent this {} post for searching relevant passages:"
_MATH = "Represent this Math problem for searching relevant {}:"


def _domain(
    domain: str, *, documents: int, queries: int, bm25: float, size_bytes: int, instruction: str = _POST
) -> DataSet:
    return DataSet(
        name=f"bright_{domain}",
        source=_REPOSITORY,
        config=domain,
        reader="bright",
        measures=("nDCG@10", "R@100"),
        exclusion="excluded_ids",
        licence="CC BY 4.0",
        counts=Counts(num_documents=documents, splits=(SplitCounts(name="test", num_queries=queries),)),
        reference=(lucene_figure("nDCG@10", "test", bm25, source="Pyserini's reproductions of BRIGHT (BM25)"),),
        groups=("bright",),
        instruction=instruction.format(domain),
        size_bytes=size_bytes,
    )


ENTRIES = (
    _domain("biology", documents=57_359, queries=103, bm25=0.1824, size_bytes=22_310_171),
    _domain("earth_science", documents=121_249, queries=116, bm25=0.2791, size_bytes=47_233_112),
    _domain("economics", documents=50_220, queries=103, bm25=0.1645, size_bytes=23_114_546),
    _domain("psychology", documents=52_835, queries=101, bm25=0.1342, size_bytes=23_453_476),
    _domain("robotics", documents=61_961, queries=101, bm25=0.1091, size_bytes=21_085_247),
    _domain("stackoverflow", documents=107_081, queries=117, bm25=0.1626, size_bytes=190_203_948),
    _domain("sustainable_living", documents=60_792, queries=108, bm25=0.1613, size_bytes=24_710_285),
    _domain(
        "leetcode",
        documents=413_932,
        queries=142,
        bm25=0.2471,
        size_bytes=457_793_973,
        instruction="Represent this Coding problem for searching relevant examples:",
    ),
    _domain(
        "pony",
        documents=7_894,
        queries=112,
        bm25=0.0434,
        size_bytes=2_500_166,
        instruction="Represent this Pony question for searching relevant passages:",
    ),
    _domain(
        "aops",
        documents=188_002,
        queries=111,
        bm25=0.0645,
        size_bytes=160_546_277,
        instruction=_MATH.format("examples"),
    ),
    _domain(
        "theoremqa_questions",
        documents=188_002,
        queries=194,
        bm25=0.0733,
        size_bytes=159_375_260,
        instruction=_MATH.format("examples"),
    ),
    _domain(
        "theoremqa_theorems",
        documents=23_839,
        queries=76,
        bm25=0.0214,
        size_bytes=21_382_264,
        instruction=_MATH.format("theorems"),
    ),
)
