"""Table `cost`: time, devices, tokens and memory of trials and probes per kind, model and init regime."""

from collections.abc import Iterator

import polars as pl

from results.collect import Collected
from results.layout import trial_rows
from results.selection import select_trials
from results.stored_rows import read_trials
from results.tables.parts import missing_lines, model_name, varying, warning_notes
from results.tables.table import Column, Origin, Table, TableOptions
from results.trial_costs import cell_costs, probe_costs, trial_costs

_HOURS, _GIB, _MILLION = 3600, 2**30, 1e6


def build(collected: Collected, options: TableOptions) -> Table:
    """Of the trials that are chosen, and of all pilots and probes. Raises SelectionError where none is chosen."""
    parts = (_of_trials(collected, options), _of_pilots(collected), _of_probes(collected))
    rows = cell_costs(pl.concat(parts))
    shown = rows.with_columns(
        model_name(),
        **{f"{name}_h": pl.col(f"{name}_s") / _HOURS for name in ("run_wall", "train_wall", "core", "device")},
        mega_tokens=pl.col("num_tokens") / _MILLION,
        peak_gib=pl.col("peak_memory_bytes") / _GIB,
    )
    return Table(
        name="cost",
        title="What trials and probes took",
        columns=_columns(shown),
        rows=shown,
        notes=(*_notes(shown), *warning_notes(collected)),
        block=("kind", "task"),
        holes=tuple(_holes(collected, options)),
        formula="sums over trials or probes; core hours = threads * training time; device hours = devices * that time",
        origin=Origin(data="none"),
    )


def _of_trials(collected: Collected, options: TableOptions) -> pl.DataFrame:
    trials = collected.trials
    if options.where:
        chosen = select_trials(collected.every_trial, options.where)
        trials = trials.join(chosen, on="trial_id", how="semi", maintain_order="left")
    return trial_costs(collected.store, trials)


def _of_pilots(collected: Collected) -> pl.DataFrame:
    ended = [pilot for pilot in collected.record.pilots if collected.store.exists(trial_rows(pilot.trial_id))]
    return trial_costs(collected.store, read_trials(collected.store, ended))


def _of_probes(collected: Collected) -> pl.DataFrame:
    return probe_costs(collected.store, collected.probes, collected.record.probes)


def _holes(collected: Collected, options: TableOptions) -> Iterator[str]:
    yield from missing_lines(
        collected, select_trials(collected.every_trial, options.where), ("trial", "pilot", "probe")
    )


def _columns(rows: pl.DataFrame) -> tuple[Column, ...]:
    hours = {
        "run_wall_h": "run (h)",
        "train_wall_h": "training (h)",
        "core_h": "core hours",
        "device_h": "device hours",
    }
    return (
        Column(key="kind", header="kind"),
        *varying(rows, (Column(key="task", header="task"),)),
        Column(key="model", header="model"),
        Column(key="init_regime", header="init regime"),
        Column(key="device", header="device"),
        Column(key="num_trials", header="trials", kind="count"),
        *(Column(key=key, header=header, kind="plain", decimals=3) for key, header in hours.items()),
        Column(key="mega_tokens", header="tokens (M)", kind="plain", decimals=3),
        Column(key="tokens_per_s", header="tokens/s", kind="plain", decimals=0, detail=True),
        Column(key="peak_gib", header="peak memory (GiB)", kind="plain"),
    )


def _notes(rows: pl.DataFrame) -> Iterator[str]:
    yield (
        "Sums over trials. Run: from the start of a trial's last attempt to its end, evaluation included. Training: "
        "its wall time, loading and checkpoints included, over all attempts as far as their steps count. Core hours: "
        "threads of all its processes times training, which were booked; the CPU time used of them is not recorded. "
        "Device hours: devices times training. Tokens: read in training, without pads. Peak memory: the highest of any "
        "trial's training, on one device."
    )
    trained = rows.filter(pl.col("kind").is_in(("train", "pilot")))
    for (device,), of_device in trained.group_by("device", maintain_order=True):
        whole = of_device["device_s"].null_count() == 0
        if whole:
            hours = of_device["device_s"].sum() / _HOURS
            yield f"Training in all: {hours:.3f} device hours of {device} in {of_device['num_trials'].sum()} trials."
    if rows.height > trained.height:
        yield "Untrained checkpoints and probes are not trained: of theirs, the run alone is known."
    lacking = rows.filter(pl.col("run_wall_s").is_null())
    if lacking.height:
        yield "No run time where a trial's status does not say when it began and ended."
    if trained.select(pl.col("train_wall_s", "num_tokens", "peak_memory_bytes").is_null().any()).row(0).count(True):
        yield "No training time, tokens or memory where a trial's row does not say, as on systems that do not tell it."
