"""What is there, but not as it should be: trials that came twice, of mixed versions, or of two evaluation tiers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import polars as pl

from results.versions import Made, mixed

FindingKind = Literal["duplicate", "version-mixed", "tier-mixed"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One trial or probe whose rows are in the tables, and what to know of them; `what` and `reason` are for people."""

    kind: FindingKind
    trial_id: str
    title: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.title}: {self.what}: {self.reason}"


def version_mixed(made: Iterable[Made]) -> Iterator[Finding]:
    """The trials and probes with rows that other versions made than most rows."""
    every = list(made)
    titles = {item.trial_id: item.title for item in reversed(every) if item.kind != "evaluation"}
    other: dict[str, dict[str, None]] = {}
    for package, found in mixed(every):
        usual, *unusual = found
        for version in unusual:
            for item in found[version]:
                other.setdefault(item.trial_id, {})[f"{package} {version} (most rows: {usual})"] = None
    for trial_id, told in other.items():
        yield Finding(
            kind="version-mixed",
            trial_id=trial_id,
            title=titles.get(trial_id, trial_id),
            what="rows of other versions",
            reason=", ".join(told),
        )


def tier_mixed(scored: pl.DataFrame, trials: pl.DataFrame) -> Iterator[Finding]:
    """Where rows are of both evaluation tiers: of each trial, which data sets are of which; `scored` as collected."""
    if scored["tier"].n_unique() < 2:
        return
    titles = dict(trials.select("trial_id", "title").iter_rows())
    names = pl.col("data_set").unique(maintain_order=True).str.join(", ")
    of_tier = scored.group_by("trial_id", "tier", maintain_order=True).agg(names).sort("tier", maintain_order=True)
    for (trial_id,), rows in of_tier.group_by("trial_id", maintain_order=True):
        told = "; ".join(f"{tier}: {data_sets}" for tier, data_sets in rows.select("tier", "data_set").iter_rows())
        yield Finding(
            kind="tier-mixed",
            trial_id=trial_id,
            title=titles[trial_id],
            what="not all rows are of one evaluation tier",
            reason=f"{told} (a table is of one: --where tier=full, or tier=pool)",
        )
