"""What a table says of its evaluation tier: a column `tier`, and under a table of pools how far they can be trusted."""

from collections.abc import Callable, Iterator
from dataclasses import astuple, fields, replace

import polars as pl

from results.collect import Collected
from results.layout import PoolRecord, from_bytes, pool_record
from results.pool_bias import MEASURED, MEASURED_HOW, MEASURED_WITH, Bias, biases_in_sweep
from results.selection import refuse_mixed_tiers, select_trials
from results.tables.table import Table, TableOptions
from search_spaces.specs import PoolSettings

Build = Callable[[Collected, TableOptions], Table]
Scored = Callable[[Collected], pl.DataFrame]


def of_one_tier(build: Build, scored: Scored) -> Build:
    """The table with its tier; `scored` gives the frame of `Collected` that says what it shows scores of.

    Raises SelectionError, when called, where the rows that are chosen are of both.
    """

    def built(collected: Collected, options: TableOptions) -> Table:
        chosen = select_trials(scored(collected), options.where)
        refuse_mixed_tiers(chosen)
        table = build(collected, options)
        tiers = chosen["tier"].unique(maintain_order=True)
        tier = tiers[0] if tiers.len() == 1 else None
        notes = tuple(_pool_notes(collected, chosen)) if tier == "pool" else ()
        rows = table.rows.with_columns(tier=pl.lit(tier, dtype=pl.String))
        return replace(table, rows=rows, notes=(*table.notes, *notes))

    return built


def _pool_notes(collected: Collected, chosen: pl.DataFrame) -> Iterator[str]:
    data = set(chosen.select("data_set", "data_hash", "split").iter_rows())
    planned = [e for e in collected.record.evaluations if e.tier == "pool"]
    ids = [e.pool_id for e in planned if (e.data_set, e.data_hash, e.split) in data and e.pool_id]
    keys = [key for key in map(pool_record, ids) if collected.store.exists(key)]
    pools = [from_bytes(PoolRecord, collected.store.read(key)) for key in keys]
    yield _sizes(pools)
    yield _measured()
    if other := [pool.settings for pool in pools if not _is_measured(pool.settings)]:
        yield f"Those figures are not of this table's pools, which are of {_described(other[0])}."
    trials = collected.trials.filter(pl.col("trial_id").is_in(chosen["trial_id"].unique().to_list()))
    for found in biases_in_sweep(collected.store, trials.iter_rows(named=True)):
        compared = _compared(found.bias, found.measure)
        yield f"Pool against corpus in this sweep, {found.data_set}/{found.split}: {compared}."


def _sizes(pools: list[PoolRecord]) -> str:
    sizes = [f"{p.data_set}/{p.split} {p.num_documents:,} of {p.num_corpus_documents:,}" for p in pools]
    return (
        "Scores on pools, parts of each corpus that hold all judged documents, and so never below those over the whole "
        f"corpus. Documents: {', '.join(sizes) or 'not recorded'}."
    )


def _measured() -> str:
    parts = [
        f"{m.collection} ({m.num_queries} queries, {m.num_documents:,} of {m.num_corpus_documents:,} documents): "
        f"{_compared(m.bias, 'nDCG@10')}"
        for m in MEASURED
    ]
    return (
        f"Pool against corpus, measured with {MEASURED_HOW}, pools of {_described(MEASURED_WITH)}. {'; '.join(parts)}."
    )


def _compared(bias: Bias, measure: str) -> str:
    tau = "no order to compare" if bias.kendall_tau is None else f"Kendall's tau {bias.kendall_tau:.3f}"
    winner = "the same winner" if bias.same_winner else "ANOTHER WINNER"
    mean, most = bias.mean_difference * 100, bias.max_difference * 100
    differs = f"{measure} differs by {mean:.2f} points in the mean and {most:.2f} at most"
    return f"{differs} over {bias.num_scores} scores, {tau}, {winner}"


def _is_measured(settings: PoolSettings) -> bool:
    return replace(settings, seed=MEASURED_WITH.seed) == MEASURED_WITH


def _described(settings: PoolSettings) -> str:
    names = [f.name for f in fields(settings) if f.name != "seed"]
    return ", ".join(f"{name} {value}" for name, value in zip(names, astuple(settings), strict=False))
