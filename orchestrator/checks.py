"""What only the weights, the data or the machine can say of a sweep file. Imports neither torch nor ray nor mlflow."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from orchestrator.machine import available_cpus
from search_spaces.cell_names import cell_name
from search_spaces.problems import Problem
from search_spaces.schema import EvaluationBlock, ProbeBlock, ProbeResourcesBlock, ResourcesBlock, SweepFile
from search_spaces.sizes import size_text
from search_spaces.specs import DataSpec, EncoderSpec, TrialSpec, ValidationSpec
from trainers import data_sets
from trainers.data_sets.sts import pairs_of_one_score
from trainers.evaluation.run_files import unwritable_id
from trainers.fisher.candidate_pools import pool_sizes
from trainers.provenance import accelerators
from trainers.search_budget import least_budget
from trainers.training.hard_negatives import negatives_fault
from trainers.training.pairs import PairCounts
from trainers.training.validation_pool import num_relevant
from trainers.weights.limits import Limits


def machine_problems(
    resources: ResourcesBlock, where: str, probe: ProbeResourcesBlock | None = None
) -> Iterator[Problem]:
    """Requests for one trial, or one probe, that this machine can never meet."""
    devices, whole_gpus = resources.devices, resources.gpus == int(resources.gpus)
    for_all = "for one trial" if devices == 1 else f"for each of the {devices} devices of one trial"
    if devices * resources.cpus > (num_cpus := available_cpus()):
        key = "resources.cpus" if devices == 1 else "resources.devices"
        message = f"{resources.cpus} CPUs {for_all}{_sum(devices, resources.cpus)}, but this machine has {num_cpus}"
        yield Problem(where=where, key=key, message=message)
    if devices > 1 and not whole_gpus:
        message = f"{resources.gpus:g} of a GPU {for_all}, but those that train together share none: write 1 or 0"
        yield Problem(where=where, key="resources.gpus", message=message)
    elif resources.gpus and devices * resources.gpus > (num_gpus := available_gpus()):
        message = f"{resources.gpus:g} GPUs {for_all}{_sum(devices, resources.gpus)}, but this machine has "
        yield Problem(where=where, key="resources.gpus", message=f"{message}{num_gpus or 'none'}")
    if probe:
        yield from probe_machine_problems(probe, where)


def probe_machine_problems(
    probe: ProbeResourcesBlock, where: str, *, beside: ResourcesBlock | None = None
) -> Iterator[Problem]:
    """Requests for one probe that this machine can never meet; with `beside`, what a trial's block asks for it too."""
    cpus, gpus = (probe.cpus_of(beside), probe.gpus_of(beside)) if beside else (probe.cpus, probe.gpus)
    for name, asked, there in (("cpus", cpus, available_cpus), ("gpus", gpus, available_gpus)):
        if asked and asked > (number := there()):
            message = f"{asked:g} {name[:-1].upper()}s for one probe, but this machine has {number or 'none'}"
            hint = "" if getattr(probe, name) is not None else f" (probe.resources.{name} is a probe's own)"
            yield Problem(where=where, key=f"probe.resources.{name}", message=message + hint)


def _sum(devices: int, each: float) -> str:
    return f" are {devices * each:g}" if devices > 1 else ""


def available_gpus() -> int:
    """The GPUs of this machine that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    num_gpus = len(accelerators())
    if visible is None:
        return num_gpus
    named = [name for name in visible.split(",") if name.strip() not in ("", "-1")]
    return min(num_gpus, len(named))


def measure_problems(sweep: SweepFile, where: str) -> Iterator[Problem]:
    """Measures of the file's own data sets that cannot be computed, or that stand there twice."""
    for index, entry in enumerate(sweep.data_sets):
        if entry.is_scored:
            continue  # their one measure is no expression
        from trainers.evaluation.measures import faults  # here: most files declare no data set, and need no ir_measures

        for place, fault in faults(entry.measures, entry.relevance_threshold):
            yield Problem(where=where, key=f"data_sets[{index}].measures[{place}]", message=fault)


def encoder_problems(encoder: EncoderSpec, limits: Limits, *, where: str, key: str) -> Iterator[Problem]:
    """More layers, or longer texts, than the checkpoint has layers and positions; one tower where it has two."""
    if limits.two_towers and encoder.towers == "shared":
        message = f"{encoder.weights.source} has a tower for queries and one for documents; write `towers: separate`"
        yield Problem(where=where, key=key, message=message)
    for name, most, what in (
        ("layers", limits.num_layers, "layers"),
        ("max_query_length", limits.num_positions, "positions"),
        ("max_document_length", limits.num_positions, "positions"),
    ):
        asked = getattr(encoder, name)
        if asked is not None and most is not None and asked > most:
            message = f"{name} is {asked}, but {encoder.weights.source} has {most} {what}"
            yield Problem(where=where, key=key, message=message)


def batch_problems(
    batches: Mapping[tuple[DataSpec, int], str], num_queries: Mapping[DataSpec, int], where: str
) -> Iterator[Problem]:
    """Batches that their data cannot fill, since a batch holds no query twice. Data that is not there is passed over.

    Args:
        batches: the key in the file of each pair of training data and batch size.
        num_queries: of each data set the number of different queries, or of scored pairs, to train on.
        where: the sweep file.
    """
    for (data, size), key in batches.items():
        if size > (found := num_queries.get(data, size)):
            what = "scored pairs" if data.entry.is_scored else "different queries"
            message = f"{size}, but '{data.name}' has only {found} {what} to fill it"
            yield Problem(where=where, key=key, message=message)


