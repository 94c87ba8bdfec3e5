"""Rendering: what a table looks like in each format, and the files it is exported to."""

from collections.abc import Callable, Mapping

from results.rendering import csv_file, json_file, markdown
from results.tables.table import Table

Files = Mapping[str, str]  # file name to text


def _markdown(table: Table, allow_missing: bool) -> Files:
    return {f"{table.name}.md": markdown.render(table, allow_missing=allow_missing)}


def _csv(table: Table, allow_missing: bool) -> Files:
    return {f"{table.name}.csv": csv_file.render(table, allow_missing=allow_missing)}


def _latex(table: Table, allow_missing: bool) -> Files:
    from results.rendering import latex  # jinja2 is loaded only where it is needed

    return {
        f"{table.name}.tex": latex.render_fragment(table, allow_missing=allow_missing),
        f"{table.name}_document.tex": latex.render_document(table, allow_missing=allow_missing),
    }


def _json(table: Table, allow_missing: bool) -> Files:
    return {f"{table.name}.json": json_file.render(table, allow_missing=allow_missing)}


FORMATS: Mapping[str, Callable[[Table, bool], Files]] = {
    "md": _markdown,
    "csv": _csv,
    "latex": _latex,
    "json": _json,
}


def export(table: Table, format_name: str, *, allow_missing: bool = False) -> Files:
    """The files of a table in one format, by name: the first is what prints, LaTeX has a compilable document beside it.

    Raises:
        TableHasHolesError: the table has holes, and they are not allowed.
        KeyError: no such format.
    """
    return FORMATS[format_name](table, allow_missing)
