"""What a task and the rest of its cell must agree on: data, similarity, towers, loss settings, evaluation groups.

The symmetric task 'sts' holds sim(a, b) against a rater's score of the pair, so sim(a, b) must be sim(b, a).
"""

from collections.abc import Iterable, Iterator

from search_spaces.blocks import parse_scale
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.registry import Registry
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.cells import Cell
from search_spaces.problems import Problem
from search_spaces.schema import SweepFile


def task_problems(
    cells: Iterable[Cell], sweep: SweepFile, data_sets: Registry[DataSet], where: str
) -> Iterator[Problem]:
    """Everything in which a cell contradicts its task, or a group of evaluations itself."""
    for cell in cells:
        for key, message in _cell_faults(cell, sweep, data_sets):
            yield Problem(where=where, key=key, message=message)
    yield from _group_problems(sweep, data_sets, where)
    yield from _rag_problems(sweep, data_sets, where)


def _cell_faults(cell: Cell, sweep: SweepFile, data_sets: Registry[DataSet]) -> Iterator[tuple[str, str]]:
    task, keys = cell.task, cell.keys
    yield from _data_faults(task, cell.training_data, keys["training_data"], data_sets)
    if sweep.validation and sweep.validation.data:
        yield from _data_faults(task, sweep.validation.data, "validation.data", data_sets)
    if task != "sts":
        return
    similarity = SIMILARITIES[cell.similarity]
    if not similarity.symmetric and not sweep.allow_asymmetric:
        why = "its trained exponents may come apart" if similarity.trained else "it divides by one text's norm alone"
        yield (
            keys["similarity"],
            f"task 'sts' needs sim(a, b) = sim(b, a), and '{similarity.name}' is not symmetric: {why} (take "
            f"{_symmetric()}, or write 'allow_asymmetric: true' to measure what that costs)",
        )
    if cell.family.towers == "separate":
        message = "two towers embed a text differently as first and as second of a pair, and task 'sts' is symmetric"
        yield f"{keys['family']} '{cell.family.name}'", f"{message} (write towers: shared)"
    if (scale := parse_scale(cell.scale)).value > 1:
        yield (
            keys["scale"],
            f"task 'sts' holds scores times {scale.value:g} against ratings of 0 to 1 (write {scale.mode}(1))",
        )
    yield from _setting_faults(cell, sweep)


def _data_faults(task: str, reference: str, key: str, data_sets: Registry[DataSet]) -> Iterator[tuple[str, str]]:
    entry = data_sets[reference.partition("/")[0]]
    if entry.is_scored == (task == "sts"):
        return
    fitting = [name for name, other in data_sets.items() if other.is_scored != entry.is_scored and other.train_split]
    holds = "scored pairs of texts" if entry.is_scored else "queries with relevant documents"
    other_task = "sts" if entry.is_scored else "contrastive"
    yield (
        key,
        f"data set '{entry.name}' holds {holds}, and task '{task}' cannot use them "
        f"(write task: {other_task}, or take other data: {', '.join(sorted(fitting))})",
    )


def _setting_faults(cell: Cell, sweep: SweepFile) -> Iterator[tuple[str, str]]:
    """Settings of InfoNCE that the squared error has no use for."""
    for name, unused in (("hard_negatives", 0), ("loss_directions", "query_to_document")):
        own = cell.hyperparameters.get(name)
        if (own if own is not None else getattr(sweep.training, name)) not in (None, unused):
            key = cell.keys[name] if own is not None else f"training.{name}"
            yield key, "task 'sts' has no negatives: its loss is the squared error of each pair's score"


def _symmetric() -> str:
    return " or ".join(name for name, similarity in SIMILARITIES.items() if similarity.symmetric)


def _group_problems(sweep: SweepFile, data_sets: Registry[DataSet], where: str) -> Iterator[Problem]:
    """A rank correlation and a mean over queries have no common mean; what nobody judged has no measure at all."""
    for group, references in sweep.evaluation.groups.items():
        entries = [data_sets[reference.partition("/")[0]] for reference in references]
        kinds = {entry.is_scored for entry in entries}
        key = f"evaluation.groups.{group}"
        for name in (entry.name for entry in entries if entry.is_never_judged):
            others = ", ".join(entry.name for entry in entries if not entry.is_never_judged)
            message = (
                f"data set '{name}' has questions with answers and no judgements, so that its rankings have no score: "
                f"name it under evaluation.rag.data_sets alone"
                + (f" (write {group}: [{others}] here)" if others else "")
            )
            yield Problem(where=where, key=key, message=message)
        if len(kinds) > 1:
            message = "scored pairs and retrieval collections have no common mean: put them into separate groups"
            yield Problem(where=where, key=key, message=message)
        elif True in kinds and group in (sweep.evaluation.primary_groups or ()):
            message = f"'{group}' holds scored pairs, and the primary groups are those of the retrieval tables"
            yield Problem(where=where, key="evaluation.primary_groups", message=message)


def _rag_problems(sweep: SweepFile, data_sets: Registry[DataSet], where: str) -> Iterator[Problem]:
    rag = sweep.evaluation.rag
    for index, reference in enumerate(rag.data_sets if rag else ()):
        name = reference.partition("/")[0]
        if data_sets[name].is_scored:
            message = f"data set '{name}' holds scored pairs of texts, and no questions with answers"
            yield Problem(where=where, key=f"evaluation.rag.data_sets[{index}]", message=message)
