"""BEIR (arXiv 2104.08663): 13 collections; the 14th, CQADupStack, has a module of its own.

Revisions are those of MTEB's copies; counts are those that MTEB and ir_datasets agree on, grade 0 apart, which not all
copies have. BM25 is Lucene's over title and text as one field, as Pyserini reproduces it. HotpotQA and NQ are question
answering sets too: see `qa`, which holds where their gold answers lie.
"""

from search_spaces.catalogue.data_sets.entry import Answers, Counts, DataSet, Exclusion, SplitCounts
from search_spaces.catalogue.data_sets.figures import lucene_figure
from search_spaces.catalogue.data_sets.qa import HOTPOTQA_ANSWERS, NQ_ANSWERS

_PYSERINI = "Pyserini's reproductions of BEIR v1.0.0 (BM25 flat)"
_NOT_STATED = "not stated"
_CLAIM = "Given a claim, retrieve documents that support or refute the claim"


def beir_entry(
    name: str,
    repository: str,
    *,
    documents: int,
    queries: int,
    relevant: int,
    bm25: float,
    size_bytes: int,
    licence: str,
    instruction: str,
    exclusion: Exclusion = "none",
    groups: tuple[str, ...] = ("beir",),
    part_of: str | None = None,
    answers: Answers | None = None,
) -> DataSet:
    """One collection's test split; `repository` is NAME@REVISION among MTEB's."""
    return DataSet(
        name=name,
        source=f"hf:mteb/{repository}",
        config="default",
        reader="hub_retrieval",
        exclusion=exclusion,
        licence=licence,
        counts=Counts(
            num_documents=documents,
            splits=(SplitCounts(name="test", num_queries=queries, num_relevant=relevant),),
        ),
        reference=(lucene_figure("nDCG@10", "test", bm25, source=_PYSERINI),),
        groups=groups,
        part_of=part_of,
        instruction=instruction,
        answers=answers,
        size_bytes=size_bytes,
    )


ENTRIES = (
    beir_entry(
        "arguana",
        "arguana@c22ab2a51041ffd869aaddef7af8d8215647e41a",
        documents=8_674,
        queries=1_406,
        relevant=1_406,
        bm25=0.397,
        size_bytes=10_607_229,
        licence="CC BY-SA 4.0",
        instruction="Given a claim, find documents that refute the claim",
        exclusion="query_id",  # each query is itself an argument of the corpus
    ),
    beir_entry(
        "climate-fever",
        "climate-fever@47f2ac6acb640fc46020b02a5b59fdda04d39380",
        documents=5_416_593,
        queries=1_535,
        relevant=4_681,
        bm25=0.1651,
        size_bytes=2_921_022_745,
        licence="CC BY-SA 4.0",
        instruction="Given a claim about climate change, retrieve documents that support or refute the claim",
    ),
    beir_entry(
        "dbpedia-entity",
        "dbpedia@c0f706b76e590d620bd6618b3ca8efdd34e2d659",
        documents=4_635_922,
        queries=400,
        relevant=15_286,
        bm25=0.318,
        size_bytes=1_437_950_788,
        licence="MIT",
        instruction="Given a query, retrieve relevant entity descriptions from DBPedia",
    ),
    beir_entry(
        "fever",
        "fever@bea83ef9e8fb933d90a2f1d5515737465d613e12",
        documents=5_416_568,
        queries=6_666,
        relevant=7_937,
        bm25=0.6513,
        size_bytes=2_921_107_907,
        licence="CC BY-NC-SA 3.0",
        instruction=_CLAIM,
    ),
    beir_entry(
        "fiqa",
        "fiqa@27a168819829fe9bcd655c2df245fb19452e8e06",
        documents=57_638,
        queries=648,
        relevant=1_706,
        bm25=0.2361,
        size_bytes=44_261_129,
        licence=_NOT_STATED,
        instruction="Given a financial question, retrieve user replies that best answer the question",
    ),
    beir_entry(
        "hotpotqa",
        "hotpotqa@ab518f4d6fcca38d87c25209f94beba119d02014",
        documents=5_233_329,
        queries=7_405,
        relevant=14_810,
        bm25=0.633,
        size_bytes=1_512_632_794,
        licence="CC BY-SA 4.0",
        instruction="Given a multi-hop question, retrieve documents that can help answer the question",
        groups=("beir", "multi_hop", "qa"),
        answers=HOTPOTQA_ANSWERS,
    ),
    beir_entry(
        "nfcorpus",
        "nfcorpus@ec0fa4fe99da2ff19ca1214b7966684033a58814",
        documents=3_633,
        queries=323,
        relevant=12_334,
        bm25=0.3218,
        size_bytes=5_786_348,
        licence=_NOT_STATED,
        instruction="Given a question, retrieve relevant documents that best answer the question",
    ),
    beir_entry(
        "nq",
        "nq@b774495ed302d8c44a3a7ea25c90dbce03968f31",
        documents=2_681_468,
        queries=3_452,
        relevant=4_201,
        bm25=0.3055,
        size_bytes=1_322_743_011,
        licence="CC BY-NC-SA 3.0",
        instruction="Given a question, retrieve Wikipedia passages that answer the question",
        groups=("beir", "qa"),
        answers=NQ_ANSWERS,
    ),
    beir_entry(
        "quora",
        "quora@e4e08e0b7dbe3c8700f0daef558ff32256715259",
        documents=522_931,
        queries=10_000,
        relevant=15_675,
        bm25=0.7886,
        size_bytes=33_019_792,
        licence=_NOT_STATED,
        instruction="Given a question, retrieve questions that are semantically equivalent to the given question",
        exclusion="query_id",  # each query is itself a question of the corpus
    ),
    beir_entry(
        "scidocs",
        "scidocs@f8c2fcf00f625baaa80f62ec5bd9e1fff3b8ae88",
        documents=25_657,
        queries=1_000,
        relevant=4_928,
        bm25=0.149,
        size_bytes=30_971_706,
        licence="CC BY-SA 4.0",
        instruction="Given a scientific paper title, retrieve paper abstracts that are cited by the given paper",
    ),
    beir_entry(
        "scifact",
        "scifact@d56462d0e63a25450459c4f213e49ffdb866f7f9",
        documents=5_183,
        queries=300,
        relevant=339,
        bm25=0.6789,
        size_bytes=7_798_555,
        licence="CC BY-NC 4.0",
        instruction="Given a scientific claim, retrieve documents that support or refute the claim",
    ),
    beir_entry(
        "trec-covid",
        "trec-covid@bb9466bac8153a0349341eb1b22e06409e78ef4e",
        documents=171_332,
        queries=50,
        relevant=24_673,  # and two graded -1
        bm25=0.5947,
        size_bytes=191_466_532,
        licence=_NOT_STATED,
        instruction="Given a query on COVID-19, retrieve documents that answer the query",
    ),
    beir_entry(
        "webis-touche2020",
        "touche2020@a34f9a33db75fa0cbb21bb5cfc3dae8dc8bec93f",
        documents=382_545,
        queries=49,
        relevant=932,
        bm25=0.4422,
        size_bytes=658_104_319,
        licence="CC BY-SA 4.0",
        instruction="Given a question, retrieve detailed and persuasive arguments that answer the question",
    ),
)
