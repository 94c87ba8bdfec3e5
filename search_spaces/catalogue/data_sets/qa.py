"""Question answering: where gold answers lie. NQ and HotpotQA are collections of BEIR, TriviaQA has a corpus alone.

The answers of NQ are those of its open form, which leaves out questions without a short answer.
"""

from search_spaces.catalogue.data_sets.entry import Answers, Counts, DataSet, SplitCounts, Unknown

_ANSWERS = "hf:RUC-NLPIR/FlashRAG_datasets@25fc653fd19ac639aa1ed40c0228cda477788510"
NQ_ANSWERS = Answers(source=_ANSWERS, file="nq/test.jsonl")
HOTPOTQA_ANSWERS = Answers(source=_ANSWERS, file="hotpotqa/dev.jsonl")

ENTRIES = (
    # Wikipedia of December 2018 in passages of 100 words, and the questions of the unfiltered test set. Nobody judged
    # passages for them, so that no ranking can be measured.
    DataSet(
        name="triviaqa",
        source="hf:Tevatron/wikipedia-trivia@a3896e5a56a47518ae9b9fb155f3144c28fe39dd",
        config="trivia-test",
        reader="open_qa",
        licence="not stated (questions); CC BY-SA (Wikipedia)",
        counts=Counts(num_documents=21_015_324, splits=(SplitCounts(name="test", num_queries=11_313),)),
        unknown=(
            Unknown(what="reference", why="nobody judged passages for its questions, so no ranking has a figure"),
        ),
        groups=("qa",),
        instruction="Given a question, retrieve Wikipedia passages that answer the question",
        corpus_source="hf:Tevatron/wikipedia-nq-corpus@2ae9349941741a6e188ddfa53a3a2073d30989f0",
        size_bytes=4_730_000_000,
    ),
)
