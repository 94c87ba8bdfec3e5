"""Cohen's d of the untrained encoder: how much longer documents are that answer a training query than others are.

d = (mean |d| of relevant - mean |d| of irrelevant documents) / pooled standard deviation, of raw embeddings. Relevant
are the documents of the probe's pairs; irrelevant are documents of the same corpus that no query of the training split
has as a relevant one. So d has no unit: it is in standard deviations of a document's norm on the training corpus.

Shapes: R relevant and I irrelevant documents.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainers.data_sets.collection import Collection, document_text, strings
from trainers.data_sets.rows import take_rows
from trainers.fisher.information import SAME_NORMS
from trainers.fisher.jackknife import Estimate, delete_group
from trainers.fisher.sizes import NUM_IRRELEVANT
from trainers.randomness import derived_seed

NUM_GROUPS = 32  # of documents, left out one at a time
MIN_GROUPS = 8
_DRAWN_AT_ONCE = 4 * NUM_IRRELEVANT  # some of them are relevant, or blank


def irrelevant_texts(collection: Collection, split: str, relevant: Sequence[str], *, threshold: int) -> list[str]:
    """Texts of NUM_IRRELEVANT documents of the corpus that are relevant to no query of the split, or as many there are.

    They are drawn by one seed among the documents' ids, for every model and seed of a sweep alike. Documents whose text
    is blank, or one of the `relevant` texts, are none of them.
    """
    qrels = collection.qrels[split]
    relevant_ids = pc.unique(qrels.filter(pc.field("relevance") >= threshold)["document_id"])
    is_relevant = pc.is_in(collection.corpus["id"], value_set=relevant_ids).to_numpy()
    by_id = pc.sort_indices(collection.corpus["id"]).to_numpy()  # the order of a file's lines decides nothing
    others = by_id[~is_relevant[by_id]].astype(np.int64)
    drawn = np.random.default_rng(derived_seed(0, "irrelevant")).permutation(others)
    found: dict[str, None] = {}
    for start in range(0, len(drawn), _DRAWN_AT_ONCE):
        rows = take_rows(collection.corpus, drawn[start : start + _DRAWN_AT_ONCE])
        texts = list(map(document_text, strings(rows["title"]), strings(rows["text"])))
        same = set(texts).intersection(relevant)
        found |= dict.fromkeys(text for text in texts if text.strip() and text not in same)
        if len(found) >= NUM_IRRELEVANT:
            break
    return list(found)[:NUM_IRRELEVANT]


def norm_distance(relevant_R: NDArray[np.float64], irrelevant_I: NDArray[np.float64]) -> Estimate | None:
    """Cohen's d of norms, with a jackknife that leaves out the same share of both at a time.

    None where there are fewer than two of a kind, or all norms are the same; without bounds where there are fewer than
    MIN_GROUPS of a kind.
    """
    whole = cohen_d(relevant_R, irrelevant_I)
    if whole is None:
        return None
    num_groups = min(NUM_GROUPS, len(relevant_R), len(irrelevant_I))
    if num_groups < MIN_GROUPS:
        return Estimate(value=whole)
    without = []
    for group in range(num_groups):
        left = [values[np.arange(len(values)) % num_groups != group] for values in (relevant_R, irrelevant_I)]
        value = cohen_d(*left)
        without.append(np.nan if value is None else value)
    return delete_group(whole, without)


def cohen_d(relevant_R: NDArray[np.float64], irrelevant_I: NDArray[np.float64]) -> float | None:
    """The difference of means over the pooled deviation; None where that is rounding, or a kind has fewer than two."""
    kinds = (relevant_R, irrelevant_I)
    freedom = [len(values) - 1 for values in kinds]
    if min(freedom) < 1:
        return None
    squares = sum(of * float(values.var(ddof=1)) for of, values in zip(freedom, kinds, strict=True))
    pooled, longest = (squares / sum(freedom)) ** 0.5, max(float(values.mean()) for values in kinds)
    return float(relevant_R.mean() - irrelevant_I.mean()) / pooled if pooled > SAME_NORMS * longest else None
