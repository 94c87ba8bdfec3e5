"""Table `train_score_matrix`: trained similarity x score similarity, per model, init regime and group."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.score_matrix import score_columns, score_matrix
from results.selection import select_trials
from results.tables.parts import fairness_lines, members, missing_lines, model_name, varying, warning_notes
from results.tables.table import Column, Table, TableOptions
from search_spaces.catalogue.similarities import SIMILARITIES


def build(collected: Collected, options: TableOptions) -> Table:
    """The matrix. Raises what `results.score_matrix.score_matrix` raises."""
    found = score_matrix(collected.data_set_scores, collected.expected, where=options.where, pool=options.pool)
    label = pl.when(pl.col("kind") == "train").then("similarity").otherwise(pl.lit("untrained"))
    rows = found.with_columns(model_name(), label=label)
    chosen = select_trials(collected.expected, options.where)
    return Table(
        name="train_score_matrix",
        title="Trained with one similarity, scored with another",
        columns=_columns(rows),
        rows=rows,
        notes=(*_notes(rows, collected), *fairness_lines(collected, chosen), *warning_notes(collected)),
        block=("task", "model", "init_regime", "group"),
        holes=tuple(missing_lines(collected, chosen, ("trial", "evaluation"))),
        formula="score = mean over data sets of the mean over queries, ranked by the column's similarity",
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    return (
        *varying(rows, (Column(key="task", header="task"),)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        Column(key="group", header="group"),
        *varying(rows, (Column(key="measure", header="measure"),)),
        Column(key="label", header="trained with"),
        *varying(rows, (Column(key="scale", header="scale"),)),
        *(Column(key=f"score_{name}", header=name, kind="score") for name in score_columns(rows)),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    measures = ", ".join(rows["measure"].unique().sort())
    yield f"{measures} times 100, means of the group's data sets, averaged over seeds; a column is a score similarity."
    data, scales = (", ".join(rows[name].drop_nulls().unique().sort()) for name in ("training_data", "scale"))
    yield f"Trained on {data}, scale {scales}. A row's own similarity is the column of its name."
    same = [f"{', '.join(names)}" for names in _same_rankings(score_columns(rows)) if len(names) > 1]
    if same:
        yield f"Rankings depend on gamma_d alone: the same in {'; '.join(same)}."
    dashes = [name for name in score_columns(rows) if rows[f"score_{name}"].null_count()]
    if dashes:
        yield "Dash: not scored so, since `evaluation.score_similarities` of the sweep file does not ask for it."
    for group in rows["group"].unique(maintain_order=True):
        of = [e for e in collected.record.evaluations if group in e.groups]
        yield f"{group}: {members(of)}."


def _same_rankings(names: list[str]) -> Iterator[list[str]]:
    fixed = [SIMILARITIES[name] for name in names if not SIMILARITIES[name].trained]
    for gamma_d in dict.fromkeys(similarity.gamma_d for similarity in fixed):
        yield [similarity.name for similarity in fixed if similarity.gamma_d == gamma_d]
