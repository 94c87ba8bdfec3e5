"""Table `gains`: scores and gains against the baseline per model, init regime, group and similarity."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.gains import DERIVED_REASONS, gains, start_similarity
from results.selection import select_trials
from results.tables.parts import (
    fairness_lines,
    members,
    missing_lines,
    model_name,
    scale_note,
    softmax_columns,
    varying,
    warning_notes,
)
from results.tables.table import Column, Table, TableOptions

_BLOCK = ("task", "model", "init_regime", "scale", "group", "measure")


def build(collected: Collected, options: TableOptions) -> Table:
    """The gain table. Raises what `results.gains.gains` raises."""
    every = gains(
        collected.per_query, collected.expected, baseline=options.baseline, where=options.where, pool=options.pool
    )
    start = start_similarity(options.baseline)
    is_untrained = pl.col("kind") == "untrained"
    label = pl.when(is_untrained).then(pl.lit(f"untrained ({start})")).otherwise("similarity")
    rows = every.filter(~is_untrained | (pl.col("similarity") == start)).with_columns(model_name(), label=label)
    return Table(
        name="gains",
        title=f"Gains against {options.baseline}",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows, collected, options),
            *fairness_lines(select_trials(collected.expected, options.where)),
            *warning_notes(collected),
        ),
        block=_BLOCK,
        rank="rank",
        holes=tuple(_holes(rows, collected, options)),
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
        Column(key="score", header=measures[0] if measures.len() == 1 else "score", kind="score", ranked=True),
        Column(key="gain", header="gain", kind="points"),
        Column(key="gain_ratio", header="gain (%)", kind="percent", decimals=1),
        Column(key="untrained_score", header="untrained", kind="score"),
        *softmax_columns(rows, "start", "end"),
        Column(key="num_seeds", header="seeds", kind="count"),
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
        "the change of the group's average relative to the baseline's average."
    )
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
    if trained["num_seeds"].max() == 1:
        yield "One seed: nothing here says how far another seed would move a number."


def _holes(rows: pl.DataFrame, collected: Collected, options: TableOptions) -> Iterator[str]:
    chosen = select_trials(collected.expected, options.where)
    yield from missing_lines(collected, chosen, ("trial", "evaluation"))
