"""Records of a sweep folder, read back from JSON."""

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from search_spaces.problems import UnreadableError

Record = TypeVar("Record")
_LONGEST = 100  # characters of a fault that are shown


def read_json(adapter: TypeAdapter[Record], text: str | bytes, what: str) -> Record:
    """The record that JSON text holds; `what` names it for people.

    Raises:
        UnreadableError: it is damaged, or another version wrote it; its first fault is told.
    """
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_context=False, include_input=False)
        place, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        fault = f"{place}: {said}" if place else said
        more = f" (and {len(others)} more)" if others else ""
        raise UnreadableError(
            f"{what} is damaged, or another version of densesweep wrote it: {fault[:_LONGEST]}{more}"
        ) from error
