"""The claims held against the rows of a sweep: estimate, interval, adjusted p and verdict, by model and over all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from results.claims import CLAIMS, Claim, EffectClaim, NonInferiority, Side
from results.claims.contrasts import Contrast, Model, NotTestableError, contrast_of
from results.compared import MODEL, Compared, Comparisons
from results.statistics.contrasts import (
    Verdict,
    claim_verdict,
    estimate_contrast,
    non_inferiority,
    non_inferiority_verdict,
)
from results.statistics.corrections import Correction, adjust
from results.statistics.effect_sizes import D_UNIT
from results.statistics.estimate import Estimate, Target

Scope = Literal["model", "all models"]
_STUDY = ("task", "training_data", "training_data_hash", "scale_mode", "scale_value")
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("claim", "scope", "task", "training_data", "training_data_hash", "scale", "family"), pl.String),
    **dict.fromkeys(("layers", "num_models"), pl.Int64),
    **dict.fromkeys(("estimate", "low", "high", "p", "adjusted_p", "new_low", "new_high"), pl.Float64),
    **dict.fromkeys(("unit", "target", "sources"), pl.String),
    "expected": pl.Int64,
    "margin": pl.Float64,
    "num_seeds": pl.Int64,
    **dict.fromkeys(("verdict", "chosen", "reason", "trial_ids"), pl.String),
}


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What claims need besides scores: which groups lie where, validation scores, and effect sizes.

    Attributes:
        in_domain: the groups.
        out_of_domain: those whose unweighted mean counts.
        validation: by trial id.
        effects: columns `contrasts.EFFECT_TYPES`; of trials and data sets that it lacks nothing is said.
    """

    in_domain: tuple[str, ...]
    out_of_domain: tuple[str, ...]
    validation: Mapping[str, float | None]
    effects: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class _Tested:
    """One row in the making; `estimate` is None where the claim could not be tested."""

    claim: Claim
    row: Mapping[str, Any]
    estimate: Estimate | None


def evaluate_claims(cells: Comparisons, known: Sides, *, correction: Correction = "holm") -> pl.DataFrame:
    """One row for each claim and model, and one over all models of a training data set and scale where there are two.

    Columns: `claim`, `scope` ('model', 'all models'), what was trained, `estimate` with `low` and `high` (0 to 1; of
    effect sizes in `unit`), its `target` and `sources`, `p`, `adjusted_p` over all rows, the interval for new data
    sets, `verdict` ('confirmed', 'refuted', 'undecided'), and the `reason` of an undecided one where
    it is no matter of p. 'All models' is the unweighted mean over the models that the claim can be tested on. The seeds
    that are compared are those of a claim's own similarities.
    """
    tested = [item for claim in CLAIMS.values() for item in _of_claim(claim, cells.like(*claim.test.names), known)]
    adjusted = adjust([item.estimate.p if item.estimate else None for item in tested], correction)
    rows = [_judged(item, p) for item, p in zip(tested, adjusted, strict=True)]
    return pl.DataFrame(rows, schema=_TYPES)


def _of_claim(claim: Claim, cells: Sequence[Compared], known: Sides) -> list[_Tested]:
    models: dict[tuple[Any, ...], list[Compared]] = {}
    for cell in cells:
        models.setdefault(tuple(cell.training[name] for name in MODEL), []).append(cell)
    found: list[_Tested] = []
    together: dict[tuple[Any, ...], list[Contrast]] = {}
    for of_model in models.values():
        named = {name: of_model[0].training[name] for name in (*MODEL, "scale")}
        try:
            contrast = contrast_of(claim.test, _model(of_model, known))
        except NotTestableError as error:
            found.append(_Tested(claim=claim, row={**_row(claim, named, "model"), "reason": str(error)}, estimate=None))
            continue
        together.setdefault(tuple(named[name] for name in _STUDY), []).append(contrast)
        found.append(_tested(claim, contrast, {**_row(claim, named, "model"), "num_models": 1}))
    for study, contrasts in together.items():
        if len(contrasts) > 1:
            scale = next(c.training["scale"] for c in cells if tuple(c.training[n] for n in _STUDY) == study)
            named = {**dict(zip(_STUDY, study, strict=True)), "scale": scale, "family": None, "layers": None}
            row = {**_row(claim, named, "all models"), "num_models": len(contrasts)}
            found.append(_tested(claim, _mean(contrasts), row))
    return found


def _model(cells: Sequence[Compared], known: Sides) -> Model:
    sides: dict[Side, tuple[str, ...]] = {"in domain": known.in_domain, "out of domain": known.out_of_domain}
    return Model(
        cells={(cell.training["init_regime"], cell.group): cell for cell in cells},
        sides=sides,
        validation=known.validation,
        effects=known.effects,
    )


def _row(claim: Claim, named: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    return {
        "claim": claim.name,
        "scope": scope,
        **{name: named[name] for name in _TYPES if name in named},
        "unit": D_UNIT if isinstance(claim.test, EffectClaim) else "score",
        "expected": None if isinstance(claim.test, NonInferiority) else claim.test.expected,
        "margin": claim.test.margin if isinstance(claim.test, NonInferiority) else None,
    }


def _tested(claim: Claim, contrast: Contrast, row: Mapping[str, Any]) -> _Tested:
    # An effect size has no queries: its data sets are the sample.
    target: Target = "new data sets" if isinstance(claim.test, EffectClaim) else "these data sets"
    estimate = estimate_contrast(contrast.terms, target=target)
    new = estimate_contrast(contrast.terms, target="new data sets")
    if isinstance(claim.test, NonInferiority):
        estimate = non_inferiority(estimate, claim.test.margin)
    more = {
        "estimate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "p": estimate.p,
        "new_low": new.low,
        "new_high": new.high,
        "target": estimate.target,
        "sources": estimate.sources,
        "num_seeds": estimate.num_seeds,
        "chosen": contrast.chosen,
        "reason": estimate.reason,
        "trial_ids": " ".join(contrast.trial_ids),
    }
    return _Tested(claim=claim, row={**row, **more}, estimate=estimate)


def _mean(contrasts: Sequence[Contrast]) -> Contrast:
    terms = [replace(t, weight=t.weight / len(contrasts)) for contrast in contrasts for t in contrast.terms]
    chosen = "; ".join(dict.fromkeys(contrast.chosen for contrast in contrasts if contrast.chosen)) or None
    trials = dict.fromkeys(trial_id for contrast in contrasts for trial_id in contrast.trial_ids)
    return Contrast(terms=tuple(terms), trial_ids=tuple(trials), chosen=chosen)


def _judged(item: _Tested, adjusted_p: float | None) -> dict[str, Any]:
    return {**item.row, "adjusted_p": adjusted_p, "verdict": _verdict(item, adjusted_p)}


def _verdict(item: _Tested, adjusted_p: float | None) -> Verdict:
    if item.estimate is None:
        return "undecided"
    test = item.claim.test
    if isinstance(test, NonInferiority):
        return non_inferiority_verdict(item.estimate, adjusted_p, test.margin)
    return claim_verdict(item.estimate, adjusted_p, expected_sign=test.expected)
