"""Table `rag_gains`: how much better a reader answers from what each similarity found than from the baseline's."""

from collections.abc import Iterator, Mapping

import polars as pl

from results.collect import Collected
from results.rag_gains import ANSWERS_MISSING, MEASURES, rag_gains
from results.selection import select_trials
from results.statistics.paired_tests import PairedTest
from results.tables.gain_parts import reason_notes
from results.tables.parts import (
    correction_header,
    correction_name,
    fairness_lines,
    missing_lines,
    model_name,
    parts_note,
    varying,
    warning_notes,
)
from results.tables.table import Column, Origin, Table, TableOptions

_TESTS: Mapping[PairedTest, str] = {
    "t": "Student's t",
    "permutation": "sign-flip permutation test",
    "wilcoxon": "Wilcoxon's signed rank test (Pratt)",
}


def build(collected: Collected, options: TableOptions) -> Table:
    """The gains of answers. Raises what `results.rag_gains.rag_gains` raises."""
    found = rag_gains(
        collected.answers,
        collected.expected_answers,
        baseline=options.baseline,
        where=options.where,
        pool=options.pool,
        correction=options.correction,
        test=options.paired_test,
    )
    rows = found.with_columns(model_name())
    chosen = select_trials(collected.expected_answers, options.where)
    return Table(
        name="rag_gains",
        title=f"Questions answered: gains over {options.baseline}",
        columns=_columns(rows, options),
        rows=rows,
        notes=(
            *_notes(rows, options),
            *parts_note(e for e in collected.record.evaluations if e.reader),
            *fairness_lines(collected, chosen),
            *warning_notes(collected),
        ),
        block=("task", "model", "init_regime", "data_set", "split"),
        holes=tuple(missing_lines(collected, chosen, ("trial", "qa"))),
        formula="gain = mean over questions and seeds of (EM or F1 - the baseline's)",
        origin=Origin(data="data set"),
    )


def _columns(rows: pl.DataFrame, options: TableOptions) -> tuple[Column, ...]:
    return (
        *varying(rows, (Column(key="task", header="task"),)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        Column(key="data_set", header="data set"),
        *varying(rows, (Column(key="split", header="split"),)),
        Column(key="similarity", header="similarity"),
        *_gain_columns("exact_match", options),
        Column(key="num_better", header="better", kind="count", detail=True),
        Column(key="num_worse", header="worse", kind="count", detail=True),
        *_test_columns("exact_match", options),
        *_gain_columns("f1", options),
        *_test_columns("f1", options),
        Column(key="num_seeds", header="seeds", kind="count"),
    )


def _gain_columns(measure: str, options: TableOptions) -> Iterator[Column]:
    """The gain by the two-way model."""
    short, corrected = _SHORT[measure], correction_header(options)
    low, high, p = f"{measure}_low", f"{measure}_high", f"{measure}_adjusted_model_p"
    yield Column(key=f"{measure}_gain", header=f"{short} gain", kind="points")
    yield Column(key=low, upper=high, header=f"{short} 95 % interval", kind="points_interval")
    yield Column(key=p, header=f"{short} model p ({corrected})", kind="p", decimals=3, detail=True)


def _test_columns(measure: str, options: TableOptions) -> Iterator[Column]:
    """The paired test of these seeds."""
    short, reason = _SHORT[measure], f"{measure}_p_reason"
    yield Column(key=f"{measure}_p", header=f"{short} p", kind="p", decimals=3, detail=True)
    header = f"{short} p ({correction_header(options)})"
    yield Column(key=f"{measure}_adjusted_p", header=header, kind="p", decimals=3, reason=reason)


def _notes(rows: pl.DataFrame, options: TableOptions) -> Iterator[str]:
    data, scale = (", ".join(rows[name].unique().sort()) for name in ("training_data", "scale"))
    yield (
        f"Trained on {data}, scale {scale}. Gain: mean over questions and seeds minus that of {options.baseline}, in "
        "points (times 100). Intervals: two-way model of seeds and questions."
    )
    yield (
        "Tests are paired by question and of these seeds only. EM: exact McNemar on the questions that one of the two "
        "alone answers (better, worse); with several seeds its clusters are questions. F1: "
        f"{_TESTS[options.paired_test]} of the questions' differences."
    )
    yield (
        f"{correction_name(options)} over all p of the paired tests, EM and F1 together; the p of the two-way model, "
        "which ask another question (in Markdown and CSV beside their intervals), among themselves likewise."
    )
    if rows["num_seeds"].max() == 1:
        yield "One seed: intervals, too, are of these checkpoints alone."
    yield from reason_notes(rows.filter(pl.col("reason") != ANSWERS_MISSING), "reason", "gain", _PLACE)
    for measure in MEASURES:
        yield from reason_notes(rows, f"{measure}_reason", f"{_SHORT[measure]} interval", _PLACE)
        yield from reason_notes(rows, f"{measure}_p_reason", f"{_SHORT[measure]} p", _PLACE)


_PLACE = ["model", "init_regime", "similarity", "data_set"]
_SHORT = {"exact_match": "EM", "f1": "F1"}
