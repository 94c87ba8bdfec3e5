"""What the sweep folder says MLflow should hold, run by run. Knows nothing of MLflow itself."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.data_inputs import DataInput, data_inputs
from orchestrator.descriptions import run_description
from orchestrator.labels import RunLabels, SampleLabel, labels, names, provenance_tags
from results import layout
from results.asked import AskedRows, asked_answers, asked_encodings, asked_evaluations, asked_norms, planned_evaluations
from results.best import BestTrial, best_trials, cell_name
from results.layout import PlannedEvaluation, Status, SweepRecord
from results.manifests import checkpoint_manifest
from results.rows import provenance_of, read_rows, table_of
from results.schemas import HISTORY, check_table
from results.spearman import spearman
from results.store import Store
from results.studies import planned_samples, read_study
from search_spaces.specs import ProbeSpec, TrialSpec, from_json

MAX_METRICS = 49  # a run's page stays readable under 50 metrics (mlflow#11927); the rest is in the rows
# Outer quantiles stand in the rows alone, and memory among the facts.
_NOT_STEPWISE = ("trial_id", "step", "peak_memory_bytes")
STEP_COLUMNS = tuple(n for n in HISTORY.names if n not in _NOT_STEPWISE and not n.endswith(("_q05", "_q95")))
_CHARTS = {  # MLflow groups charts by what is before '/'
    "softmax": ("logit_std", "perplexity", "saturated_share", "score_margin", "negatives_per_query"),
    "speed": ("pairs_per_s", "tokens_per_s", "padding_share"),
    "validation": ("validation_score",),
}
_CHART_OF = {name: chart for chart, names in _CHARTS.items() for name in names}
_MIN_PLOTTED_STEPS = 10  # fewer are no curve
_UNTRAINED_SIMILARITY = "cosine"  # an untrained checkpoint has no similarity of its own; gains are against cosine
_TRIAL_FACTS = (
    *(
        "final_loss",
        "end_saturated_share",
        "validation_score",
        "best_step",
        "steps_done",
        "scale_divisor",
        "gamma_q",
        "gamma_d",
    ),
    *("train_wall_s", "pairs_per_s", "peak_memory_bytes"),
)
HistoryRow = Mapping[str, Any]
MANIFEST = "checkpoint/manifest.json"


@dataclass(frozen=True, kw_only=True)
class RunContent:
    """All that the mirror of one trial or probe should hold.

    Attributes:
        labels: its name, tags and parameters.
        status: as its record says.
        steps: its history rows.
        metrics: its headline numbers.
        artifacts: files by their path in the run.
        inputs: the data sets that went into it.
        made_with: tags on what it was made with, where its rows say so.
        description: Markdown.
    """

    labels: RunLabels
    status: Status
    steps: tuple[HistoryRow, ...]
    metrics: Mapping[str, float]
    artifacts: Mapping[str, bytes]
    inputs: tuple[DataInput, ...]
    made_with: Mapping[str, str]
    description: str

    @property
    def digest(self) -> str:
        """SHA-256 over the content: a mirror that carries it holds everything."""
        told = [sorted(self.metrics.items()), [asdict(item) for item in self.inputs], dict(self.made_with)]
        digest = hashlib.sha256(json.dumps([*told, self.description], sort_keys=True).encode())
        for name, data in sorted(self.artifacts.items()):
            digest.update(f"\0{name}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()

    def plots(self) -> dict[str, bytes]:
        """Its curves, drawn from its steps; apart from the artifacts, since a mirror that is whole needs none drawn."""
        if len(self.steps) < _MIN_PLOTTED_STEPS:
            return {}
        from results.plots.files import svg  # here, since matplotlib takes half a second
        from results.plots.training import training_curves

        history = pl.DataFrame(self.steps, infer_schema_length=None)
        return {"plots/training.svg": svg(training_curves(history, self.labels.name))}


def step_metric(column: str) -> str:
    """The metric of a column of HISTORY."""
    return f"{_CHART_OF.get(column, 'norms' if '_norm_' in column else 'train')}/{column}"


def metric_name(measure: str, what: str) -> str:
    """'nDCG@10' of 'attack' as 'nDCG_10/attack': MLflow knows no '@', and groups its charts by what is before '/'."""
    return re.sub(r"[^\w/.\- ]", "_", f"{measure}/{what}")


def of_tier(what: str, tier: str | None) -> str:
    """What is scored, with its tier where that is a pool: charts must not mix those with scores over whole corpora."""
    return f"{what}.pool" if tier == "pool" else what


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
        planned = (*self._record.trials, *self._record.probes, *planned_samples(self._store, self._record))
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
        """A name for each trial and probe whose spec is there; those of one title are told apart."""
        times = Counter(planned.title for planned in (*self._record.trials, *self._record.probes))
        twice = [p.trial_id for p in (*self._record.trials, *self._record.probes) if times[p.title] > 1]
        return names({key: spec for key in twice if (spec := self._spec(key)) is not None})

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
        rows = (layout.history_rows(key), layout.trial_rows(key), layout.evaluations_key(key))
        artifacts = self._history(prefix) | self._files(prefix, *rows)
        if not {"spec.json", "status.json"} <= set(artifacts):
            return None
        spec = from_json(TrialSpec, artifacts["spec.json"])
        status = layout.from_bytes(Status, artifacts["status.json"])
        metrics: dict[str, float] = {}
        scores: Mapping[PlannedEvaluation, float] = {}
        manifest, made_with = None, ""
        if "trial.parquet" in artifacts:
            [row] = _table("trials", artifacts["trial.parquet"]).to_pylist()
            asked = [rows for rows in asked_evaluations(self._store, row) if self._store.exists(rows.key)]
            norms = [owned for owned in asked_norms(self._store, row) if self._store.exists(owned)]
            answers = [rows for rows in asked_answers(self._store, row) if self._store.exists(rows.key)]
            kept = dict.fromkeys(encoding.judgements for encoding in asked_encodings(self._store, row))
            judgements = [judged for judged in kept if self._store.exists(judged)]
            keys = (*norms, *judgements, *(rows.key for rows in (*asked, *answers)))
            artifacts.update({owned: self._store.read(owned) for owned in keys})
            scores = self._scores(spec, asked, artifacts)
            metrics = _headline(row, scores, self._record.evaluations, self._answer_scores(spec, answers, artifacts))
            made_with = row["provenance_json"]
            # The weights of a sample are removed when it has ended, perhaps at this moment.
            manifest = None if self._sample(key) else checkpoint_manifest(self._store, row)
            if manifest is not None:
                artifacts[MANIFEST] = manifest
        history = _table("history", artifacts["history.parquet"]).to_pylist() if "history.parquet" in artifacts else []
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
        table = _table("probes", artifacts["probes.parquet"]) if "probes.parquet" in artifacts else None
        rows = table.to_pylist() if table is not None else []
        made_with = (provenance_of(table) or "") if table is not None else ""
        metrics = {_probe_metric(row): row["value"] for row in rows if math.isfinite(row["value"])}
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
            score = (_correlation if data.entry.is_scored else _mean)(files[rows.key], planned.main_measure)
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
            table = _table("qa", files[rows.key])
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


def _mean(data: bytes, measure: str) -> float | None:
    """The mean of a measure over the queries."""
    table = _table("per_query", data)
    values = table.filter(pc.equal(table.column("measure"), pa.scalar(measure))).column("value")
    return float(pc.mean(values).as_py()) if len(values) else None


def _correlation(data: bytes, measure: str) -> float | None:
    """The rank correlation of scored pairs, first text as the query; null where it is not defined."""
    table = spearman(pl.DataFrame(_table("sts", data)))
    found: list[float | None] = table.filter(pl.col("order") == "forward")["spearman"].to_list()
    return found[0] if found else None


def _table(name: str, data: bytes) -> Any:
    return check_table(name, table_of(data))


def _headline(
    trial: Mapping[str, Any],
    scores: Mapping[PlannedEvaluation, float],
    planned: Sequence[PlannedEvaluation],
    answers: Mapping[str, float],
) -> dict[str, float]:
    """Facts, groups' means, answers, data sets, as many as `MAX_METRICS` leaves room for beside those of the steps."""
    facts = {f"final/{name.removeprefix('final_')}": trial[name] for name in _TRIAL_FACTS if trial[name] is not None}
    single = {
        metric_name(evaluation.main_measure, _evaluation_name(evaluation, planned)): score
        for evaluation, score in sorted(_of_wholes(_whole(scores, planned)).items(), key=lambda item: item[0].whole)
    }
    numbers = {**facts, **_group_means(scores, planned), **answers, **single}
    room = MAX_METRICS - len(STEP_COLUMNS)
    return dict([(name, value) for name, value in numbers.items() if math.isfinite(value)][:room])


