"""Table `rag`: exact match and F1 of a reader's answers per model, init regime, data set and similarity."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.rag import rag_scores
from results.selection import select_trials
from results.tables.parts import fairness_lines, missing_lines, model_name, parts_note, varying, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions

_BEFORE = Origin(trials=("untrained_trial_ids",), data="data set")


def build(collected: Collected, options: TableOptions) -> Table:
    """The table of answers. Raises what `results.rag.rag_scores` raises."""
    found = rag_scores(collected.answers, collected.expected_answers, where=options.where, pool=options.pool)
    rows = found.with_columns(model_name())
    return Table(
        name="rag",
        title="Questions answered from what was found",
        columns=_columns(rows),
        rows=rows,
        notes=(
            *_notes(rows),
            *_parts(collected),
            *fairness_lines(collected, select_trials(collected.expected_answers, options.where)),
            *warning_notes(collected),
        ),
        block=("task", "model", "init_regime", "data_set", "split"),
        rank="rank",
        holes=tuple(_holes(collected, options)),
        formula="EM, F1 = mean over questions of the best over right answers (SQuAD), then over seeds",
        origin=Origin(data="data set"),
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    differ = rows.filter(pl.col("similarity") != pl.col("score_similarity"))
    scored_with = (Column(key="score_similarity", header="scored with"),) if differ.height else ()
    return (
        *varying(rows, (Column(key="task", header="task"),)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        Column(key="data_set", header="data set"),
        *varying(rows, (Column(key="split", header="split"),)),
        Column(key="similarity", header="similarity"),
        *scored_with,
        Column(key="exact_match", header="EM", kind="score"),
        Column(key="f1", header="F1", kind="score", ranked=True),
        Column(key="untrained_exact_match", header="untrained EM", kind="score", detail=True, origin=_BEFORE),
        Column(key="untrained_f1", header="untrained F1", kind="score", origin=_BEFORE),
        Column(key="num_questions", header="questions", kind="count"),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _notes(rows: pl.DataFrame) -> Iterator[str]:
    data, scale = (", ".join(rows[name].unique().sort()) for name in ("training_data", "scale"))
    yield f"Trained on {data}, scale {scale}. Scores are times 100, means over questions, averaged over seeds."
    for reader, num_passages in rows.select("reader", "num_passages").unique(maintain_order=True).iter_rows():
        yield f"Read by {reader} from the first {num_passages} passages, greedily."
    yield "EM and F1 after SQuAD's normalisation, the best over the right answers of a question."
    yield "Untrained: the checkpoint before training, under the row's score similarity."
    if (cut := rows["cut_share"].max()) and isinstance(cut, float):
        share = f"{100 * cut:.0f} %" if cut >= 0.01 else "less than 1 %"
        yield f"At most {share} of a row's passages were shortened to fit the reader's input."
    if rows["num_seeds"].max() == 1:
        yield "One seed: nothing here says how far another seed would move a number."


def _parts(collected: Collected) -> Iterator[str]:
    return parts_note(e for e in collected.record.evaluations if e.reader)


def _holes(collected: Collected, options: TableOptions) -> Iterator[str]:
    chosen = select_trials(collected.expected_answers, options.where)
    yield from missing_lines(collected, chosen, ("trial", "qa"))
