"""Multi-hop questions that come with paragraphs, all of which are the corpus; HotpotQA stands among BEIR's.

`config` is the pattern of the files that are read, in whatever folder. How the study made collections of these sets it
does not say: here they are the whole development sets, so that its figures are no check of them, and none other is
published.
"""

from search_spaces.catalogue.data_sets.entry import Counts, DataSet, SplitCounts, Unknown

_MEASURES = ("nDCG@10", "R@5", "R@100")
_NO_FIGURE = Unknown(
    what="reference", why="nobody is known to have published a figure of its whole development set as one corpus"
)
_INSTRUCTION = "Given a multi-hop question, retrieve documents that can help answer the question"

ENTRIES = (
    DataSet(
        name="2wikimultihopqa",
        source="hf:framolfese/2WikiMultihopQA@fe713bfbd1afbca1a65246741a75890405d56a3a",
        config="data/validation-*.parquet",
        reader="multi_hop",
        measures=_MEASURES,
        licence="Apache-2.0",
        counts=Counts(documents_per_query=10, splits=(SplitCounts(name="test", num_queries=12_576),)),
        unknown=(_NO_FIGURE,),
        groups=("multi_hop",),
        instruction=_INSTRUCTION,
        size_bytes=30_100_000,
    ),
    DataSet(
        name="musique",
        source="hf:dgslibisey/MuSiQue@c8f4f8c9465fb69d31a8eae894c3fd509c4ca321",
        config="musique_ans_v1.0_dev.jsonl",
        reader="multi_hop",
        measures=_MEASURES,
        licence="CC BY 4.0",
        counts=Counts(documents_per_query=20, splits=(SplitCounts(name="test", num_queries=2_417),)),
        unknown=(_NO_FIGURE,),
        groups=("multi_hop",),
        instruction=_INSTRUCTION,
        size_bytes=30_400_000,
    ),
    DataSet(
        name="novelhopqa",
        source="hf:abhaygupta1266/novelhopqa@unpinned",
        config="*hop_*",
        reader="multi_hop",
        measures=_MEASURES,
        licence="not stated",
        unknown=(
            Unknown(what="revision", why="its commits are not known here: the first that is fetched stays"),
            Unknown(what="counts", why="its authors round them (4,000 questions from 83 novels, arXiv 2506.02000)"),
            Unknown(what="reference", why="nobody is known to have published a figure of its passages as one corpus"),
        ),
        groups=("multi_hop",),
        instruction=_INSTRUCTION,
    ),
)
