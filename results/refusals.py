"""Why tables and plots are refused: every missing thing once, whichever lack it, under its reason, with its file."""

from collections.abc import Iterator, Mapping, Sequence

from results.collect import Collected
from results.missing_files import missing_files

_LISTED = 10  # of one reason: whatever lacks for one cause is told by some of it
REMEDY = "run the sweep again, or show it with dashes (--allow-missing)"


def refusal(holes: Mapping[str, Sequence[str]], collected: Collected, noun: str = "table") -> str:
    """The message that refuses tables, or what `noun` calls them; `holes` are those of each by its name."""
    every = list(dict.fromkeys(line for lines in holes.values() for line in lines))
    is_one = len(holes) == 1
    what = f"{noun} '{next(iter(holes))}' is" if is_one else f"{len(holes)} {noun}s are"
    which = "" if is_one else f" ({', '.join(holes)})"
    return "\n".join([f"{what} not whole, {len(every)} missing{which}:", *_listed(every, collected), REMEDY])


def _listed(lines: Sequence[str], collected: Collected) -> Iterator[str]:
    files = missing_files(collected)
    known = {str(item): item for item in collected.missing}
    by_reason: dict[str, list[str]] = {}
    for line in lines:
        item = known.get(line)
        reason, told = (item.reason, f"{item.title}: {item.what}") if item else ("other", line)
        by_reason.setdefault(reason, []).append(f"{told} ({files[line]})" if line in files else told)
    for reason, told_of in by_reason.items():
        yield f"  {reason}:"
        yield from (f"    {told}" for told in told_of[:_LISTED])
        if len(told_of) > _LISTED:
            yield f"    and {len(told_of) - _LISTED} more, which table 'missing' lists"
