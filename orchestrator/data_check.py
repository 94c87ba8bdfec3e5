"""Whether a data set on this machine is whole and the one that its entry describes. Imports no framework."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.catalogue.data_sets import LUCENE, DataSet
from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.availability import availability
from trainers.data_sets.collection import Collection, asked_queries
from trainers.data_sets.hub_files import is_hub
from trainers.data_sets.sts import pairs_of_one_score

if TYPE_CHECKING:
    from trainers.evaluation.published_figures import ComparedFigure

Verdict = Literal["right", "odd", "wrong", "missing"]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What reading a data set whole showed.

    `wrong` has faults: repeated ids, judgements of what is not there, lines that cannot be read, other counts than the
    entry has. `odd` has none, but what its user may not expect: empty documents, queries that nothing answers, another
    figure of BM25 than is published. `figures` are those that agree, or why there is none to hold it against.
    """

    name: str
    verdict: Verdict
    documents: int | None = None
    splits: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)


def not_here(entry: DataSet) -> Checked | None:
    """That files of the data set are not here, or None."""
    found = availability(entry)
    if found.state != "missing":
        return None
    faults = tuple(f"lacking {what}" if is_hub(entry) else what for what in found.lacking)
    return Checked(name=entry.name, verdict="missing", faults=faults)


def checked(entry: DataSet, *, with_figures: bool = False) -> Checked:
    """Build the data set, if it is not built, and say what is wrong with it or odd in it.

    `with_figures` also ranks it with BM25 and holds that against the entry's published figures.
    """
    try:
        collection, report = data_sets.load(entry), data_sets.report(entry)
        has_test_split = entry.test_split in collection.qrels or entry.train_split is not None
    except InputError as error:
        return Checked(name=entry.name, verdict="wrong", faults=tuple(str(problem) for problem in error.problems))
    splits = tuple(
        f"{split}: {asked_queries(collection, split).num_rows:,} queries, {qrels.num_rows:,} judgements"
        for split, qrels in collection.qrels.items()
    )
    faults = _split_faults(entry, collection) if has_test_split else (f"there is no split '{entry.test_split}'",)
    asked = with_figures and not faults
    why_not = _why_no_figure(entry) if asked else None
    compared = _compared(entry) if asked and not why_not else []
    oddities = (*report.warnings(), *(str(figure) for figure in compared if not figure.agrees))
    return Checked(
        name=entry.name,
        verdict="wrong" if faults else "odd" if oddities else "right",
        documents=collection.corpus.num_rows,
        splits=splits,
        faults=faults,
        oddities=oddities,
        figures=(why_not,) if why_not else tuple(str(figure) for figure in compared if figure.agrees),
    )


def _split_faults(entry: DataSet, collection: Collection) -> tuple[str, ...]:
    """Of a test split that is there: that it asks nothing."""
    split = entry.test_split
    if split not in collection.qrels:
        return ()
    if not asked_queries(collection, split).num_rows:
        lacking = "no scored pairs" if entry.is_scored else "neither a judgement nor a question with an answer"
        return (f"split '{split}' has {lacking}",)
    alike = pairs_of_one_score(collection, split) if entry.is_scored else None
    return (f"split '{split}' has no rank correlation: {alike}",) if alike else ()


def _why_no_figure(entry: DataSet) -> str | None:
    """Why BM25 is held against nothing, in one line; None where a figure of it is there."""
    if any(figure.method == LUCENE for figure in entry.reference):
        return None
    if not entry.reference:
        why = entry.why_unknown("reference") or "its entry has none: add one of BM25 under `reference`"
        return f"no figure was made again: {why}"
    methods = "; ".join(dict.fromkeys(str(figure.method) for figure in entry.reference))
    return f"no figure was made again: its entry has none of {LUCENE}, only of {methods}"


def _compared(entry: DataSet) -> "list[ComparedFigure]":
    from trainers.evaluation.published_figures import compared_figures  # here: it imports torch and ir_measures

    return list(compared_figures(entry))
