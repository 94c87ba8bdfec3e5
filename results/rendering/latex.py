"""Tables as LaTeX: a fragment to be input that needs booktabs alone, and the same in a document that compiles."""

import re
from collections.abc import Mapping

from jinja2 import Environment, StrictUndefined

from results.rendering.holes import checked, footnotes
from results.rendering.values import Cell, is_text, shown_rows
from results.tables.table import Table

_ENVIRONMENT = Environment(
    block_start_string="((*",
    block_end_string="*))",
    variable_start_string="(((",
    variable_end_string=")))",
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)

_FRAGMENT = _ENVIRONMENT.from_string(r"""% needs \usepackage{booktabs}
\begin{table}
\centering
\((( size )))
\setlength{\tabcolsep}{4pt}
\caption{((( title )))}
\label{tab:((( label )))}
\begin{tabular}{((( alignment )))}
\toprule
((( headers ))) \\
\midrule
((* for row in rows *))
((* if row.begins_block *))
\midrule
((* endif *))
((( row.text ))) \\
((* endfor *))
\bottomrule
\end{tabular}
((* if notes *))

\smallskip
\begin{minipage}{\linewidth}
\footnotesize
((* for note in notes *))
((( note )))\par
((* endfor *))
\end{minipage}
((* endif *))
\end{table}
""")

_DOCUMENT = _ENVIRONMENT.from_string(r"""\documentclass[10pt]{article}
\usepackage[a4paper,landscape,margin=12mm]{geometry}
\usepackage{booktabs}
\begin{document}
((( fragment )))\end{document}
""")

_ESCAPES: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # In the default font encoding these are other signs.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    # After the end of a row, '[' and '*' would be read as its options.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
_MOST_COLUMNS = 12  # that a landscape page has room for in small type
_TWO_HYPHENS = re.compile(r"-(?=-)")  # they would become one long dash
_NUMBER_SIGN = re.compile(r"(?<![\w.])([+-])(?=\d)")


def render_fragment(table: Table, *, allow_missing: bool = False) -> str:
    """A table environment to be input, without details; the best of each block bold, the second underlined.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    table = checked(table, allow_missing=allow_missing).without_details()
    numeric = [not is_text(column) for column in table.columns]
    rows = [
        {
            "begins_block": row.begins_block,
            "text": " & ".join(_cell(cell, is_number) for cell, is_number in zip(row.cells, numeric, strict=True)),
        }
        for row in shown_rows(table)
    ]
    legend = ["Best of each block in bold, second underlined."] if table.rank else []
    return _FRAGMENT.render(
        title=escape(table.title),
        size="small" if len(table.columns) <= _MOST_COLUMNS else "footnotesize",
        label=table.name.replace("_", "-"),
        alignment="".join("r" if is_number else "l" for is_number in numeric),
        headers=" & ".join(escape(column.header) for column in table.columns),
        rows=rows,
        notes=[escape(note) for note in (*legend, *footnotes(table))],
    )


def render_document(table: Table, *, allow_missing: bool = False) -> str:
    """A document with the table in it. Raises TableHasHolesError as `render_fragment` does."""
    return _DOCUMENT.render(fragment=render_fragment(table, allow_missing=allow_missing))


def escape(text: str) -> str:
    """Text that LaTeX sets as itself, on one line."""
    escaped = "".join(_ESCAPES.get(character, character) for character in " ".join(text.split()))
    return _TWO_HYPHENS.sub("-{}", escaped)


def _cell(cell: Cell, is_number: bool) -> str:
    if cell.text is None:
        return "--"
    text = _number(cell.text) if is_number else escape(cell.text)
    return {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark or "", text)


def _number(text: str) -> str:
    """Signs in mathematics, where plus and minus are of one width and digits stay under each other."""
    return _NUMBER_SIGN.sub(r"$\1$", text.replace("[", "{[}").replace("]", "{]}").replace("<", "$<$"))
