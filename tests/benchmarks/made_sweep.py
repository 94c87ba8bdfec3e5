"""A made sweep folder of any size: rows by the contract, at the keys where a sweep leaves them, scores at random."""

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from results.layout import (
    SWEEP_RECORD,
    PlannedEvaluation,
    PlannedTrial,
    Status,
    SweepRecord,
    evaluations_key,
    evaluations_to_bytes,
    history_rows,
    per_query_rows,
    probe_rows,
    spec_key,
    status_key,
    to_bytes,
    trial_prefix,
    trial_rows,
)
from results.schemas import HISTORY, SCHEMAS, make_table
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.identity import evaluation_id, probe_id, trial_id
from search_spaces.specs import DataSpec, EvaluationSpec, to_json
from tests.results.builders import probe, probe_rows_of, trained, trial_row

SIMILARITIES = {"cosine": 0.40, "dot": 0.41, "qnorm": 0.44, "dnorm": 0.43, "learnable": 0.44}
REGIMES = ("finetune", "random")
_STATUS = Status(state="finished", started_at="2026-01-01T00:00:00+00:00", finished_at="2026-01-01T01:00:00+00:00")
_MADE_WITH = json.dumps({"python": "3.11.7", "packages": {"torch": "2.13.0"}})


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the sweep is; 5 similarities in each of 2 regimes."""

    num_families: int = 20
    num_seeds: int = 5
    num_data_sets: int = 30
    num_queries: int = 500

    @property
    def num_trials(self) -> int:
        """How many checkpoints."""
        return self.num_families * self.num_seeds * len(REGIMES) * len(SIMILARITIES)

    @property
    def num_rows(self) -> int:
        """How many per query rows."""
        return self.num_trials * self.num_data_sets * self.num_queries


def make_sweep(folder: Path, size: Size) -> int:
    """Write the sweep; returns the number of its files."""
    planned = tuple(_planned(size))
    evaluations = {p.data_set: (p, _evaluation(p)) for p in planned}
    ids = {p.data_set: pa.array([f"{p.data_set}-{q}" for q in range(size.num_queries)]) for p in planned}
    trials, num_files = [], 1
    told = evaluations_to_bytes([evaluation for _, evaluation in evaluations.values()])
    cells = itertools.product(range(size.num_families), REGIMES, SIMILARITIES, range(size.num_seeds))
    for family, regime, similarity, seed in cells:
        spec = trained(similarity, seed=seed, family=f"family{family}", layers=None, init_regime=regime)
        key = trial_id(spec)
        trials.append(PlannedTrial(trial_id=key, title=spec.title))
        row = trial_row(spec, _MADE_WITH) | _costs(seed)
        row |= {"gamma_q": 0.5, "gamma_d": 0.5} if similarity == "learnable" else {}
        _write(folder, trial_rows(key), make_table("trials", [row]))
        _put(folder, spec_key(trial_prefix(key)), to_json(spec).encode())
        _put(folder, status_key(trial_prefix(key)), to_bytes(_STATUS))
        _put(folder, evaluations_key(key), told)
        _write(folder, history_rows(key), make_table("history", list(_history(key))))
        scored_with = replace(
            spec.similarity, **({"gamma_q": 0.5, "gamma_d": 0.5} if similarity == "learnable" else {})
        )
        generator = np.random.default_rng([family, REGIMES.index(regime), [*SIMILARITIES].index(similarity), seed])
        for of, evaluation in evaluations.values():
            shift = SIMILARITIES[similarity] + generator.normal(0, 0.01)
            values = np.clip(shift + generator.normal(0, 0.2, size.num_queries), 0, 1)
            table = _per_query(row["checkpoint_hash"], of, similarity, ids[of.data_set], values)
            _write(folder, per_query_rows(evaluation_id(row["checkpoint_hash"], evaluation, scored_with)), table)
        num_files += 5 + len(planned)
    probes = list(_probes(folder, size))
    record = SweepRecord(
        name="large",
        trials=tuple(trials),
        probes=tuple(probes),
        evaluations=planned,
        left_out=(),
        primary_groups=("beir", "bright"),
    )
    _put(folder, SWEEP_RECORD, to_bytes(record))
    return num_files + len(probes)


def _planned(size: Size) -> Iterator[PlannedEvaluation]:
    """One in domain, one in two groups, the rest of two groups."""
    for number in range(size.num_data_sets):
        groups: tuple[str, ...] = ("in_domain",) if number == 0 else (("beir", "bright")[number % 2],)
        yield PlannedEvaluation(
            data_set=f"data{number}",
            data_hash=f"{number:064d}",
            split="test",
            tier="full",
            main_measure="nDCG@10",
            relevance_threshold=1,
            groups=(*groups, "multi_hop") if number == 1 else groups,
            in_domain=number == 0,
        )


def _evaluation(planned: PlannedEvaluation) -> EvaluationSpec:
    entry = DataSet(name=planned.data_set, source=f"path:{planned.data_set}", measures=(planned.main_measure,))
    data = DataSpec(entry=entry, split=planned.split, content_hash=planned.data_hash, num_pairs=100)
    return EvaluationSpec(data=data)


def _costs(seed: int) -> dict[str, float]:
    rates = {"pairs_per_s": 64.0, "tokens_per_s": 4096.0, "peak_memory_bytes": 2**30}
    return {"train_wall_s": 3000.0 + seed, "steps_done": 15, **rates}


def _history(key: str) -> Iterator[dict[str, object]]:
    numbers = {field.name: 1.0 for field in HISTORY if not field.nullable}
    for step in range(1, 16):
        yield numbers | {"trial_id": key, "step": step, "gamma_q": 0.5 + step / 1000, "gamma_d": 0.5 - step / 1000}


def _per_query(
    checkpoint_hash: str, planned: PlannedEvaluation, similarity: str, ids: pa.Array, values: np.ndarray
) -> pa.Table:
    same = {
        "checkpoint_hash": checkpoint_hash,
        "data_set": planned.data_set,
        "data_hash": planned.data_hash,
        "split": planned.split,
        "tier": planned.tier,
        "score_similarity": similarity,
        "measure": planned.main_measure,
    }
    columns = {name: pa.repeat(text, len(ids)) for name, text in same.items()}
    columns |= {"query_id": ids, "value": pa.array(values)}
    schema = SCHEMAS["per_query"]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _probes(folder: Path, size: Size) -> Iterator[PlannedTrial]:
    for family, regime in itertools.product(range(size.num_families), REGIMES):
        spec = probe(family=f"family{family}", layers=None, init_regime=regime)
        rows = [row for rank in (16, 32) for row in probe_rows_of(spec, rank, 2.0, 0.1 - family / 100, 0.05)]
        _write(folder, probe_rows(probe_id(spec)), make_table("probes", rows))
        yield PlannedTrial(trial_id=probe_id(spec), title=spec.title)


def _write(folder: Path, key: str, table: pa.Table) -> None:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    _put(folder, key, buffer.getvalue())


def _put(folder: Path, key: str, data: bytes) -> None:
    # Not through the store, which waits until each of many thousand files is on the disk.
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
