"""What pilots show of each probed cell, as rows of the schema PROBES: gains on development queries, and query norms.

- block `pilot`: `score` of each side (mean nDCG@10, 0 to 1) and of `qnorm-dnorm`, with the interval of a paired t test
  over queries; `steps`, `num_queries`, `num_planned` (pilots that the sweep asks for here).
- block `pilot_norms`, where `dot` is piloted too: `query_norm_cv` of each of dnorm and dot, deviation over mean of the
  development queries' norms, and `log10_cv_ratio` of dnorm to dot, with a jackknife that leaves out one query in both.

Intervals take queries as random, and speak of these checkpoints alone: a cell has one pilot of each similarity. One
query short of MIN_QUERIES there is none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from results.layout import SweepRecord, pilot_rows, spec_key, trial_prefix, trial_rows
from results.observed_sides import SIDES
from results.rows import read_rows
from results.schemas import QUERY_NORM
from results.statistics.effect_sizes import SAME_NORMS
from results.statistics.estimate import t_interval
from results.store import Readable
from results.stored_rows import frame_of
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.specs import TrialSpec, from_json

PILOT, PILOT_NORMS = "pilot", "pilot_norms"
LEVEL = 0.95
MIN_QUERIES = 8
MEASURE = "nDCG@10"
_ABOUT = (
    *("probe_id", "family", "layers", "init_regime", "seed", "task"),
    *("training_data", "training_data_hash", "num_pairs", "scale_mode", "scale_value"),
)
Values = Mapping[str, float]  # by query
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Pilot:
    """A pilot that the sweep asks for; what its queries gave is there where it has ended."""

    spec: TrialSpec
    scores: Values | None = None
    norms: Values | None = None


def pilot_evidence(store: Readable, record: SweepRecord, probes: pl.DataFrame) -> pl.DataFrame:
    """The rows of every probe whose cell is piloted; `probes` are the probes' own."""
    of_cells: dict[tuple[Any, ...], list[_Pilot]] = {}
    for pilot in _read(store, record):
        of_cells.setdefault(_cell(pilot.spec), []).append(pilot)
    rows: list[Row] = []
    for probe in probes.select(_ABOUT).unique(maintain_order=True).iter_rows(named=True):
        cell = tuple(probe[name] for name in _ABOUT if name not in ("probe_id", "num_pairs"))
        if found := of_cells.get(cell):
            rows += [{**probe, **row} for row in _rows(found)]
    return pl.DataFrame(rows, schema=probes.schema)


def _read(store: Readable, record: SweepRecord) -> Iterator[_Pilot]:
    for planned in record.pilots:
        key = planned.trial_id
        if not store.exists(spec_key(trial_prefix(key))):
            continue
        spec = from_json(TrialSpec, store.read(spec_key(trial_prefix(key))))
        if not (store.exists(trial_rows(key)) and store.exists(pilot_rows(key))):
            yield _Pilot(spec=spec)
            continue
        rows = frame_of(read_rows(store, pilot_rows(key), "per_query"))
        scores, norms = (
            dict(rows.filter(pl.col("measure") == measure).select("query_id", "value").iter_rows())
            for measure in (MEASURE, QUERY_NORM)
        )
        yield _Pilot(spec=spec, scores=scores, norms=norms)


def _cell(spec: TrialSpec) -> tuple[Any, ...]:
    """As a probe names its cell: with a seed where that draws the weights."""
    assert spec.training_data is not None, "pilots are trained"
    assert spec.scale is not None, "pilots are trained"
    encoder, data = spec.encoder, spec.training_data
    seed = spec.seed if INIT_REGIMES[encoder.init_regime].seeded else None
    model = (encoder.family, encoder.layers, encoder.init_regime, seed, spec.task)
    return (*model, data.name, data.content_hash, spec.scale.mode, spec.scale.value)


def _rows(pilots: Sequence[_Pilot]) -> Iterator[Row]:
    yield _row(PILOT, "num_planned", len(pilots))
    chosen = _alike(pilots)
    if chosen is None:
        return
    yield from _gain_rows(chosen)
    yield from _norm_rows(chosen)


