"""Markdown that fits into a limited space: cut at whole lines, with a word on where the whole of it is."""

from collections.abc import Sequence


def fitted(lines: Sequence[str], below: Sequence[str], limit: int) -> str:
    """Lines of a text or table, an empty one and those `below`, in at most `limit` characters.

    From too many lines the last are left away; then a line says how many.

    Raises:
        ValueError: not even what stands below fits.
    """
    text = "\n".join([*lines, "", *below])
    if len(text) <= limit:
        return text
    room = limit - len("\n".join(["", "", _left_away(len(lines)), "", *below]))
    if room < 0:
        raise ValueError(f"what stands below a table takes more than {limit} characters")
    kept = list(lines)
    while len("\n".join(kept)) > room:
        kept.pop()
    return "\n".join([*kept, "", _left_away(len(lines) - len(kept)), "", *below])


def _left_away(number: int) -> str:
    return f"*{number} more lines are left away here.*"
