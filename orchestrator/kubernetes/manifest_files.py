"""Manifests as YAML, for `kubectl apply` and for people: fields in the order they are made in, texts as blocks."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from orchestrator.kubernetes.pods import Manifest
from search_spaces.problems import InputError, Problem

_WORD = re.compile(r"[A-Za-z/]")
_VALUES = ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf")


class _Dumper(yaml.SafeDumper):
    """Lists below their key's level, no anchors, and texts of several lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # Other readers take for numbers and truths what PyYAML does not, such as 1e9 and y: only plain words stay plain.
    is_plain = _WORD.match(text) is not None and text.lower() not in _VALUES
    # PyYAML writes no block of a text that has spaces at the end of a line, or tabs; then it is quoted, and as right.
    style = "|" if "\n" in text else None if is_plain else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(manifests: Sequence[Manifest]) -> str:
    """All manifests as one stream of YAML documents."""
    return yaml.dump_all(
        manifests, Dumper=_Dumper, sort_keys=False, width=10**6, explicit_start=True, allow_unicode=True
    )


def write_files(manifests: Sequence[Manifest], folder: Path) -> list[Path]:
    """One file for each, numbered in the order to apply them; `kubectl apply -f FOLDER` takes that order.

    Raises:
        InputError: they cannot be written there.
    """
    paths = [folder / f"{number}-{manifest['kind'].lower()}.yaml" for number, manifest in enumerate(manifests, start=1)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, manifest in zip(paths, manifests, strict=True):
            path.write_text(as_yaml([manifest]), encoding="utf-8")
    except OSError as error:
        message = f"cannot be written ({error.strerror})"
        raise InputError([Problem(where=str(folder), key="", message=message)]) from error
    return paths
