"""How large the pool of a validation must be: the documents relevant to its queries are all in it. Torch-free."""

import pyarrow.compute as pc

from search_spaces.specs import ValidationSpec
from trainers import data_sets
from trainers.data_sets.cut import num_relevant_to_first


def num_relevant(validation: ValidationSpec) -> int:
    """How many documents are relevant to the queries that a validation keeps. Raises as `data_sets.load` does."""
    data = validation.data
    collection, threshold = data_sets.load(data.entry), data.entry.relevance_threshold
    relevant = collection.qrels[data.split].filter(pc.field("relevance") >= threshold)
    num_documents = len(relevant["document_id"].unique())
    if validation.num_queries is None or num_documents <= (validation.num_documents or num_documents):
        return num_documents  # of all queries: which of them are kept makes no difference
    return num_relevant_to_first(collection, data.split, validation.num_queries, threshold)
