"""Scored pairs for the symmetric task: STS Benchmark, SICK-R, STS 2012 to 2016, and AllNLI to train on.

Where there is no hub, the same pairs are read from files: an entry in the sweep file with `reader: sts` and a `path:`.
"""

from search_spaces.catalogue.data_sets.entry import SPEARMAN, Counts, DataSet, SplitCounts, Unknown
from search_spaces.catalogue.data_sets.figures import Encoder, ReferenceFigure


def _minilm(value: float) -> ReferenceFigure:
    """Published for all-MiniLM-L6-v2 (0 to 1)."""
    return ReferenceFigure(
        method=Encoder(kind="encoder", model="all-MiniLM-L6-v2", similarity="cosine", max_tokens=256),
        measure=SPEARMAN,
        split="test",
        value=value,
        tolerance=0.001,
        origin="published",
        source="MTEB's results of sentence-transformers/all-MiniLM-L6-v2",
    )


def _counts(**num_pairs: int) -> Counts:
    splits = tuple(SplitCounts(name=name, num_queries=num, num_judgements=num) for name, num in num_pairs.items())
    return Counts(num_documents=sum(num_pairs.values()), splits=splits)


def _sem_eval(year: int, revision: str, num_pairs: int, minilm: float) -> DataSet:
    """One year's task, all of its parts as one set."""
    return DataSet(
        name=f"sts{year}",
        source=f"hf:mteb/sts{year}-sts@{revision}",
        config="default",
        reader="sts",
        score_range=(0.0, 5.0),
        licence="not stated",
        counts=_counts(test=num_pairs),
        reference=(_minilm(minilm),),
        groups=("sts",),
    )


ENTRIES = (
    DataSet(
        name="stsb",
        source="hf:sentence-transformers/stsb@ab7a5ac0e35aa22088bdcf23e7fd99b220e53308",
        config="default",
        reader="sts",
        train_split="train",
        dev_split="validation",
        score_range=(0.0, 1.0),  # this copy has them divided by 5
        licence="CC BY-SA 4.0",
        counts=_counts(train=5_749, validation=1_500, test=1_379),
        reference=(_minilm(0.820),),
        groups=("sts",),
    ),
    DataSet(
        name="all_nli",
        source="hf:sentence-transformers/all-nli@d482672c8e74ce18da116f430137434ba2e52fab",
        config="pair-score",
        reader="sts",
        train_split="train",
        dev_split="dev",
        score_range=(0.0, 1.0),  # 0 contradiction, 0.5 neutral, 1 entailment
        licence="CC BY-SA 4.0 (SNLI); MultiNLI under the terms of its parts",
        counts=_counts(train=942_069, dev=19_657, test=19_656),
        unknown=(Unknown(what="reference", why="it is trained on: its labels are entailment, not similarity"),),
    ),
    # All 9,927 pairs of SICK as one split, as MTEB has it; SentEval's test split is 4,927 of them, on which the same
    # encoder has 0.772.
    DataSet(
        name="sickr",
        source="hf:mteb/sickr-sts@20a6d6f312dd54037fe07a32d58e5e168867909d",
        config="default",
        reader="sts",
        score_range=(1.0, 5.0),
        licence="CC BY-NC-SA 3.0",
        counts=_counts(test=9_927),
        reference=(_minilm(0.776),),
        groups=("sts",),
    ),
    _sem_eval(12, "a0d554a64d88156834ff5ae9920b964011b16384", 3_108, 0.724),
    _sem_eval(13, "7e90230a92c190f1bf69ae9002b8cea547a64cca", 1_500, 0.806),
    _sem_eval(14, "6031580fec1f6af667f0bd2da0a551cf4f0b2375", 3_750, 0.756),
    _sem_eval(15, "ae752c7c21bf194d8b67fd573edf7ae58183cbe3", 3_000, 0.854),
    _sem_eval(16, "4d8694f8f0e0100860b497b999b3dbed754a0513", 1_186, 0.790),
)