def empty_split_problems(scored: Iterable[DataSpec], where: str, *, key: str) -> Iterator[Problem]:
    """Splits that no score can be taken of. Scored: the data that `key` asks for, with its counts."""
    for data in scored:
        if data.num_pairs == 0:
            what = "scored pairs" if data.entry.is_scored else "query with a relevant document"
            message = f"split '{data.split}' of data set '{data.name}' has no {what}"
            yield Problem(where=where, key=key, message=message)
        elif data.entry.is_scored and (alike := pairs_of_one_score(data_sets.load(data.entry), data.split)):
            message = f"split '{data.split}' of data set '{data.name}' has no rank correlation: {alike}"
            yield Problem(where=where, key=key, message=message)


def budget_problems(
    evaluation: EvaluationBlock, encoders: Mapping[EncoderSpec, Limits], num_searches: int, where: str
) -> Iterator[Problem]:
    """A memory budget in which an encoder's embeddings cannot be searched, should all data sets share one pass."""
    budget = evaluation.memory_budget
    if budget is None or not num_searches:
        return
    for encoder, found in encoders.items():
        if found.hidden_size is None:
            continue
        if budget < (least := least_budget(num_searches, found.hidden_size)):
            of = f"embeddings of family '{encoder.family}' have {found.hidden_size} dimensions"
            message = f"{size_text(budget)}, but {of}, and a search needs at least {size_text(least)}"
            yield Problem(where=where, key="evaluation.memory_budget", message=message)


def run_file_problems(evaluated: Iterable[DataSpec], where: str) -> Iterator[Problem]:
    """Ids that cannot stand in a TREC run file, whose columns white space parts; of data sets that are there."""
    for data in evaluated:
        collection = data_sets.load(data.entry)
        for what, ids in (("document", collection.corpus["id"]), ("query", collection.queries["id"])):
            if (broken := unwritable_id(ids)) is not None:
                message = (
                    f"data set '{data.name}' has a {what} id {broken!r}, and in a TREC run file white space parts "
                )
                yield Problem(where=where, key="evaluation.run_files", message=f"{message}the columns")


def negative_problems(
    asked: Mapping[DataSpec, Iterable[int]], counts: Mapping[DataSpec, PairCounts], where: str
) -> Iterator[Problem]:
    """Hard negatives that no query of the training data has so many of, or that random documents cannot fill up.

    Asked: of each data, how many of each query.
    """
    for data, numbers in asked.items():
        for hard_negatives in numbers:
            found = counts[data]
            if fault := negatives_fault(found.most_negatives, hard_negatives, f"'{data.name}'"):
                yield Problem(where=where, key="training.hard_negatives", message=fault)
            elif found.num_queries > 0 and found.fewest_irrelevant < hard_negatives:
                fewest = f"a query of '{data.name}' has only {found.fewest_irrelevant} documents"
                message = f"{hard_negatives}, but {fewest} of the training data that are not relevant to it"
                yield Problem(where=where, key="training.hard_negatives", message=message)


def candidate_problems(counts: Mapping[DataSpec, PairCounts], where: str, *, key: str) -> Iterator[Problem]:
    """Training data of which no query can be held against anything but what is relevant to it: each loss would be 0."""
    for data, found in counts.items():
        if found.num_queries and found.num_without_candidates == found.num_queries:
            same = f"every document of '{data.name}', split '{data.split}', is relevant to every query"
            yield Problem(where=where, key=key, message=f"{same} (equal texts are one), so that there is no negative")


def pool_problems(
    validations: Iterable[ValidationSpec], data: Mapping[DataSpec, DataSpec], where: str, *, key: str
) -> Iterator[Problem]:
    """Pools of a validation, or of pilots, that do not hold what is relevant to its queries."""
    for validation in validations:
        if validation.data not in data or validation.data.entry.is_scored or validation.num_documents is None:
            continue
        if (needed := num_relevant(validation)) > validation.num_documents:
            of_queries = f"documents relevant to its queries of '{validation.data.name}'"
            message = f"{validation.num_documents}, but there are {needed} {of_queries} (write as many, or more)"
            yield Problem(where=where, key=key, message=message)


def probe_problems(
    probe: ProbeBlock, training: Iterable[DataSpec], num_queries: Mapping[DataSpec, int], where: str
) -> Iterator[Problem]:
    """Pools of candidates that the probe's queries, or the training data, cannot fill."""
    key = "probe.candidates_per_query"
    if probe.candidates_per_query > probe.num_queries:
        message = (
            f"{probe.candidates_per_query}, but num_queries is {probe.num_queries}, and each candidate is a query's"
        )
        yield Problem(where=where, key=key, message=message)
        return
    for data in training:
        if data not in num_queries:
            continue
        try:
            pool_sizes(
                num_queries[data], num_queries=probe.num_queries, candidates_per_query=probe.candidates_per_query
            )
        except ValueError as error:
            yield Problem(where=where, key=key, message=f"data set '{data.name}': {error}")


def register_problems(trials: Iterable[TrialSpec], where: str) -> Iterator[Problem]:
    """Cells of several trials, none of which can be told the best: the scores that are reported must not choose."""
    cells = Counter(cell_name(spec) for spec in trials if spec.kind == "train" and spec.validation is None)
    for name, number in cells.items():
        if number > 1:
            message = (
                f"the best of the {number} trials of {name} cannot be told: it is chosen by validation score, and this "
                "file has no validation (add 'validation: {every_steps: N}')"
            )
            yield Problem(where=where, key="tracking.register", message=message)
            return
