"""The answer of a sweep at a glance: similarities side by side, what predictors called, and what to be careful of."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from results.collect import Collected
from results.overview_check import check_sections
from results.overview_scores import score_sections
from results.overview_section import Section
from results.selection import NothingChosenError, SelectionError, select_trials
from results.tables import applicable
from results.tables.parts import declaration_notes, fairness_lines, warning_notes
from results.tables.table import TableOptions
from results.whole_choices import whole_choices

_MOST_MISSING = 4  # lines
_MOST_CHOICES = 3  # whose tables are shown one below the other


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What is shown first of a sweep.

    `missing` are lines on what the sweep lacks. `refused` says of tables, by name, why nothing is shown of them, and
    `nothing` where that is because the choice leaves nothing.
    """

    summary: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    missing: tuple[str, ...]
    refused: Mapping[str, str]
    nothing: Mapping[str, str]

    @property
    def holes(self) -> Mapping[str, tuple[str, ...]]:
        """What is missing of the tables that sections are made from, by the table's name."""
        return {section.table: section.holes for section in self.sections if section.holes}

    @property
    def whole(self) -> "Overview":
        """Only those sections of which nothing is missing."""
        return replace(self, sections=tuple(section for section in self.sections if section.table not in self.holes))


def overview(collected: Collected, options: TableOptions) -> Overview:
    """The overview of what `options` choose."""
    sections: list[Section] = []
    refused: dict[str, str] = {}
    nothing: dict[str, str] = {}
    shown = applicable(collected.record)
    for name, build in (*score_sections(shown).items(), *check_sections(shown).items()):
        try:
            sections += _of_each_choice(build, collected, options)
        except NothingChosenError as error:
            nothing[name] = str(error)
        except SelectionError as error:
            refused[name] = str(error)
    return Overview(
        summary=_summary(collected),
        sections=tuple(sections),
        notes=tuple(dict.fromkeys(_careful(collected, options))),
        missing=tuple(_missing(collected)),
        refused=refused,
        nothing=nothing,
    )


def _of_each_choice(
    build: Callable[[Collected, TableOptions], list[Section]], collected: Collected, options: TableOptions
) -> list[Section]:
    """The sections; where no one table can be made of all rows, those of each of the few choices that can be made."""
    try:
        return build(collected, options)
    except NothingChosenError:
        raise
    except SelectionError:
        every = whole_choices(collected)
        if options.where or not 1 < len(every) <= _MOST_CHOICES:
            raise
    found = []
    for where in every:
        chosen = ", ".join(f"{column} {value}" for column, value in where.items())
        with contextlib.suppress(SelectionError):  # a choice that says nothing of this table
            sections = build(collected, replace(options, where=where))
            found += [replace(section, title=f"{section.title} ({chosen})") for section in sections]
    if not found:
        return build(collected, options)
    return found


def _summary(collected: Collected) -> str:
    record, missing = collected.record, collected.lacking
    asked = f"{_counted(len(record.trials), 'trial')} and {_counted(len(record.probes), 'probe')}"
    if not missing:
        return f"'{record.name}': {asked}, nothing is missing."
    failed = sum(item.is_failed for item in missing)
    return f"'{record.name}': {asked}, {len(missing)} missing{f', {failed} of them failed' * (failed > 0)}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _careful(collected: Collected, options: TableOptions) -> Iterator[str]:
    """What tables say below their numbers of what must not be overlooked."""
    if collected.expected.height:
        with contextlib.suppress(SelectionError):  # nothing of this kind is chosen
            yield from fairness_lines(collected, select_trials(collected.expected, options.where))
    yield from declaration_notes(collected.record)
    yield from warning_notes(collected)


def _missing(collected: Collected) -> Iterator[str]:
    lines: Sequence[str] = [str(item) for item in collected.lacking]
    yield from lines[:_MOST_MISSING]
    if len(lines) > _MOST_MISSING:
        yield f"and {len(lines) - _MOST_MISSING} more"
