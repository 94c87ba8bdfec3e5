"""Pairs and hard negatives to train with, from the hub: MS MARCO in the two forms that studies use.

Where there is no hub, a copy of the same files does: an entry in the sweep file with the same reader and a `path:`.
Revisions are the commits that the data sets' pages name.
"""

from search_spaces.catalogue.data_sets.entry import DataSet, Unknown

_NO_FIGURE = Unknown(what="reference", why="it is trained on, and nobody ranks all of its passages")
_LICENCE = "MS MARCO terms: non-commercial research only"

ENTRIES = (
    # As its page counts, 82,326 queries in train, 10,047 in validation and 9,650 in test; the study trains on the
    # 81,795 of train that have a selected passage. A query has about 8 passages, of which those not selected are its
    # hard negatives.
    DataSet(
        name="msmarco_v1",
        source="hf:microsoft/ms_marco@a47ee7aae8d7d466ba15f9f0bfac3b3681087b3a",
        config="v1.1",
        reader="ms_marco",
        train_split="train",
        dev_split="validation",
        test_split="test",
        licence=_LICENCE,
        unknown=(
            Unknown(what="counts", why="its page counts queries without a selected passage, which are left out here"),
            _NO_FIGURE,
        ),
    ),
    # Passage ranking: the judged passages of about 400,000 queries, each with negatives that BM25 and dense retrievers
    # found. Its dev file has queries alone, so that there is no dev split and no test split.
    DataSet(
        name="msmarco_tevatron",
        source="hf:Tevatron/msmarco-passage@a8eec567e64d42528a140fbe218dbb22b6719139",
        config="default",
        reader="tevatron",
        train_split="train",
        licence=_LICENCE,
        unknown=(Unknown(what="counts", why="its page rounds them to 400,000 queries"), _NO_FIGURE),
    ),
)
