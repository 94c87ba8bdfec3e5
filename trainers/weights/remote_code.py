"""Python code that comes with a model: which files it is, and whether a model needs it. Torch-free; nothing is run."""

import importlib.util
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_CONFIGS = ("config.json", "tokenizer_config.json")
_LISTED_TYPE = re.compile(r'\("([^"]+)",')  # ("bert", "BertConfig")
_KNOWN_TYPES = ("auto_mappings.py", "configuration_auto.py")  # where transformers lists the architectures it brings


def code_files(folder: Path) -> list[Path]:
    """The Python files of a model folder, sorted."""
    return sorted(folder.rglob("*.py"))


def check_code(folder: Path, *, allowed: bool) -> None:
    """Refuse a model that cannot be read without code of its own where that is not allowed.

    Raises:
        ValueError: it needs code and `allowed` is False, or the code is another repository's, which nothing pins.
    """
    named = {name for file in _CONFIGS for name in _named_code(folder / file)}
    if not named:
        return
    if not allowed:
        if not _is_known(folder):
            message = f"it needs code of its own ({', '.join(sorted(named))}), which is not run"
            raise ValueError(f"{message} (write 'remote_code: true' beside its source where you trust it)")
        return
    for name in sorted(named):
        if "--" in name:
            raise ValueError(f"it names code of another repository ({name}), whose revision nothing pins")
        if not (folder / f"{name.partition('.')[0]}.py").is_file():
            raise ValueError(f"it names code ({name}) that {folder} does not hold")


def folder_code(folder: Path) -> list[str]:
    """What the folder names of code of its own, sorted: where it is not allowed, none of this runs."""
    return sorted({name for file in _CONFIGS for name in _named_code(folder / file)})


def _named_code(file: Path) -> Iterator[str]:
    """What `auto_map` names, as MODULE.CLASS or REPOSITORY--MODULE.CLASS."""
    mapping = _json(file).get("auto_map")
    for value in mapping.values() if isinstance(mapping, dict) else ():
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str):
                yield name


def _is_known(folder: Path) -> bool:
    """Whether transformers has the architecture itself, and so reads the folder without its code."""
    return _json(folder / "config.json").get("model_type") in known_types()


@cache
def known_types() -> tuple[str, ...]:
    """The `model_type` of each architecture that the installed transformers brings; none where it is not installed."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        return ()
    auto = Path(spec.submodule_search_locations[0]) / "models" / "auto"
    listed = [(auto / name).read_text() for name in _KNOWN_TYPES if (auto / name).is_file()]
    return tuple(sorted({name for text in listed for name in _LISTED_TYPE.findall(text)}))


def _json(file: Path) -> dict[str, object]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
