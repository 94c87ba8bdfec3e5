"""What the sweep folder says MLflow should hold, run by run. Knows nothing of MLflow itself."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import pyarrow.compute as pc

from orchestrator.data_inputs import data_inputs
from orchestrator.descriptions import run_description
from orchestrator.labels import RunLabels, SampleLabel, labels, names, provenance_tags
from orchestrator.run_content import RunContent
from orchestrator.run_metrics import (
    MAX_METRICS,
    correlation,
    headline_metrics,
    mean_score,
    metric_name,
    of_tier,
    probe_metric,
    rows_in,
)
from orchestrator.run_outlines import Glance, RunOutline, fingerprint
from results import layout
from results.asked import AskedRows, asked_answers, asked_encodings, asked_evaluations, asked_norms, planned_evaluations
from results.best import BestTrial, best_trials
from results.layout import PlannedEvaluation, Status, SweepRecord
from results.manifests import checkpoint_manifest
from results.rows import provenance_of, read_rows
from results.store import Store
from results.studies import planned_samples, read_study
from search_spaces.cell_names import cell_name
from search_spaces.specs import ProbeSpec, TrialSpec, from_json

_UNTRAINED_SIMILARITY = "cosine"  # an untrained checkpoint has no similarity of its own; gains are against cosine
MANIFEST = "checkpoint/manifest.json"


class Mirror:
    """Reads a sweep folder for its mirror: of each checkpoint, the rows that the sweep asks for."""

    def __init__(self, store: Store, record: SweepRecord) -> None:
        self._store = store
        self._record = record
        self._probes = {planned.trial_id for planned in record.probes}
        self._samples: dict[str, SampleLabel] = {}  # that are known of
        self._groups = tuple(dict.fromkeys(group for planned in record.evaluations for group in planned.groups))

    @property
    def keys(self) -> tuple[str, ...]:
        """The identities of the sweep's trials, then of its probes, then of the samples of its searches."""
        planned = (
            *self._record.trials,
            *self._record.probes,
            *self._record.pilots,
            *planned_samples(self._store, self._record),
        )
        return tuple(dict.fromkeys(item.trial_id for item in planned))

    def refresh(self) -> None:
        """Read the record anew where the sweep searches: what searches lead to is in it."""
        if self._record.studies and self._store.exists(layout.SWEEP_RECORD):
            self._record = layout.from_bytes(SweepRecord, self._store.read(layout.SWEEP_RECORD))

    @property
    def record(self) -> SweepRecord:
        """The sweep's record."""
        return self._record

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """What the record calls each trial and probe; those of searches may share a title there, and are told apart."""
        every = (*self._record.trials, *self._record.probes, *self._record.pilots)
        titles = {planned.trial_id: planned.title for planned in every}
        times = Counter(titles.values())
        twice = [key for key, title in titles.items() if times[title] > 1]
        return titles | names({key: spec for key in twice if (spec := self._spec(key)) is not None})

    @cached_property
    def _planned(self) -> Sequence[Mapping[str, Any]]:
        """What the sweep evaluates, as plain values: searches change nothing of it."""
        return [asdict(evaluation) for evaluation in self._record.evaluations]

    def labels(self, key: str, spec: TrialSpec | ProbeSpec) -> RunLabels:
        """The labels of a trial's or probe's run."""
        if sample := self._sample(key):
            return labels(key, spec, sample=sample)
        return labels(key, spec, name=self._names.get(key), groups=self._groups)

    def _sample(self, key: str) -> SampleLabel | None:
        """Which sample of which search a trial is, if it is one."""
        if key not in self._samples and self._record.studies:
            self._samples = {
                sample.trial_id: SampleLabel(study_id=planned.study_id, study_title=planned.title, number=number)
                for planned in self._record.studies
                if (study := read_study(self._store, planned.study_id))
                for number, sample in enumerate(study.samples)
            }
        return self._samples.get(key)

    def best(self) -> tuple[BestTrial, ...]:
        """The best trial of each cell all of whose trials are trained, where one can be told."""
        rows, unfinished = [], set()
        for planned in self._record.trials:
            spec = self._spec(planned.trial_id)
            if not isinstance(spec, TrialSpec) or spec.kind != "train":
                continue
            if self._store.exists(layout.trial_rows(planned.trial_id)):
                rows += read_rows(self._store, layout.trial_rows(planned.trial_id), "trials").to_pylist()
            else:
                unfinished.add(cell_name(spec))
        return tuple(best for best in best_trials(rows) if best.name not in unfinished)

    def _spec(self, key: str) -> TrialSpec | ProbeSpec | None:
        is_trial = key not in self._probes
        spec_key = layout.spec_key((layout.trial_prefix if is_trial else layout.probe_prefix)(key))
        if not self._store.exists(spec_key):
            return None
        data = self._store.read(spec_key)
        return from_json(TrialSpec, data) if is_trial else from_json(ProbeSpec, data)

    def outlines(self) -> Iterator[RunOutline]:
        """What is known of the runs of the sweep, those that have been started, after one look at the whole folder."""
        glance = Glance(self._store, at_once=True)
        yield from (outline for key in self.keys if (outline := self.outline(key, glance)))

    def outline(self, key: str, glance: Glance | None = None) -> RunOutline | None:
        """What is known of the run of a trial or probe without reading rows; None where it has not been started."""
        is_trial = key not in self._probes
        prefix = (layout.trial_prefix if is_trial else layout.probe_prefix)(key)
        glance = glance or Glance(self._store)
        own = {name: version for name, version in glance.under(prefix).items() if _is_content(prefix, name)}
        spec = self._spec(key)
        if spec is None or layout.status_key(prefix) not in own:
            return None
        row = self._trained_row(key) if is_trial else None
        sample = self._sample(key)
        versions = {**own, **glance.of(self._asked_keys(row) if row else ())}
        return RunOutline(
            labels=self.labels(key, spec),
            status=layout.from_bytes(Status, self._store.read(layout.status_key(prefix))),
            fingerprint=fingerprint(versions, self._planned, self._store.uri, sample is not None),
            content=partial(self.content, key),
            checkpoint_hash=row["checkpoint_hash"] if row and row["kind"] == "train" and not sample else None,
        )

    def _trained_row(self, key: str) -> Mapping[str, Any] | None:
        rows_key = layout.trial_rows(key)
        return read_rows(self._store, rows_key, "trials").to_pylist()[0] if self._store.exists(rows_key) else None

    def _asked_keys(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Of all rows that the sweep asks for of a checkpoint, whether they are there or not."""
        yield from asked_norms(self._store, row)
        yield from (encoding.judgements for encoding in asked_encodings(self._store, row))
        yield from (rows.key for rows in (*asked_evaluations(self._store, row), *asked_answers(self._store, row)))

    def content(self, key: str) -> RunContent | None:
        """What the run of this trial or probe should hold; None where it has not been started."""
        return self._probe(key) if key in self._probes else self._trial(key)

    def sweep_artifacts(self) -> dict[str, bytes]:
        """The files that describe the whole sweep."""
        keys = [layout.SWEEP_FILE, layout.SWEEP_RECORD]
        keys += [layout.pool_record(e.pool_id) for e in self._record.evaluations if e.pool_id]
        keys += [layout.study_key(study.study_id) for study in self._record.studies]
        return {key: self._store.read(key) for key in dict.fromkeys(keys) if self._store.exists(key)}

    def _trial(self, key: str) -> RunContent | None:
        prefix = layout.trial_prefix(key)
        rows = (layout.history_rows(key), layout.trial_rows(key), layout.pilot_rows(key), layout.evaluations_key(key))
        artifacts = self._history(prefix) | self._files(prefix, *rows)
        if not {"spec.json", "status.json"} <= set(artifacts):
            return None
        spec = from_json(TrialSpec, artifacts["spec.json"])
        status = layout.from_bytes(Status, artifacts["status.json"])
        metrics: dict[str, float] = {}
        scores: Mapping[PlannedEvaluation, float] = {}
        manifest, made_with = None, ""
        if "trial.parquet" in artifacts:
            [row] = rows_in("trials", artifacts["trial.parquet"]).to_pylist()
            asked = [rows for rows in asked_evaluations(self._store, row) if self._store.exists(rows.key)]
            answers = [rows for rows in asked_answers(self._store, row) if self._store.exists(rows.key)]
            keys = [owned for owned in dict.fromkeys(self._asked_keys(row)) if self._store.exists(owned)]
            artifacts.update({owned: self._store.read(owned) for owned in keys})
            scores = self._scores(spec, asked, artifacts)
            metrics = headline_metrics(
                row, scores, self._record.evaluations, self._answer_scores(spec, answers, artifacts)
            )
            made_with = row["provenance_json"]
            # The weights of a sample are removed when it has ended, perhaps at this moment.
            manifest = None if self._sample(key) else checkpoint_manifest(self._store, row)
            if manifest is not None:
                artifacts[MANIFEST] = manifest
        history = rows_in("history", artifacts["history.parquet"]).to_pylist() if "history.parquet" in artifacts else []
        return RunContent(
            labels=self.labels(key, spec),
            status=status,
            steps=tuple(history),
            metrics=metrics,
            artifacts=artifacts | _provenance_file(made_with),
            inputs=data_inputs(spec, [evaluation.data for evaluation in planned_evaluations(self._store, key)]),
            made_with=provenance_tags(made_with) if made_with else {},
            description=run_description(spec, status, scores, manifest),
        )

    def _probe(self, key: str) -> RunContent | None:
        prefix = layout.probe_prefix(key)
        artifacts = self._files(prefix, layout.probe_rows(key))
        if not {"spec.json", "status.json"} <= set(artifacts):
            return None
        spec = from_json(ProbeSpec, artifacts["spec.json"])
        status = layout.from_bytes(Status, artifacts["status.json"])
        table = rows_in("probes", artifacts["probes.parquet"]) if "probes.parquet" in artifacts else None
        rows = table.to_pylist() if table is not None else []
        made_with = (provenance_of(table) or "") if table is not None else ""
        metrics = {probe_metric(row): row["value"] for row in rows if math.isfinite(row["value"])}
        return RunContent(
            labels=self.labels(key, spec),
            status=status,
            steps=(),
            metrics=dict(list(metrics.items())[:MAX_METRICS]),
            artifacts=artifacts | _provenance_file(made_with),
            inputs=data_inputs(spec, ()),
            made_with=provenance_tags(made_with) if made_with else {},
            description=run_description(spec, status, {}, None),
        )

    def _history(self, prefix: str) -> dict[str, bytes]:
        """The history as far as the last checkpoint to resume from: all that a killed or failed training leaves."""
        keys = [key for key in self._store.list(f"{prefix}/steps") if key.endswith("/history.parquet")]
        return {"history.parquet": self._store.read(keys[-1])} if keys else {}

    def _files(self, prefix: str, *rows: str) -> dict[str, bytes]:
        keys = (layout.spec_key(prefix), layout.status_key(prefix), *rows)
        return {key.removeprefix(f"{prefix}/"): self._store.read(key) for key in keys if self._store.exists(key)}

    def _scores(
        self, spec: TrialSpec, asked: Iterable[AskedRows], files: Mapping[str, bytes]
    ) -> dict[PlannedEvaluation, float]:
        """Main measure (nDCG 0 to 1, Spearman -1 to 1) of each of the sweep's evaluations, from rows in `files`."""
        similarity = spec.similarity.name if spec.similarity else _UNTRAINED_SIMILARITY
        planned_for = {(p.data_set, p.data_hash, p.split, p.tier): p for p in self._record.evaluations}
        scores = {}
        for rows in asked:
            data = rows.evaluation.data
            planned = planned_for.get((data.name, data.content_hash or "", data.split, rows.evaluation.tier))
            if planned is None or not planned.groups or rows.score_similarity != similarity:
                continue
            score = (correlation if data.entry.is_scored else mean_score)(files[rows.key], planned.main_measure)
            if score is not None:
                scores[planned] = score
        return scores

    def _answer_scores(
        self, spec: TrialSpec, asked: Iterable[AskedRows], files: Mapping[str, bytes]
    ) -> dict[str, float]:
        """Exact match and F1 of a reader's answers, 0 to 1, as metrics, from rows in `files`."""
        similarity = spec.similarity.name if spec.similarity else _UNTRAINED_SIMILARITY
        means = {}
        for rows in asked:
            table = rows_in("qa", files[rows.key])
            if rows.score_similarity == similarity and table.num_rows:
                data_set = of_tier(rows.evaluation.data.name, rows.evaluation.tier)
                for name, column in (("EM", "exact_match"), ("F1", "f1")):
                    means[metric_name(name, data_set)] = float(pc.mean(table.column(column)).as_py())
        return means


def _provenance_file(provenance_json: str) -> dict[str, bytes]:
    """What the run was made with, in full, to be read in the UI; beside it stand the tags that runs are filtered by."""
    if not provenance_json:
        return {}
    return {"provenance.json": (json.dumps(json.loads(provenance_json), indent=2, sort_keys=True) + "\n").encode()}


def _is_content(prefix: str, key: str) -> bool:
    """Whether the content of the run of a trial or probe is made of this key of its folder."""
    name = key.removeprefix(f"{prefix}/")
    return "/" not in name or (name.startswith("steps/") and name.endswith("/history.parquet"))
