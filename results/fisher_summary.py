"""How good a predictor's calls are: hits against a coin and against fixed calls, regret, and Kendall's tau.

All from the rows of `results.fisher_check`; a cell is a row of one predictor, training data set, scale and group.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from results.observed_sides import SIDES
from results.statistics.binary_outcomes import Decided, against_coin, fewest_for_level, mcnemar, regret
from results.statistics.corrections import Correction, adjust
from results.statistics.correlation import Correlation, Scope, correlate
from results.statistics.estimate import LEVEL, Floats

KEY = ["predictor", "training_data", "scale", "group", "is_primary"]
COIN = "a coin"
ALWAYS = {side: f"always {side}" for side in SIDES}
_WITHIN_FAMILIES: Scope = "within groups"
_TYPES: dict[str, Any] = {
    "opponent": pl.String,
    **dict.fromkeys(["num_cells", "num_called", "num_decided", "num_hits"], pl.Int64),
    "opponent_hits": pl.Float64,
    **dict.fromkeys(["num_for", "num_against"], pl.Int64),
    **dict.fromkeys(["p", "adjusted_p", "clustered_p", "adjusted_clustered_p"], pl.Float64),
    **dict.fromkeys(["num_families", "fewest"], pl.Int64),
    **dict.fromkeys(["regret", "opponent_regret"], pl.Float64),
    **dict.fromkeys(["reason", "trial_ids", "probe_ids"], pl.String),
}
_TAU_TYPES: dict[str, Any] = {
    "scope": pl.String,
    "n": pl.Int64,
    **dict.fromkeys(["tau", "low", "high", "p", "adjusted_p", "left_out_low", "left_out_high"], pl.Float64),
    **dict.fromkeys(["most_influential", "reason", "trial_ids", "probe_ids"], pl.String),
}


def fisher_summary(check: pl.DataFrame, *, correction: Correction = "holm") -> pl.DataFrame:
    """Three rows for each predictor and group: its calls against a coin, against always qnorm and always dnorm.

    - A cell is decided where there is a call and a winner; `num_hits` of these were called right.
    - Against a coin: the exact binomial test of 1/2. Against a fixed call: exact McNemar on the decided cells where
      one is right and the other wrong (`num_for` speak for the predictor). `clustered_p` takes families, not cells, as
      independent. p values are two-sided; `adjusted_` ones go through `correction` with all others of the result.
    - `fewest`: cells (for `clustered_p` families) that must differ, all of them one way, before 5 % can be reached at
      all, with Holm over the tests of the result; Benjamini-Hochberg takes a p as it is where all others are as small.
    - `regret`: the mean over called cells of what following the call lost against the other side, 0 to 1 of the
      measure; `opponent_regret` what the opponent lost on the same cells (a coin: half the difference).
    """
    rows = [
        dict(zip(KEY, key, strict=True)) | row
        for key, cells in check.group_by(KEY, maintain_order=True)
        for row in _against(cells)
    ]
    adjusted = adjust([row[name] for name in ("p", "clustered_p") for row in rows], correction)
    num_tests = sum(p is not None for p in adjusted)
    for place, row in enumerate(rows):
        row |= {"adjusted_p": adjusted[place], "adjusted_clustered_p": adjusted[len(rows) + place]}
        row["fewest"] = fewest_for_level(num_tests=max(1, num_tests) if correction == "holm" else 1)
        row["reason"] = _reason(row)
    return pl.DataFrame(rows, schema={**{name: check.schema[name] for name in KEY}, **_TYPES})


def fisher_tau(check: pl.DataFrame, *, correction: Correction = "holm") -> pl.DataFrame:
    """Kendall's tau-b of the predictor's difference against the gain difference, qnorm minus dnorm both.

    The predictor's difference is the middle of its span (over the grid of dimensions). A rule by which the smaller
    statistic wins gives -1. Two rows for each predictor and group: over all cells, and within families (pairs of cells
    of one family), each with a BCa interval, a permutation p, `correction` over all rows, and leave-one-out.
    """
    rows = [
        dict(zip(KEY, key, strict=True)) | _tau(cells, scope)
        for key, cells in check.group_by(KEY, maintain_order=True)
        for scope in ("over all", _WITHIN_FAMILIES)
    ]
    for row, adjusted_p in zip(rows, adjust([row["p"] for row in rows], correction), strict=True):
        row["adjusted_p"] = adjusted_p
    return pl.DataFrame(rows, schema={**{name: check.schema[name] for name in KEY}, **_TAU_TYPES})


def _against(cells: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The predictor's rows in one group."""
    known = cells.filter(pl.col("gain").is_not_null())
    called = known.filter(pl.col("call").is_in(SIDES))
    decided = called.filter(pl.col("winner").is_in(SIDES))
    families = decided["family"].to_list()
    hits_N = (decided["call"] == decided["winner"]).to_numpy()
    common = {
        "num_cells": known.height,
        "num_called": called.height,
        "num_decided": decided.height,
        "num_hits": int(hits_N.sum()),
        "regret": _mean_regret(called, called["call"].to_list()),
        **_ids(known),
    }
    coin = against_coin(hits_N, clusters=families)
    lost = called.select((pl.col("gain").abs() / 2).mean()).item()
    yield common | _test(coin) | {"opponent": COIN, "opponent_hits": decided.height / 2, "opponent_regret": lost}
    for side in SIDES:
        right_N = (decided["winner"] == side).to_numpy()
        found = mcnemar(hits_N, right_N, clusters=families)
        lost = _mean_regret(called, [side] * called.height)
        fixed = {"opponent": ALWAYS[side], "opponent_hits": float(right_N.sum()), "opponent_regret": lost}
        yield common | _test(found) | fixed


