"""Figures as files: SVG and PDF to be printed at any size, PNG for where neither is shown. The same bytes each time."""

import io
from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from results.plots.style import styled

PNG_DOTS_PER_INCH = 300


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file, without date: the same bytes for the same figure."""
    return _written(figure, FigureCanvasSVG, "print_svg", {"Date": None, "Creator": None})


def pdf(figure: Figure) -> bytes:
    """The figure as a PDF file with its letters in it, without dates."""
    return _written(figure, FigureCanvasPdf, "print_pdf", {"CreationDate": None, "Creator": None, "Producer": None})


def png(figure: Figure) -> bytes:
    """The figure as a PNG file of PNG_DOTS_PER_INCH."""
    figure.set_dpi(PNG_DOTS_PER_INCH)
    return _written(figure, FigureCanvasAgg, "print_png", {"Software": None})


FILES: Mapping[str, Callable[[Figure], bytes]] = {"svg": svg, "pdf": pdf, "png": png}


def _written(figure: Figure, canvas: Any, how: str, metadata: Mapping[str, None]) -> bytes:
    buffer = io.BytesIO()
    with styled():
        getattr(canvas(figure), how)(buffer, metadata=dict(metadata))
    return buffer.getvalue()