def _alike(pilots: Iterable[_Pilot]) -> Mapping[str, _Pilot] | None:
    """By similarity the pilots of one setting that have ended on both sides: of several, those of the most steps."""
    settings: dict[Any, dict[str, _Pilot]] = {}
    for pilot in pilots:
        spec = pilot.spec
        if pilot.scores is not None and spec.similarity is not None:
            key = (spec.training, spec.validation, spec.seed)
            settings.setdefault(key, {})[spec.similarity.name] = pilot
    whole = [found for found in settings.values() if set(SIDES) <= set(found)]
    return max(whole, key=_steps, default=None)


def _steps(found: Mapping[str, _Pilot]) -> int:
    training = found["qnorm"].spec.training
    return training.steps if training else 0


def _gain_rows(found: Mapping[str, _Pilot]) -> Iterator[Row]:
    qnorm, dnorm = _paired(*(found[side].scores for side in SIDES))
    if not len(qnorm):
        return
    difference_Q = qnorm - dnorm
    low, high = _interval(difference_Q)
    yield _row(PILOT, "score", float(difference_Q.mean()), similarity="qnorm-dnorm", low=low, high=high)
    for side, values_Q in zip(SIDES, (qnorm, dnorm), strict=True):
        yield _row(PILOT, "score", float(values_Q.mean()), similarity=side)
    yield _row(PILOT, "steps", _steps(found))
    yield _row(PILOT, "num_queries", len(difference_Q))


def _norm_rows(found: Mapping[str, _Pilot]) -> Iterator[Row]:
    if "dot" not in found:
        return
    dnorm_Q, dot_Q = _paired(*(found[name].norms for name in ("dnorm", "dot")))
    if not len(dnorm_Q):
        return
    for name, norm_Q in (("dnorm", dnorm_Q), ("dot", dot_Q)):
        yield _row(PILOT_NORMS, "query_norm_cv", float(np.std(norm_Q) / norm_Q.mean()), similarity=name)
    num = len(dnorm_Q)
    whole = float(_log10_cv(dnorm_Q) - _log10_cv(dot_Q))
    if not np.isfinite(whole):
        return
    if num < MIN_QUERIES:
        yield _row(PILOT_NORMS, "log10_cv_ratio", whole)
        return
    without_Q = np.array([_log10_cv(np.delete(dnorm_Q, i)) - _log10_cv(np.delete(dot_Q, i)) for i in range(num)])
    if not np.isfinite(without_Q).all():  # one query's norm is all that varies
        yield _row(PILOT_NORMS, "log10_cv_ratio", whole)
        return
    pseudo_Q = num * whole - (num - 1) * without_Q
    low, high = _interval(pseudo_Q)
    yield _row(PILOT_NORMS, "log10_cv_ratio", float(pseudo_Q.mean()), low=low, high=high)


def _paired(one: Values | None, other: Values | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the queries that both have a finite value of, in the order of their ids."""
    assert one is not None, "only pilots that have ended are compared"
    assert other is not None, "only pilots that have ended are compared"
    both = sorted(key for key in one.keys() & other.keys() if np.isfinite((one[key], other[key])).all())
    return np.array([one[key] for key in both]), np.array([other[key] for key in both])


def _log10_cv(norm_Q: NDArray[np.float64]) -> float:
    """Minus infinity where norms do not vary, or differ by float32's rounding."""
    mean = float(norm_Q.mean())
    variation = float(np.std(norm_Q)) / mean if mean > 0 else 0.0
    return float(np.log10(variation)) if variation > SAME_NORMS else -np.inf


def _interval(values_Q: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Student's, of the mean; none of so few values that it says nothing."""
    if len(values_Q) < MIN_QUERIES:
        return None, None
    return t_interval(
        float(values_Q.mean()), float(values_Q.std(ddof=1)) / len(values_Q) ** 0.5, len(values_Q) - 1, LEVEL
    )


def _row(
    block: str,
    statistic: str,
    value: float,
    *,
    similarity: str | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Row:
    interval = {"low": low, "high": high, "level": None if low is None else LEVEL}
    return {"block": block, "statistic": statistic, "value": float(value), "similarity": similarity, **interval}
