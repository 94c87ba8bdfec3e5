"""What of LaTeX is on this machine."""

import shutil
import subprocess

import pytest


def finds(name):
    """Whether LaTeX finds a file, such as a package or the metrics of a font."""
    found = shutil.which("kpsewhich") and subprocess.run(["kpsewhich", name], capture_output=True, text=True)
    return bool(found and found.stdout.strip())


ENGINES = [engine for engine in ("pdflatex", "lualatex", "xelatex") if shutil.which(engine)]
needs_latex = pytest.mark.skipif(
    not (ENGINES and finds("siunitx.sty")), reason="no LaTeX with siunitx is installed (Debian: texlive-science)"
)