def _test(found: Decided) -> dict[str, Any]:
    names = ("num_for", "num_against", "p", "clustered_p", "reason")
    return {**{name: getattr(found, name) for name in names}, "num_families": found.num_clusters}


def _reason(row: dict[str, Any]) -> str | None:
    """Why p is absent, or why no outcome of so few could have reached 5 % in a table of this size."""
    num, families, fewest = row["num_for"] + row["num_against"], row["num_families"], row["fewest"]
    if num == 0:
        return row["reason"]
    if num < fewest:
        return f"{num} cells differ: below {fewest} no outcome is significant here"
    if families < fewest:
        return f"{families} families differ: below {fewest} no outcome is significant with families as clusters"
    return None


def _mean_regret(cells: pl.DataFrame, sides: list[str]) -> float | None:
    if not sides:
        return None
    scores = {side: cells[f"{side}_score"].to_numpy() for side in SIDES}
    followed = np.array(sides)
    called_N = np.where(followed == SIDES[0], scores[SIDES[0]], scores[SIDES[1]])
    other_N = np.where(followed == SIDES[0], scores[SIDES[1]], scores[SIDES[0]])
    return float(regret(called_N, other_N).mean())


def _tau(cells: pl.DataFrame, scope: Scope) -> dict[str, Any]:
    known = cells.filter(pl.col("gain").is_finite() & pl.col("difference_min").is_finite())
    x_N: Floats = (known["difference_min"] + known["difference_max"]).to_numpy() / 2
    groups = known["family"].to_list() if scope == _WITHIN_FAMILIES else ["all"] * known.height
    found = correlate(x_N, known["gain"].to_numpy(), groups, "kendall", scope=scope, level=LEVEL)
    return {
        "scope": "within families" if scope == _WITHIN_FAMILIES else "over all",
        "n": found.n,
        "tau": found.value,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "left_out_low": found.left_out_low,
        "left_out_high": found.left_out_high,
        "most_influential": _influential(known, found),
        "reason": found.reason,
        **_ids(known),
    }


def _influential(cells: pl.DataFrame, found: Correlation) -> str | None:
    if found.most_influential is None:
        return None
    row = cells.row(found.most_influential, named=True)
    seed = "" if row["seed"] is None else f"/s{row['seed']}"
    return f"{row['family']}/{row['init_regime']}{seed}"


def _ids(cells: pl.DataFrame) -> dict[str, str]:
    """The trials and probes behind the cells."""
    trials, probes = ("; ".join(cells[name].drop_nulls()).split("; ") for name in ("trial_ids", "probe_id"))
    return {"trial_ids": "; ".join(dict.fromkeys(trials)), "probe_ids": "; ".join(dict.fromkeys(probes))}
