"""The model and the data of one's own, as `densesweep recommend` names them, and the probes of the two.

Imports neither torch nor ray nor mlflow before there is something to probe.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.checks import available_gpus, candidate_problems, encoder_problems
from orchestrator.data_commands import folder_entry
from orchestrator.families import complete_family
from orchestrator.machine import available_cpus
from search_spaces.blocks import FamilyChoice, parse_scale
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.catalogue.families import FAMILIES, ROLES, Checkpoint, Family
from search_spaces.catalogue.registry import Registry
from search_spaces.catalogue.sources import SCHEMES
from search_spaces.declared import Declared
from search_spaces.problems import InputError, Problem, unknown_name
from search_spaces.schema import ProbeBlock
from search_spaces.specs import DataSpec, EncoderSpec, Execution, ProbeSpec, ScaleSpec, with_data_hash
from trainers import data_sets, weights
from trainers.training.pairs import pair_counts
from trainers.weights.limits import limits

_CANDIDATES = (ProbeBlock().candidates_per_query, 32)  # sizes at which intervals were simulated (docs/fisher.md)
_MAX_NAME = 40


@dataclass(frozen=True, kw_only=True)
class OwnModel:
    """A family with the checkpoint that is asked about, and what its files say that a user may not expect."""

    family: Family
    encoder: EncoderSpec
    notices: tuple[str, ...]


def own_model(name: str, checkpoint: Path | None) -> OwnModel:
    """The family of that name, or a model folder (or another source of weights); `checkpoint` holds its own weights.

    Of a family with two checkpoints the retriever is taken.

    Raises:
        InputError: there is no such family, or its weights are not there or say something else than it does.
    """
    family = _family(name)
    if checkpoint is not None:
        if not checkpoint.is_dir():
            raise _problem("--checkpoint", f"there is no folder {checkpoint}")
        family = family.model_copy(
            update={"retriever": Checkpoint(source=f"path:{checkpoint.resolve()}"), "base": None}
        )
    role = next(role for role in ROLES if family.checkpoint(role))
    completed = complete_family(family, [role])
    problems = [_as_problem(text) for _, text in completed.unread]
    problems += [_as_problem(_fault(setting, text, name)) for setting, text in completed.faults]
    if problems:
        raise InputError(problems)
    regime = "finetune" if role == "retriever" else "from_base"
    declared = Declared(families=Registry("family", [completed.family]), data_sets=DATA_SETS)
    # A family's own name is none of the catalogue's.
    known = {"family": [completed.family.name]}
    choice = FamilyChoice.model_validate({"name": completed.family.name}, context=known)
    encoder = declared.encoder(choice, regime)
    pinned = weights.pinned(encoder.weights)
    content_hash = weights.content_hash(pinned)
    if faults := list(encoder_problems(encoder, limits(pinned, content_hash), where="--family", key=name)):
        raise InputError(faults)
    found = replace(encoder, weights=replace(pinned, content_hash=content_hash))
    return OwnModel(family=completed.family, encoder=found, notices=completed.notices)


def own_data(text: str) -> tuple[DataSet, str | None]:
    """A data set of the catalogue or a folder in BEIR's layout, with /SPLIT after it or not: entry and split.

    Raises:
        InputError: it is neither.
    """
    path = text.removeprefix("path:")
    name, _, split = text.partition("/")
    if name in DATA_SETS and not text.startswith("path:"):
        return DATA_SETS[name], split or None
    folder = Path(path).expanduser()
    if not folder.is_dir() and _is_collection(folder.parent):
        return folder_entry(f"path:{folder.parent}"), folder.name
    if folder.is_dir():
        if not _is_collection(folder):
            message = f"{folder} holds no corpus.jsonl (a folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/)"
            raise _problem("--data", message)
        return folder_entry(f"path:{folder}"), None
    if "/" in path or text.startswith("path:"):
        raise _problem("--data", f"there is no folder {folder}")
    raise _problem("--data", unknown_name("data set", name, list(DATA_SETS)) + "; or name a folder in BEIR's layout")


def own_probes(
    model: OwnModel, entry: DataSet, split: str | None, *, scales: Sequence[str], num_queries: int
) -> list[ProbeSpec]:
    """The probes of a model on training pairs, one for each scale.

    Raises:
        InputError: the data has no such pairs, or too few of them for a probe, or no such scale.
    """
    data = _training_data(entry, split)
    counts = pair_counts(data)
    if problems := list(candidate_problems({data: counts}, "--data", key=entry.name)):
        raise InputError(problems)
    candidates = _candidates(data, counts.num_queries, num_queries)
    gpus = available_gpus()
    execution = Execution(threads=available_cpus(), device="gpu" if gpus else "cpu")
    return [
        ProbeSpec(
            task="contrastive",
            encoder=model.encoder,
            seed=None,
            training_data=data,
            scale=_scale(scale),
            num_queries=num_queries,
            candidates_per_query=candidates,
            execution=execution,
        )
        for scale in dict.fromkeys(scales)
    ]


def _family(name: str) -> Family:
    if name in FAMILIES:
        return FAMILIES[name]
    scheme = name.partition(":")[0]
    if scheme in SCHEMES and ":" in name:
        source = name
    elif Path(name).expanduser().is_dir():
        source = f"path:{Path(name).expanduser().resolve()}"
    elif "/" in name:
        raise _problem("--family", f"there is no folder {name} (or write a source: hf:ORG/NAME@REVISION)")
    else:
        raise _problem("--family", unknown_name("family", name, list(FAMILIES)) + "; or name a model folder")
    try:
        return Family(name=_slug(source), retriever=Checkpoint(source=source))
    except ValueError as error:  # pydantic's, of a source that is none
        raise _problem("--family", _first_line(error)) from error


def _slug(source: str) -> str:
    last = source.partition("@")[0].rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9_-]+", "-", last.lower()).strip("-_")[:_MAX_NAME] or "own"


def _first_line(error: ValueError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "not a source" in line or "revision" in line]
    return lines[0].partition(" [type=")[0].removeprefix("Value error, ") if lines else str(error).splitlines()[0]


def _fault(setting: str, text: str, name: str) -> str:
    """A contradiction, or a setting that nobody states."""
    hint = "" if name in FAMILIES else f" (name the family it is of: --family FAMILY --checkpoint {name})"
    return f"{setting}: {text}{hint}"


def _is_collection(folder: Path) -> bool:
    return (folder / "corpus.jsonl").is_file()


def _training_data(entry: DataSet, split: str | None) -> DataSpec:
    if entry.is_scored:
        message = f"'{entry.name}' is scored pairs of texts, which have no queries: its task is --task sts"
        raise _problem("--data", message)
    there = sorted(data_sets.load(entry).qrels)
    wanted = split or entry.train_split or "train"
    if wanted not in there:
        known = ", ".join(there) or "none at all"
        other = f"; take one that you will not report on: --data .../{there[0]}" if there and split is None else ""
        message = f"'{entry.name}' has no split '{wanted}' to take training pairs from (there are: {known}{other})"
        raise _problem("--data", message)
    found = data_sets.fingerprint(entry, wanted)
    if not found.num_pairs:
        raise _problem("--data", f"split '{wanted}' of '{entry.name}' has no query with a relevant document")
    spec = DataSpec(entry=entry, split=wanted)
    return with_data_hash(spec, content_hash=found.content_hash, num_pairs=found.num_pairs)


def _candidates(data: DataSpec, num_different: int, num_queries: int) -> int:
    """The most candidates of which the queries fill as many pools as an interval needs, else the fewest."""
    from trainers.fisher.candidate_pools import pool_sizes
    from trainers.fisher.estimates import MIN_POOLS

    for candidates in _CANDIDATES:
        try:
            num_pools, _ = pool_sizes(num_different, num_queries=num_queries, candidates_per_query=candidates)
        except ValueError as error:
            if candidates == _CANDIDATES[-1]:
                raise _problem("--data", f"'{data.name}' is too small to probe: {error}") from error
            continue
        if num_pools >= MIN_POOLS:
            return candidates
    return _CANDIDATES[-1]


def _scale(text: str) -> ScaleSpec:
    try:
        return parse_scale(text)
    except ValueError as error:
        raise _problem("--scale", str(error)) from error


def _as_problem(message: str) -> Problem:
    return Problem(where="--family", key="", message=message)


def _problem(where: str, message: str) -> InputError:
    return InputError([Problem(where=where, key="", message=message)])
