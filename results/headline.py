"""The headline of a sweep: every similarity's gain side by side, a line for each model, regime and group."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from results.rendering.fitting import fitted
from results.rendering.markdown import DASH, escape

_LINE = ["task", "model", "init_regime", "scale", "group", "measure"]
_HEADERS = {"task": "task", "model": "model", "init_regime": "regime", "scale": "scale", "group": "group"}
_ALWAYS = ("model", "init_regime", "group")  # the others only where they vary


def headline(rows: pl.DataFrame, *, baseline: str, primary_groups: Sequence[str], limit: int, whole: str) -> str:
    """Gains in points as one Markdown table of at most `limit` characters; `whole` says where all numbers are.

    `rows` are those of table `gains`. Primary groups stand first: where there is no room for all, they stay. The best
    gain of a line is bold where it is above 0; the baseline has its score, times 100.
    """
    trained = rows.filter(pl.col("kind") == "train")
    similarities = [name for name in trained["similarity"].unique(maintain_order=True) if name != baseline]
    columns = [key for key in _HEADERS if key in _ALWAYS or trained[key].n_unique() > 1]
    measures = ", ".join(trained["measure"].unique(maintain_order=True))
    table = [
        _line([*(_HEADERS[key] for key in columns), f"{baseline} ({measures})", *similarities]),
        _line([*([":---"] * len(columns)), *(["---:"] * (1 + len(similarities)))]),
    ]
    primary_first = trained.sort(~pl.col("group").is_in(list(primary_groups)), maintain_order=True)
    for _, line in primary_first.group_by(_LINE, maintain_order=True):
        first = line.row(0, named=True)
        gains = {row["similarity"]: row["gain"] for row in line.iter_rows(named=True)}
        names = [escape(str(first[key])) for key in columns]
        table.append(_line([*names, _score(first["baseline_score"]), *_gain_cells(gains, similarities)]))
    explained = f"Gains against {baseline} in points (times 100), the best in bold; {baseline} itself: its score."
    return fitted(table, [explained, "", whole], limit)


def _gain_cells(gains: Mapping[str, float | None], similarities: Iterable[str]) -> list[str]:
    best = max((gain for gain in gains.values() if gain is not None), default=None)
    return [_gain(gains.get(name), best) for name in similarities]


def _gain(gain: float | None, best: float | None) -> str:
    if gain is None:
        return DASH
    shown = f"{100 * gain:+.2f}" if round(100 * gain, 2) else "0.00"
    return f"**{shown}**" if gain == best and gain > 0 else shown


def _score(score: Any) -> str:
    return DASH if score is None else f"{100 * score:.2f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
