"""A claim as a contrast of what one model was trained with: its terms, or why there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from results.claims import EffectClaim, GainClaim, NonInferiority, Side
from results.compared import Compared
from results.statistics.contrasts import Term, gain_of, mean_against
from results.statistics.groups import DataSetScores, GroupScores

EFFECT_TYPES: Mapping[str, Any] = {"trial_id": pl.String, "data_set": pl.String, "d": pl.Float64}
"""Cohen's d of one trial's document norms on one data set (of several parts: their mean)."""


class NotTestableError(ValueError):
    """The rows hold no contrast for a claim; says why."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is known of one model at one scale.

    Attributes:
        cells: by init regime and group.
        sides: the groups of each side of the domain.
        validation: by trial id the score, 0 to 1, of the checkpoint that was kept; None without validation.
        effects: columns EFFECT_TYPES.
    """

    cells: Mapping[tuple[str, str], Compared]
    sides: Mapping[Side, tuple[str, ...]]
    validation: Mapping[str, float | None]
    effects: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Its terms, the trials behind them, and what was chosen on the way."""

    terms: tuple[Term, ...]
    trial_ids: tuple[str, ...]
    chosen: str | None = None


def contrast_of(test: GainClaim | NonInferiority | EffectClaim, model: Model) -> Contrast:
    """The contrast that stands for a claim about `model`.

    Raises:
        NotTestableError: the sweep does not hold what the claim speaks of.
    """
    if isinstance(test, GainClaim):
        return _gains(test, model)
    return _non_inferiority(test, model) if isinstance(test, NonInferiority) else _effect(test, model)


def _gains(claim: GainClaim, model: Model) -> Contrast:
    terms, trials, measures = [], [], set()
    for part in claim.parts:
        names = (*part.similarities, part.baseline)
        cells = _cells(model, part.regime, part.side, names)
        measures |= {cell.measure for cell in cells}
        coefficients = mean_against(part.similarities, part.baseline)
        terms += [_term(cell, coefficients, part.weight / len(cells)) for cell in cells]
        trials += _trials(cells, names)
    _refuse_mixed(measures)
    return Contrast(terms=tuple(terms), trial_ids=tuple(dict.fromkeys(trials)))


def _non_inferiority(claim: NonInferiority, model: Model) -> Contrast:
    cells = _cells(model, claim.regime, claim.side, (claim.similarity, *claim.others))
    _refuse_mixed({cell.measure for cell in cells})
    best = _best_validated(claim.others, cells[0], model.validation)
    terms = tuple(_term(cell, gain_of(claim.similarity, best), 1 / len(cells)) for cell in cells)
    trials = _trials(cells, (claim.similarity, *claim.others))
    return Contrast(terms=terms, trial_ids=tuple(dict.fromkeys(trials)), chosen=f"best by validation: {best}")


def _best_validated(names: Sequence[str], cell: Compared, validation: Mapping[str, float | None]) -> str:
    """The one with the highest validation score, averaged over seeds; of equal ones the first."""
    means = {}
    for name in names:
        scores = [validation.get(trial_id) for trial_id in cell.trial_ids[name]]
        known = [score for score in scores if score is not None]
        if len(known) < len(scores):
            raise NotTestableError(
                f"{name} was not validated while it was trained, and the best manual similarity is chosen by validation"
            )
        means[name] = sum(known) / len(known)
    return max(means, key=lambda name: means[name])


def _effect(claim: EffectClaim, model: Model) -> Contrast:
    cells = _cells(model, claim.regime, claim.side, (claim.similarity,))
    term = Term(group=_effect_group(cells, claim, model.effects), coefficients={"d": 1.0})
    return Contrast(terms=(term,), trial_ids=tuple(dict.fromkeys(_trials(cells, (claim.similarity,)))))


def _effect_group(cells: Sequence[Compared], claim: EffectClaim, effects: pl.DataFrame) -> GroupScores:
    """Effect sizes by seed on each data set of a side, once: data sets are the sample, with one 'query' in each."""
    known = {(trial, data_set): d for trial, data_set, d in effects.select(*EFFECT_TYPES).iter_rows()}
    ids, trainings = cells[0].trial_ids[claim.similarity], cells[0].scores
    assert trainings is not None
    data_sets = []
    for name in dict.fromkeys(name for cell in cells if cell.scores for name in cell.scores.members):
        values = [known.get((trial_id, name)) for trial_id in ids]
        if None in values:
            raise NotTestableError(f"Cohen's d of document norms is not known on {name}")
        values_CSQ = np.array(values, dtype=np.float64)[None, :, None]
        data_sets.append(DataSetScores(name=name, part_of=name, values_CSQ=values_CSQ))
    return GroupScores(name=claim.side, trainings=trainings.trainings, columns=("d",), data_sets=tuple(data_sets))


def _cells(model: Model, regime: str, side: Side, similarities: Sequence[str]) -> list[Compared]:
    """Those of a side's groups in which all `similarities` can be compared."""
    if not any(known == regime for known, _ in model.cells):
        raise NotTestableError(f"the sweep does not train it in the regime {regime}")
    groups = model.sides[side]
    if not groups:
        raise NotTestableError(f"the sweep evaluates no group {side}")
    found = []
    for group in groups:
        cell = model.cells.get((regime, group))
        if cell is None:
            raise NotTestableError(f"group {group} has no rankings")
        if not cell.has(*similarities):
            raise NotTestableError(f"{regime} on {group}: {cell.why_not(*similarities)}")
        found.append(cell)
    return found


def _term(cell: Compared, coefficients: Mapping[str, float], weight: float) -> Term:
    assert cell.scores is not None
    return Term(group=cell.scores, coefficients=coefficients, weight=weight)


def _trials(cells: Sequence[Compared], similarities: Sequence[str]) -> list[str]:
    return [trial_id for cell in cells for name in similarities for trial_id in cell.trial_ids[name]]


def _refuse_mixed(measures: set[str]) -> None:
    if len(measures) > 1:
        raise NotTestableError(f"its groups have different main measures ({', '.join(sorted(measures))})")
