"""CQADupStack, the 14th of BEIR's sets: 12 forums, each a collection of its own, whose unweighted mean is the set."""

from search_spaces.catalogue.data_sets.beir import beir_entry

_NAME = "cqadupstack"
_INSTRUCTION = (
    "Given a question, retrieve detailed question descriptions from Stackexchange that are duplicates to the given "
    "question"
)
_FORUMS = (  # forum, repository, revision, documents, queries, relevant, BM25, size in bytes
    (
        "android",
        "CQADupstackAndroidRetrieval",
        "9be4c0e46342e8e3aff577a89b9a1ec9bc6b4af3",
        22_998,
        699,
        1_696,
        0.3801,
        13_713_138,
    ),
    (
        "english",
        "cqadupstack-english",
        "ad9991cb51e31e31e430383c75ffb2885547b5f0",
        40_221,
        1_570,
        3_765,
        0.3453,
        19_521_561,
    ),
    (
        "gaming",
        "cqadupstack-gaming",
        "4885aa143210c98657558c04aaf3dc47cfb54340",
        45_301,
        1_595,
        2_263,
        0.4822,
        22_263_561,
    ),
    ("gis", "cqadupstack-gis", "5003b3064772da1887988e05400cf3806fe491f2", 37_637, 885, 1_114, 0.2901, 38_178_790),
    (
        "mathematica",
        "cqadupstack-mathematica",
        "90fceea13679c63fe563ded68f3b6f06e50061de",
        16_705,
        804,
        1_358,
        0.2015,
        19_325_187,
    ),
    (
        "physics",
        "cqadupstack-physics",
        "79531abbd1fb92d06c6d6315a0cbbbf5bb247ea4",
        38_316,
        1_039,
        1_933,
        0.3214,
        31_461_063,
    ),
    (
        "programmers",
        "cqadupstack-programmers",
        "6184bc1440d2dbc7612be22b50686b8826d22b32",
        32_176,
        876,
        1_675,
        0.2802,
        34_048_826,
    ),
    ("stats", "cqadupstack-stats", "65ac3a16b8e91f9cee4c9828cc7c335575432a2a", 42_269, 652, 913, 0.2711, 44_679_833),
    ("tex", "cqadupstack-tex", "46989137a86843e03a6195de44b09deda022eec7", 68_184, 2_906, 5_154, 0.2244, 88_645_388),
    ("unix", "cqadupstack-unix", "6c6430d3a6d36f8d2a829195bc5dc94d7e063e53", 47_382, 1_072, 1_693, 0.2749, 47_711_332),
    (
        "webmasters",
        "cqadupstack-webmasters",
        "160c094312a0e1facb97e55eeddb698c0abe3571",
        17_405,
        506,
        1_395,
        0.3059,
        12_355_346,
    ),
    (
        "wordpress",
        "cqadupstack-wordpress",
        "4ffe81d471b1924886b33c7567bfb200e9eec5c4",
        48_605,
        541,
        744,
        0.2483,
        54_647_152,
    ),
)

ENTRIES = tuple(
    beir_entry(
        f"{_NAME}-{forum}",
        f"{repository}@{revision}",
        documents=documents,
        queries=queries,
        relevant=relevant,
        bm25=bm25,
        size_bytes=size_bytes,
        licence="Apache-2.0",
        instruction=_INSTRUCTION,
        part_of=_NAME,
    )
    for forum, repository, revision, documents, queries, relevant, bm25, size_bytes in _FORUMS
)
