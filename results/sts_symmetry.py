"""What a similarity loses by having sides: Spearman of s(a, b) minus that of s(b, a), with its interval."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from results.scores import as_wholes
from results.selection import select_trials
from results.statistics.corrections import Correction, adjust
from results.statistics.estimate import Estimate, Floats
from results.statistics.rank_influence import spearman_shares
from results.statistics.two_way import Layout, estimate_mean

CELL = ["task", "family", "layers", "init_regime", "group", "kind", "similarity", "score_similarity"]
_DATA = ["data_set", "data_hash", "split"]
_NAMES = ("loss", "loss_low", "loss_high", "loss_p", "loss_adjusted_p", "loss_sources", "loss_reason")
_TYPES: dict[str, Any] = {
    name: pl.Float64 if name.startswith("loss") and name not in ("loss_sources", "loss_reason") else pl.String
    for name in _NAMES
}
_Shares = Mapping[tuple[str, str, str, str, str], Floats | None]  # by trial id, data and score similarity


def symmetry_losses(
    scored_pairs: Iterable[tuple[str, pl.DataFrame]],
    expected: pl.DataFrame,
    *,
    where: Mapping[str, str] | None = None,
    correction: Correction = "holm",
) -> pl.DataFrame:
    """One row per CELL, data set and split, and one without `data_set` for each group of several.

    `loss` is forward minus swapped, -1 to 1, averaged over seeds. Its interval and p are from the two-way model of
    seeds and pairs on each pair's share of the difference (`results.statistics.rank_influence`), pairs the same in both
    orders; for a group they speak of these data sets. A similarity that is symmetric has a loss of 0 and no p:
    there is nothing to test. `loss_adjusted_p` goes through `correction` over all rows. What has no rows is not in the
    result.

    Args:
        scored_pairs: of `Collected.scored_pairs`.
        expected: `Collected.expected_sts`.
        where: column to value.
        correction: of all p values of the result.
    """
    chosen = select_trials(expected, where or {})
    shares = {key: value for trial, rows in scored_pairs for key, value in _shares(trial, rows)}
    scored = pl.DataFrame(
        list(shares), schema=dict.fromkeys(["trial_id", *_DATA, "score_similarity"], pl.String), orient="row"
    )
    of_trial = chosen.drop("score_similarity").unique(maintain_order=True)
    found = of_trial.join(scored, on=["trial_id", *_DATA], how="inner", maintain_order="left")
    rows = [
        dict(zip(CELL, key, strict=True)) | row
        for key, cell in found.group_by(CELL, maintain_order=True)
        for row in _cell_rows(cell, shares)
    ]
    for row, adjusted_p in zip(rows, adjust([row["loss_p"] for row in rows], correction), strict=True):
        row["loss_adjusted_p"] = adjusted_p
    types = {name: found.schema[name] for name in CELL}
    return pl.DataFrame(rows, schema={**types, "data_set": pl.String, "split": pl.String, **_TYPES})


def _shares(trial: str, rows: pl.DataFrame) -> Iterable[tuple[tuple[str, str, str, str, str], Floats | None]]:
    key = [*_DATA, "score_similarity"]
    for values, part in rows.partition_by(key, as_dict=True).items():
        data_set, data_hash, split, similarity = (str(value) for value in values)
        yield (trial, data_set, data_hash, split, similarity), _difference(part)


def _difference(rows: pl.DataFrame) -> Floats | None:
    """(P,): each pair's share of forward minus swapped, in the order of pair ids; None where a correlation is not."""
    both = {order: rows.filter(pl.col("order") == order).sort("pair_id") for order in ("forward", "swapped")}
    if both["forward"]["pair_id"].to_list() != both["swapped"]["pair_id"].to_list():
        return None
    shares = []
    for part in both.values():
        score_N, gold_N = part["score"].to_numpy(), part["gold"].to_numpy()
        found = spearman_shares(score_N, gold_N) if np.isfinite(score_N).all() and np.isfinite(gold_N).all() else None
        if found is None:
            return None
        shares.append(found)
    return shares[0] - shares[1]


def _cell_rows(cell: pl.DataFrame, shares: _Shares) -> Iterable[dict[str, Any]]:
    """One for each data set that counts and, where there are several, one for their mean."""
    members: dict[tuple[str, str], list[Layout]] = {}
    asked: set[tuple[str, str]] = set()
    named = cell.with_columns(whole=as_wholes(cell)["data_set"])
    wholes = named.group_by(["whole", "split"], maintain_order=True)
    for (whole, split), parts in wholes:
        key = (str(whole), str(split))
        layouts = _layouts(parts, shares)
        asked.add(key)
        if layouts:
            members[key] = layouts
            yield {"data_set": key[0], "split": key[1], **_columns(layouts)}
    if len(asked) > 1 and len(members) == len(asked):
        together = [
            Layout(values_SQ=of.values_SQ, weight=of.weight / len(members), seeds=of.seeds, queries=of.queries)
            for layouts in members.values()
            for of in layouts
        ]
        same_seeds = len({of.values_SQ.shape[0] for of in together}) == 1
        if same_seeds:
            yield {"data_set": None, "split": None, **_columns(together)}


def _layouts(parts: pl.DataFrame, shares: _Shares) -> list[Layout]:
    """Seeds crossed with pairs, for each part of one data set; empty where a seed lacks its rows."""
    found = []
    by_data = parts.sort("seed", "trial_id").partition_by(_DATA, maintain_order=True)
    for rows in by_data:
        keys = rows.select("trial_id", *_DATA, "score_similarity").rows()
        values = [shares[key] for key in keys]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or len({len(value) for value in known}) > 1:
            return []
        name = "/".join(keys[0][1:4])
        found.append(Layout(values_SQ=np.stack(known), weight=1 / len(by_data), seeds="seeds", queries=name))
    return found if len({layout.values_SQ.shape[0] for layout in found}) == 1 else []


def _columns(layouts: list[Layout]) -> dict[str, Any]:
    if not any(layout.values_SQ.any() for layout in layouts):
        return {"loss": 0.0, "loss_low": 0.0, "loss_high": 0.0, "loss_p": None}
    found: Estimate = estimate_mean(layouts)
    return {
        "loss": found.value,
        "loss_low": found.low,
        "loss_high": found.high,
        "loss_p": found.p,
        "loss_sources": found.sources,
        "loss_reason": found.reason,
    }
