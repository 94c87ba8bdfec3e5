"""Whether similarities are compared on equal terms: the same budget, seeds and scales in each model and init regime.

A gain says nothing of a similarity that trained longer, was tried with more settings, or at another scale.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from results.selection import SETTING_COLUMNS, scale_name

_MODEL = ("task", "training_data", "family", "layers", "init_regime")
# What a step costs and how many there are. Other settings may well be each similarity's own best ones.
_BUDGET = ("steps", "global_batch", "hard_negatives", "max_query_length", "max_document_length")
_Row = Mapping[str, Any]


def fairness_notes(trials: Iterable[_Row]) -> tuple[str, ...]:
    """A line for each thing in which the similarities of a model and init regime were not treated alike.

    `trials` are rows with CELL_COLUMNS and SETTING_COLUMNS, planned or done; a trial may stand in several.
    """
    models: dict[tuple[Any, ...], dict[str, list[_Row]]] = {}
    for row in trials:
        if row["kind"] == "train":
            models.setdefault(tuple(row[name] for name in _MODEL), {}).setdefault(row["similarity"], []).append(row)
    return tuple(line for of_similarity in models.values() for line in _notes(of_similarity))


def _notes(of_similarity: Mapping[str, Sequence[_Row]]) -> Iterator[str]:
    """What differs between the similarities of one model."""
    first = next(iter(of_similarity.values()))[0]
    layers = f"-{first['layers']:g}l" if first["layers"] else ""
    place = f"{first['family']}{layers}/{first['init_regime']} on {first['training_data']}"
    for what, values in _terms(of_similarity):
        by_value: dict[str, list[str]] = {}
        for similarity, value in values.items():
            by_value.setdefault(value, []).append(similarity)
        if len(by_value) > 1:
            told = "; ".join(f"{value} under {', '.join(names)}" for value, names in by_value.items())
            yield f"{place}: {what}: {told}"


def _terms(of_similarity: Mapping[str, Sequence[_Row]]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(what is compared, its value in words for each similarity)."""
    for name in _BUDGET:
        yield name, {s: _listed(row[name] for row in rows) for s, rows in of_similarity.items()}
    yield "scales", {s: _listed(_scale(row) for row in rows) for s, rows in of_similarity.items()}
    yield "seeds", {s: _listed(row["seed"] for row in rows) for s, rows in of_similarity.items()}
    yield "tried settings", {s: f"{_num_settings(rows)}" for s, rows in of_similarity.items()}


def _listed(values: Iterable[Any]) -> str:
    different = sorted(set(values), key=lambda value: (isinstance(value, str), value))
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in different)


def _scale(row: _Row) -> str:
    return scale_name(row["scale_mode"], row["scale_value"])


def _num_settings(rows: Sequence[_Row]) -> int:
    return len({tuple(row[name] for name in SETTING_COLUMNS) for row in rows})
