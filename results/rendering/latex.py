"""Tables as LaTeX: a fragment to be input, with booktabs and siunitx, and the same in a document that compiles."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jinja2 import Environment, StrictUndefined

from results.rendering.holes import checked, footnotes
from results.rendering.latex_text import escape, has_cjk
from results.rendering.values import Cell, Row, is_text, shown_rows
from results.tables.table import Column, Table

_ENVIRONMENT = Environment(
    block_start_string="((*",
    block_end_string="*))",
    variable_start_string="(((",
    variable_end_string=")))",
    comment_start_string="((#",  # its own '{#' begins the body of a macro
    comment_end_string="#))",
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)

# Numbers keep the sign they have, and what stands after them (an underline, stars) stays close.
_BEGINNING = r"""% needs \usepackage{(((packages)))}
((* if cjk *))
% and, in pdfLaTeX, \usepackage{CJKutf8}; in other engines define \cjktext{FONT}{TEXT} before this file
\ifdefined\cjktext\else\DeclareRobustCommand{\cjktext}[2]{\begin{CJK}{UTF8}{#1}#2\end{CJK}}\fi
((* endif *))
"""
_SETTINGS = r"""\((( size )))
\setlength{\tabcolsep}{4pt}
\sisetup{group-digits=none,retain-explicit-plus,text-series-to-math,table-align-text-after=false}
"""
_ROWS = r"""((* for row in rows *))
((* if row.begins_block *))
\midrule
((* endif *))
((( row.text ))) \\
((* endfor *))
"""
_NOTES = r"""\footnotesize
((* for note in notes *))
((( note )))\par
((* endfor *))
"""

_FLOAT = _ENVIRONMENT.from_string(
    rf"""{_BEGINNING}\begin{{table}}
\centering
{_SETTINGS}\caption{{((( title )))}}
\label{{tab:((( label )))}}
\begin{{tabular}}{{((( alignment )))}}
\toprule
((( headers ))) \\
\midrule
{_ROWS}\bottomrule
\end{{tabular}}
((* if notes *))

\smallskip
\begin{{minipage}}{{\linewidth}}
{_NOTES}\end{{minipage}}
((* endif *))
\end{{table}}
"""
)

_LONG = _ENVIRONMENT.from_string(
    rf"""{_BEGINNING}\begingroup
{_SETTINGS}\begin{{longtable}}{{((( alignment )))}}
\caption{{((( title )))}}
\label{{tab:((( label )))}} \\
\toprule
((( headers ))) \\
\midrule
\endfirsthead
\caption[]{{((( title ))) (continued)}} \\
\toprule
((( headers ))) \\
\midrule
\endhead
\midrule
\multicolumn{{((( num_columns )))}}{{r}}{{continued on the next page}} \\
\endfoot
\bottomrule
\endlastfoot
{_ROWS}\end{{longtable}}
((* if notes *))
\setlength{{\parindent}}{{0pt}}
{_NOTES}((* endif *))
\endgroup
"""
)

_DOCUMENT = _ENVIRONMENT.from_string(r"""\documentclass[10pt]{article}
\usepackage[a4paper,landscape,margin=12mm]{geometry}
\usepackage{((( packages )))}
((* if cjk *))
\usepackage{CJKutf8}
((* endif *))
\begin{document}
((( fragment )))\end{document}
""")

_MOST_COLUMNS = 12  # that a landscape page has room for in small type
# A float is no higher than a page: of landscape A4, whose text is 525 pt high and takes 190 characters in small type.
_PAGE_PT, _ROW_PT, _RULE_PT, _NOTE_PT, _HEAD_PT, _NOTE_LENGTH = 525, 11, 6, 9.5, 50, 190
_ALIGNED = ("score", "points", "percent", "p", "plain", "count")  # kinds whose cells are one number
_NUMBER_SIGN = re.compile(r"(?<![\w.])([+-])(?=\d)")


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """A table as LaTeX sets it: its columns and rows, those of marks left away, and what stands below."""

    table: Table
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def is_long(self) -> bool:
        """Whether it is higher than a page."""
        rules = sum(row.begins_block for row in self.rows)
        lines = sum(1 + len(note) // _NOTE_LENGTH for note in self.notes)
        height = _HEAD_PT + _ROW_PT * len(self.rows) + _RULE_PT * rules + _NOTE_PT * lines
        return height > _PAGE_PT

    @property
    def packages(self) -> str:
        """Those that it needs."""
        return "booktabs,siunitx,longtable" if self.is_long else "booktabs,siunitx"


def render_fragment(table: Table, *, allow_missing: bool = False) -> str:
    """A table environment to be input, without details; the best of each block bold, the second underlined.

    Its first line says which packages it needs. What is higher than a page is a longtable, which breaks over pages.

    Raises:
        TableHasHolesError: it has holes, and they are not allowed.
    """
    return _fragment(_parts(table, allow_missing))


def render_document(table: Table, *, allow_missing: bool = False) -> str:
    """A document with the table in it. Raises TableHasHolesError as `render_fragment` does."""
    parts = _parts(table, allow_missing)
    fragment = _fragment(parts)
    return _DOCUMENT.render(fragment=fragment, packages=parts.packages, cjk=has_cjk(fragment))


def _parts(table: Table, allow_missing: bool) -> _Parts:
    whole = checked(table, allow_missing=allow_missing).without_details()
    marks = {column.marks for column in whole.columns}
    shown = [place for place, column in enumerate(whole.columns) if column.key not in marks]
    rows = (
        Row(cells=tuple(row.cells[place] for place in shown), begins_block=row.begins_block)
        for row in shown_rows(whole)
    )
    legend = ("Best of each block in bold, second underlined.",) if whole.rank else ()
    return _Parts(
        table=whole,
        columns=tuple(whole.columns[place] for place in shown),
        rows=tuple(rows),
        notes=(*legend, *footnotes(whole)),
    )


def _fragment(parts: _Parts) -> str:
    table, columns = parts.table, parts.columns
    rows = [
        {"begins_block": row.begins_block, "text": " & ".join(map(_cell, row.cells, columns))} for row in parts.rows
    ]
    title, notes = escape(table.title), [escape(note) for note in parts.notes]
    headers = [f"{{{escape(c.header)}}}" if _is_aligned(c) else escape(c.header) for c in columns]
    texts = (title, *notes, *headers, *(row["text"] for row in rows))
    return (_LONG if parts.is_long else _FLOAT).render(
        packages=parts.packages,
        cjk=any(has_cjk(str(text)) for text in texts),
        title=title,
        size="small" if len(columns) <= _MOST_COLUMNS else "footnotesize",
        label=table.name.replace("_", "-"),
        alignment="".join(_alignment(c, [row.cells[place] for row in parts.rows]) for place, c in enumerate(columns)),
        headers=" & ".join(headers),
        num_columns=len(columns),
        rows=rows,
        notes=notes,
    )


def _is_aligned(column: Column) -> bool:
    return column.kind in _ALIGNED


def _alignment(column: Column, cells: Sequence[Cell]) -> str:
    """The column's letter, of numbers with the room that the widest of them takes."""
    if not _is_aligned(column):
        return "l" if is_text(column) else "r"
    stars = max((cell.stars for cell in cells), key=len, default="")
    room = f",table-space-text-post={_superscript(stars)}" if stars else ""
    return f"S[table-format={_format(cell.text for cell in cells if cell.text)}{room}]"


def _format(texts: Iterator[str]) -> str:
    """What siunitx is to keep room for: '+2.2' of -15.33, '<1.3' of <0.001."""
    prefix, whole, decimals = "", 1, 0
    for text in texts:
        sign = text[0] if text[0] in "<+-" else ""
        prefix = max(prefix, sign.replace("-", "+"), key=len)
        digits, _, rest = text.removeprefix(sign).partition(".")
        whole, decimals = max(whole, len(digits)), max(decimals, len(rest))
    return f"{prefix}{whole}.{decimals}" if decimals else f"{prefix}{whole}"


def _cell(cell: Cell, column: Column) -> str:
    if cell.text is None:
        return "{--}" if _is_aligned(column) else "--"
    if _is_aligned(column):
        stars = _superscript(cell.stars) if cell.stars else ""
        return {
            "best": rf"\bfseries {cell.text}{stars}",
            # A rule as wide as the number, set back from its end: an underlined number siunitx could not read.
            "second": rf"{cell.text}{{\llap{{\underline{{\phantom{{{cell.text}}}}}}}}}{stars}",
        }.get(cell.mark or "", f"{cell.text}{stars}")
    text = escape(cell.text) if is_text(column) else _number(cell.text)
    return {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark or "", text)


def _superscript(stars: str) -> str:
    return f"{{$^{{{stars}}}$}}"


def _number(text: str) -> str:
    """Signs in mathematics, where plus and minus are of one width and digits stay under each other."""
    return _NUMBER_SIGN.sub(r"$\1$", text.replace("[", "{[}").replace("]", "{]}").replace("<", "$<$"))
