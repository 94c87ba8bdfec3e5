"""What the checkpoints of a sweep's families say of themselves: fills in what the file leaves out, and is announced.

Imports neither torch nor ray nor mlflow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.catalogue.families import FAMILIES, ROLES, Checkpoint, Family, Role
from search_spaces.expand import used_checkpoints
from search_spaces.problems import InputError, Problem
from search_spaces.schema import SweepFile
from search_spaces.specs import INSTRUCTION, WeightsSpec
from trainers.encoders.checkpoint_settings import FoundSettings, found_settings
from trainers.weights import named_code, pinned

_HELD = ("pooling", "append_eos", "query_prompt", "document_prompt")  # a length is the file's to choose
_REQUIRED = ("pooling", "max_query_length", "max_document_length")
_STAND_IN: Mapping[str, Any] = {"pooling": "mean", "max_query_length": 0, "max_document_length": 0}


@dataclass(frozen=True, kw_only=True)
class CompletedFamilies:
    """A sweep file whose own families are complete, what is said of them, and what stands against them.

    With problems, what a family lacks is made up, so that the rest of the file can be checked.
    """

    sweep: SweepFile
    notices: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True)
class CompletedFamily:
    """A family with what its checkpoints say, and what is said of them.

    `unread` are (role, reason) of checkpoints that cannot be read, `faults` (setting, reason) of what lacks or
    contradicts.
    """

    family: Family
    notices: tuple[str, ...]
    unread: tuple[tuple[Role, str], ...]
    faults: tuple[tuple[str, str], ...]


def complete_families(
    sweep: SweepFile, where: str, is_missing: Callable[[WeightsSpec], bool] = lambda _: False
) -> CompletedFamilies:
    """Read the checkpoints of the families that the sweep's cells use, but those that are known to be missing.

    A checkpoint that cannot be read is a problem, in the words of the step that locates it; nothing else is then said
    of what its family lacks.
    """
    used = used_checkpoints(sweep)
    keys = {family: key for (family, _), key in used.items()}
    own = {family.name: (f"families[{i}]", family) for i, family in enumerate(sweep.families)}
    problems: list[Problem] = []
    notices: list[str] = []
    completed = dict(own)
    for name, key in keys.items():
        place, family = own[name] if name in own else (key, FAMILIES[name])
        roles = [role for role in ROLES if (name, role) in used]
        found = complete_family(family, roles, is_missing)
        problems += [Problem(where=where, key=used[name, role], message=text) for role, text in found.unread]
        notices += found.notices
        problems += [Problem(where=where, key=f"{place}.{setting}", message=text) for setting, text in found.faults]
        completed[name] = (place, found.family)
    families = tuple(completed[family.name][1] for family in sweep.families)
    return CompletedFamilies(
        sweep=sweep.model_copy(update={"families": families}), notices=tuple(notices), problems=tuple(problems)
    )


def complete_family(
    family: Family, roles: Sequence[Role], is_missing: Callable[[WeightsSpec], bool] = lambda _: False
) -> CompletedFamily:
    """Read those checkpoints of a family that are used, but for those that are known to be missing."""
    missing = [role for role in roles if is_missing(_weights(_checkpoint(family, role)))]
    found, unread = _found(family, [role for role in roles if role not in missing])
    merged, faults = _completed(family, found)
    return CompletedFamily(
        family=merged,
        notices=tuple(text for role in roles if role in found for text in _notices(family, role, found[role])),
        unread=tuple(unread),
        # What lacks, and what contradicts, is known when it can be read.
        faults=() if unread or missing else tuple(faults),
    )


def _found(family: Family, used: list[Role]) -> tuple[dict[Role, FoundSettings], list[tuple[Role, str]]]:
    """What the used checkpoints say, and (role, reason) of those that cannot be read.

    The other one is asked only where they leave something open, and passed over where it cannot be read.
    """
    found: dict[Role, FoundSettings] = {}
    unread: list[tuple[Role, str]] = []
    for role in (*used, *(role for role in ROLES if role not in used)):
        checkpoint = family.checkpoint(role)
        if checkpoint is None or (role not in used and not _lacking(family, found)):
            continue
        try:
            found[role] = found_settings(_weights(checkpoint))
        except InputError as error:
            unread += [(role, str(fault)) for fault in error.problems if role in used]
    return found, unread


def _lacking(family: Family, found: Mapping[Role, FoundSettings]) -> list[str]:
    return [s for s in _REQUIRED if all(getattr(holder, s) is None for holder in (family, *found.values()))]


def _completed(family: Family, found: Mapping[Role, FoundSettings]) -> tuple[Family, list[tuple[str, str]]]:
    """The family with what its checkpoints say, and (setting, fault) of each contradiction and of what is missing."""
    values = {setting: getattr(family, setting) for setting in dict.fromkeys((*_HELD, *_REQUIRED, "instruction"))}
    says = dict.fromkeys(values, "the family")
    faults = []
    for role, settings in found.items():
        for setting in values:
            stated = getattr(settings, setting)
            if values[setting] is None and stated is not None:
                values[setting], says[setting] = stated, f"its {role}"
            elif setting in _HELD and not _agrees(stated, values[setting], family.instruction):
                source = _checkpoint(family, role).source
                first = f"{says[setting]} says {values[setting]!r}"
                faults.append(
                    (setting, f"{first}, and its {role} ({source}) {stated!r}; leave it out to take the latter")
                )
    for setting in _lacking(family, found):
        faults.append((setting, f"is required: {_silent(family)}"))
    values |= {setting: _STAND_IN[setting] for setting in _REQUIRED if values[setting] is None}
    return family.model_copy(update=values), faults


def _agrees(stated: Any, value: Any, instruction: str | None) -> bool:
    """Whether a checkpoint says the same, or nothing; a saved prompt may have the family's instruction filled in."""
    filled = value.replace(INSTRUCTION, instruction) if isinstance(value, str) and instruction else value
    return stated in (None, value, filled)


def _silent(family: Family) -> str:
    sources = " and ".join(_checkpoint(family, role).source for role in ROLES if family.checkpoint(role))
    return f"{sources} cannot be read, or does not say it (a sentence-transformers folder would)"


def _notices(family: Family, role: Role, found: FoundSettings) -> Iterator[str]:
    checkpoint = _checkpoint(family, role)
    place = f"family '{family.name}': its {role} ({checkpoint.source})"
    if found.normalizes:
        yield f"{place} ends in a Normalize module, which is dropped: normalising is the similarity's part"
    if checkpoint.remote_code:
        yield f"{place} runs code of its own, as its remote_code says"
    elif code := _named_code(checkpoint):
        yield f"{place} names code of its own ({', '.join(code)}), which is not run: transformers reads it by its own"
    if (found_source := pinned(_weights(checkpoint)).source) != checkpoint.source:
        yield f"{place} pins no revision: {found_source} was found and is taken"


def _named_code(checkpoint: Checkpoint) -> list[str]:
    try:
        return named_code(_weights(checkpoint))
    except InputError:  # its folder is not whole, which another step says
        return []


def _checkpoint(family: Family, role: Role) -> Checkpoint:
    checkpoint = family.checkpoint(role)
    assert checkpoint is not None
    return checkpoint


def _weights(checkpoint: Checkpoint) -> WeightsSpec:
    return WeightsSpec(source=checkpoint.source, gguf_file=checkpoint.gguf_file, remote_code=checkpoint.remote_code)
