"""Table `gains`: scores and gains against the baseline per model, init regime, group and similarity."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from results.collect import Collected
from results.gains import DERIVED_REASONS, start_similarity
from results.selection import select_trials
from results.tables.gain_parts import (
    BEFORE,
    BOTH,
    INTERVAL,
    OWN,
    TWO_WAY,
    gain_rows,
    mark_note,
    one_seed_note,
    reason_notes,
    target_note,
    trial_holes,
)
from results.tables.parts import (
    fairness_lines,
    members,
    no_paired_test,
    scale_note,
    softmax_columns,
    varying,
    warning_notes,
)
from results.tables.table import Column, Table, TableOptions

_DETAIL: Mapping[str, Any] = {"kind": "points_interval", "detail": True}
_BLOCK = ("task", "model", "init_regime", "scale", "group", "measure")


def build(collected: Collected, options: TableOptions) -> Table:
    """The gain table. Raises what `results.gains.gains` raises."""
    rows = gain_rows(collected, collected.expected, options)
    return Table(
        name="gains",
        title=f"Gains against {options.baseline}",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows, collected, options),
            *fairness_lines(collected, select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=_BLOCK,
        rank="rank",
        holes=trial_holes(collected, options),
        formula=(
            "gain = score - baseline's score; gain (%) = gain / baseline's score (ratio_of_means); mean of "
            "ratios = mean over data sets of (score - baseline's) / baseline's"
        ),
        origin=BOTH,
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    measures = rows["measure"].unique()
    return (
        *varying(rows, (Column(key="task", header="task"),)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        *varying(rows, (Column(key="scale", header="scale"),)),
        Column(key="group", header="group"),
        *varying(rows, (Column(key="measure", header="measure"),)),
        Column(key="label", header="similarity"),
        Column(
            key="score", header=measures[0] if measures.len() == 1 else "score", kind="score", ranked=True, origin=OWN
        ),
        Column(key="gain", header="gain", kind="points", marks="mark"),
        Column(key="mark", header="sig."),
        Column(key="gain_low", upper="gain_high", header=INTERVAL, kind="points_interval"),
        Column(key="new_gain_low", upper="new_gain_high", header="new data sets", kind="points_interval", detail=True),
        Column(key="gain_ratio", header="gain (%)", kind="percent", decimals=1, reason="ratio_reason"),
        Column(key="ratio_low", upper="ratio_high", header="gain (%) interval", decimals=1, **_DETAIL),
        Column(key="mean_of_ratios", header="mean of ratios (%)", kind="percent", decimals=1, detail=True),
        Column(key="mean_of_ratios_low", upper="mean_of_ratios_high", header="its interval", decimals=1, **_DETAIL),
        Column(key="untrained_score", header="untrained", kind="score", origin=BEFORE),
        *(replace(column, origin=OWN) for column in softmax_columns(rows, "start", "end")),
        Column(key="num_seeds", header="seeds", kind="count", origin=OWN),
    )


def _notes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    baseline = options.baseline
    trained = rows.filter(pl.col("kind") == "train")
    data, scales = (trained[name].unique().sort().to_list() for name in ("training_data", "scale"))
    yield f"Trained on {', '.join(data)}, scale {' or '.join(scales)}. Scores are times 100."
    yield from scale_note(scales)
    groups = rows["group"].unique(maintain_order=True)
    of_group = {group: [e for e in collected.record.evaluations if group in e.groups] for group in groups}
    described = "; ".join(f"{group}: {members(evaluations)}" for group, evaluations in of_group.items())
    yield (
        "A score is the unweighted mean over the group's data sets of the mean over queries, averaged over seeds. "
        f"{described}."
    )
    yield (
        f"Gain: points against {baseline} of the same model, regime, scale and seeds; in percent as ratio_of_means, "
        "the change of the group's average relative to the baseline's average. mean_of_ratios is another quantity: the "
        "mean of the data sets' relative changes."
    )
    yield target_note()
    yield from mark_note(options, rows["adjusted_p"].drop_nulls().len(), "gains")
    yield from no_paired_test(options, TWO_WAY)
    trained_starts = {name: start_similarity(name) for name in trained["similarity"].unique().sort()}
    own = [f"{name} starts at {start}" for name, start in trained_starts.items() if start != name]
    yield (
        "Untrained: the checkpoint before training, scored with the row's own similarity"
        f"{' (' + '; '.join(own) + ')' if own else ''}; as a row of its own, scored with {start_similarity(baseline)}."
    )
    if softmax_columns(rows, "start", "end"):
        yield (
            "Sat.: saturated queries, those of a training batch whose likeliest candidate has a probability above "
            "0.99, in the first step / in the last 10; likewise, in Markdown and CSV, means of the perplexity and the "
            "deviation of a query's logits over its candidates. An untrained checkpoint has none."
        )
    # What no further run of this sweep would bring is no hole: a dash with its reason.
    for row in rows.filter(~pl.col("reason").is_in(DERIVED_REASONS)).iter_rows(named=True):
        at = f" at {row['scale']}" if len(scales) > 1 else ""
        yield f"Dash in {row['model']}/{row['init_regime']}/{row['label']}{at} on {row['group']}: {row['reason']}."
    place = ["model", "init_regime", "group"]
    near_zero = trained.filter(pl.col("gain").is_not_null() & pl.col("gain_ratio").is_null())
    yield from reason_notes(near_zero, "ratio_reason", "gain (%)", place)
    unknown = trained.filter(pl.col("gain").is_not_null() & pl.col("gain_low").is_null())
    yield from reason_notes(unknown, "gain_reason", "interval", place)
    yield from one_seed_note(trained["num_seeds"])
