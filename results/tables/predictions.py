"""Table `predictions`: what each predictor says of every starting encoder, before any training."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from results.collect import Collected
from results.layout import probe_prefix, spec_key
from results.missing import Missing
from results.predictions import PREDICTORS, applicable, needs_pilots, predictions
from results.probes import named_probes
from results.softmax import probe_softmax
from results.tables.parts import scale_note, softmax_columns, varying, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions
from search_spaces.specs import ProbeSpec, from_json

_ORIGIN = Origin(trials=(), probes=("probe_id",), data="none")


def build(collected: Collected, options: TableOptions) -> Table:
    """Calls with their evidence, a row for each probe and predictor that says something of it; trials have no part.

    Raises:
        SelectionError: a choice that no probe has.
    """
    rows = prediction_rows(collected, options.where)
    return Table(
        name="predictions",
        title="Predictions: which of qnorm and dnorm, before any training",
        columns=_columns(rows),
        rows=rows,
        notes=(*_notes(rows, collected), *warning_notes(collected)),
        block=("predictor", "training_data", "scale", "model"),
        holes=tuple(dict.fromkeys(_holes(rows, collected))),
        formula="difference = the predictor's statistic of qnorm - that of dnorm, lowest to highest over its grid",
        origin=_ORIGIN,
    )


def _holes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    """Probes, and pilots, that a row lacks."""
    absent = {item.trial_id: str(item) for item in collected.missing if item.kind == "probe"}
    for row in rows.filter(pl.col("call").is_null()).iter_rows(named=True):
        if row["probe_id"] in absent:
            yield absent[row["probe_id"]]
        else:
            yield f"{row['predictor']} of {row['model']}/{row['regime']} at {row['scale']}: {row['reason']}"


def prediction_rows(collected: Collected, where: Mapping[str, str]) -> pl.DataFrame:
    """`results.predictions.predictions` with the names of `named_probes`, `statistic` and the softmax.

    Probes that are missing are included: their calls are null, with the reason.

    Raises:
        SelectionError: as `named_probes`.
    """
    probes = collected.probes
    said = applicable(probes)
    found = predictions(probes).join(said, on=["probe_id", "predictor"], how="semi", maintain_order="left")
    found = found.join(probe_softmax(probes), on="probe_id", how="left", maintain_order="left")
    lacking = [_row_of(collected, item) for item in collected.missing if item.kind == "probe"]
    of_probes = [name for name in PREDICTORS if not needs_pilots(name)]
    of_any = [name for name in of_probes if said.is_empty() or name in said["predictor"]]
    asked = [row | {"predictor": name} for name in of_any for row in lacking]
    every = pl.concat([found, pl.DataFrame(asked, schema=found.schema)]) if asked else found
    statistics = {name: predictor.statistic for name, predictor in PREDICTORS.items()}
    order = {name: place for place, name in enumerate(PREDICTORS)}
    place = pl.col("predictor").replace_strict(order, return_dtype=pl.Int64)
    named = named_probes(every, where).sort(place, "training_data", "scale", maintain_order=True)
    return named.with_columns(statistic=pl.col("predictor").replace_strict(statistics, return_dtype=pl.String))


def _row_of(collected: Collected, item: Missing) -> dict[str, Any]:
    """A probe without rows, by its spec."""
    key = spec_key(probe_prefix(item.trial_id))
    spec = from_json(ProbeSpec, collected.store.read(key)) if collected.store.exists(key) else None
    row: dict[str, Any] = {"probe_id": item.trial_id, "reason": item.reason}
    if spec is None:
        model, _, regime = item.title.removeprefix("probe ").partition("/")
        return row | {"family": model, "init_regime": regime}
    return row | {
        "family": spec.encoder.family,
        "layers": spec.encoder.layers,
        "init_regime": spec.encoder.init_regime,
        "seed": spec.seed,
        "training_data": spec.training_data.name,
        "training_data_hash": spec.training_data.content_hash,
        "scale_mode": spec.scale.mode,
        "scale_value": spec.scale.value,
    }


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    of = [Column(key=key, header=key.replace("_", " ")) for key in ("predictor", "statistic", "training_data", "scale")]
    sides = (
        Column(key=f"{side}_min", upper=f"{side}_max", header=side, kind="range", detail=True)
        for side in ("qnorm", "dnorm")
    )
    return (
        *varying(rows, tuple(of)),
        Column(key="model", header="model"),
        Column(key="regime", header="init regime"),
        *sides,
        Column(key="difference_min", upper="difference_max", header="difference", kind="range", decimals=3),
        Column(key="low", upper="high", header="interval", kind="interval", decimals=3),
        *softmax_columns(rows, "qnorm", "dnorm"),
        Column(key="call", header="call"),
        *(() if rows["reason"].is_null().all() else (Column(key="reason", header="reason", detail=True),)),
    )


def _notes(rows: pl.DataFrame, collected: Collected) -> Iterator[str]:
    for name in rows["predictor"].unique(maintain_order=True):
        found = PREDICTORS[name]
        yield (
            f"{name} ({found.statistic}): calls {found.rule}. Source: {found.source}. Needs {found.needs}; "
            f"costs {found.costs}."
        )
    yield (
        "Call: undecided unless every interval of the difference (qnorm minus dnorm) excludes 0. Undecided is an "
        "answer: this predictor cannot tell the two apart here."
    )
    levels = ", ".join(f"{level:.0%}" for level in collected.probes["level"].drop_nulls().unique().sort())
    yield (
        "Difference: lowest to highest over what the predictor looks at, such as dimensions of the shared subspace; "
        f"the interval holds all {levels or 'of the'} intervals of them. Markdown and CSV have each side's own values."
    )
    data, scales = (rows[name].drop_nulls().unique().sort().to_list() for name in ("training_data", "scale"))
    if data:
        yield f"Training data {', '.join(data)}, scale {' or '.join(scales)}."
        yield from scale_note(scales)
    if softmax_columns(rows, "qnorm", "dnorm"):
        yield (
            "Sat.: queries whose likeliest candidate has a probability above 0.99, under qnorm / under dnorm: they "
            "hardly add to a Fisher information."
        )
    yield "How often such calls were right is in table `fisher_summary`, once the sweep has run."