def _group_means(scores: Mapping[PlannedEvaluation, float], planned: Sequence[PlannedEvaluation]) -> dict[str, float]:
    """Unweighted means of the groups that have all their scores, in one measure and tier: no other has a meaning."""
    means = {}
    for group in sorted({group for evaluation in planned for group in evaluation.groups}):
        members = [evaluation for evaluation in planned if group in evaluation.groups]
        kinds = {(member.main_measure, member.tier) for member in members}
        if all(member in scores for member in members) and len(kinds) == 1:
            name = metric_name(members[0].main_measure, of_tier(f"group.{group}", members[0].tier))
            means[name] = fmean(_of_wholes({member: scores[member] for member in members}).values())
    return means


def _whole(
    scores: Mapping[PlannedEvaluation, float], planned: Sequence[PlannedEvaluation]
) -> dict[PlannedEvaluation, float]:
    """The scores but those of the parts of a data set that lacks one: it has no score."""
    lacking = {(p.whole, p.split, p.tier) for p in planned if p.groups and p not in scores}
    return {p: score for p, score in scores.items() if (p.whole, p.split, p.tier) not in lacking}


def _of_wholes(scores: Mapping[PlannedEvaluation, float]) -> dict[PlannedEvaluation, float]:
    """The scores, those of the parts of a data set as one: their mean, which stands at the first of them."""
    parts: dict[tuple[str, str, str], dict[PlannedEvaluation, float]] = {}
    for evaluation, score in scores.items():
        parts.setdefault((evaluation.whole, evaluation.split, evaluation.tier), {})[evaluation] = score
    return {next(iter(of_whole)): fmean(of_whole.values()) for of_whole in parts.values()}


def _evaluation_name(evaluation: PlannedEvaluation, among: Sequence[PlannedEvaluation]) -> str:
    """The data set's name, with split and tier only where the sweep evaluates it more than once, or on a pool."""
    times = len({(other.split, other.tier) for other in among if other.whole == evaluation.whole})
    is_plain = times == 1 and evaluation.tier == "full"
    return evaluation.whole if is_plain else f"{evaluation.whole}.{evaluation.split}.{evaluation.tier}"


def _probe_metric(row: Mapping[str, Any]) -> str:
    about = [row["block"], row["similarity"], f"rank{row['rank']}" if row["rank"] is not None else None]
    return metric_name(row["statistic"], ".".join(part for part in about if part))
