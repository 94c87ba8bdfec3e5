"""The study's own Fisher check (arXiv 2602.09229), as rows of the layout of `results.fisher_check`: for reference only.

It gives kappa without an interval, nor do its scores (nDCG@10, means of three seeds) have one, so its winners are the
higher scores. The verdicts are therefore about its numbers, and stand in no summary.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from results.fisher_check import COLUMNS, PRIMARY

PUBLISHED = "published"
STATISTIC = "kappa"
_OUT_OF_DOMAIN = ("beir", "bright", "multi_hop")


@dataclass(frozen=True, kw_only=True)
class PublishedCheck:
    """A family's published kappa and scores (times 100) of each group's data sets or average, as (qnorm, dnorm)."""

    family: str
    kappa: tuple[float, float]
    scores: Mapping[str, Sequence[tuple[float, float]]]


CHECKS = (
    PublishedCheck(
        family="contriever",
        kappa=(3.83, 3.84),
        scores={
            "in_domain": ((31.35, 31.40), (58.02, 55.41), (56.87, 57.17)),  # MS MARCO dev, TREC-DL 2019, 2020
            "beir": ((44.01, 42.45),),
            "bright": ((12.74, 9.83),),
            "multi_hop": ((57.38, 57.54),),
        },
    ),
    PublishedCheck(
        family="retromae",
        kappa=(6.96, 6.92),
        scores={
            "in_domain": ((32.15, 32.92), (57.51, 59.95), (58.11, 59.20)),
            "beir": ((41.05, 41.15),),
            "bright": ((9.44, 9.46),),
            "multi_hop": ((54.77, 55.47),),
        },
    ),
)


def published_check() -> pl.DataFrame:
    """The rows, with the columns of `fisher_check`: the unweighted mean out of domain first, then each group."""
    rows = [row for check in CHECKS for row in _rows(check)]
    frame = pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows])
    return frame.with_columns(pl.col(pl.Null).cast(pl.Float64)).with_columns(pl.col("layers", "seed").cast(pl.Int64))


def _rows(check: PublishedCheck) -> Iterator[dict[str, Any]]:
    means = {group: _mean(scores) for group, scores in check.scores.items()}
    yield _row(check, PRIMARY, _mean([means[group] for group in _OUT_OF_DOMAIN]))
    for group, mean in means.items():
        yield _row(check, group, mean)


def _mean(scores: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(q for q, _ in scores) / len(scores), sum(d for _, d in scores) / len(scores)


def _row(check: PublishedCheck, group: str, scores: tuple[float, float]) -> dict[str, Any]:
    (qnorm_kappa, dnorm_kappa), (qnorm, dnorm) = check.kappa, (scores[0] / 100, scores[1] / 100)
    call = "qnorm" if qnorm_kappa < dnorm_kappa else "dnorm"
    winner = "qnorm" if qnorm > dnorm else "dnorm"
    return {
        "predictor": PUBLISHED,
        "statistic": STATISTIC,
        "training_data": "MS MARCO (published)",
        "scale": "fixed(20)",
        "family": check.family,
        "init_regime": "finetune",
        "group": group,
        "is_primary": group == PRIMARY,
        "measure": "nDCG@10",
        "qnorm_min": qnorm_kappa,
        "qnorm_max": qnorm_kappa,
        "dnorm_min": dnorm_kappa,
        "dnorm_max": dnorm_kappa,
        "difference_min": qnorm_kappa - dnorm_kappa,
        "difference_max": qnorm_kappa - dnorm_kappa,
        "call": call,
        "qnorm_score": qnorm,
        "dnorm_score": dnorm,
        "gain": qnorm - dnorm,
        "winner": winner,
        "verdict": "hit" if call == winner else "miss",
        "num_seeds": 3,
        "reason": "published without intervals",
    }
