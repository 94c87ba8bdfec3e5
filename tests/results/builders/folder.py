"""A sweep folder under construction, written through the row contract."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from results.layout import (
    LeftOut,
    PlannedEvaluation,
    PlannedTrial,
    PoolRecord,
    Redeclared,
    Status,
    SweepRecord,
    answer_rows,
    evaluations_key,
    evaluations_to_bytes,
    history_rows,
    judgement_rows,
    norm_rows,
    per_query_rows,
    pilot_rows,
    pool_record,
    probe_prefix,
    probe_rows,
    spec_key,
    status_key,
    sts_rows,
    to_bytes,
    trial_prefix,
    trial_rows,
)
from results.rows import write_rows
from results.schemas import HISTORY
from results.store import Store
from search_spaces.catalogue.data_sets import SPEARMAN
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import answers_id, encoding_id, evaluation_id, probe_id, trial_id
from search_spaces.specs import (
    PoolSettings,
    to_json,
)
from tests.results.builders.specs import evaluation_spec, similarity_spec
from tests.results.builders.stored import probe_rows_of, softmax_rows_of, trial_row

FIXED = [similarity.name for similarity in SIMILARITIES.values() if not similarity.trained]
Score = Callable[[str, str], Iterable[float]]  # (data set, score similarity) -> nDCG@10 of queries q0, q1, ...


@dataclass
class SweepFolder:
    """A sweep folder under construction. Its record lists what was added, in that order."""

    store: Store
    evaluations: tuple[PlannedEvaluation, ...]
    primary_groups: tuple[str, ...] = ("out_of_domain",)
    left_out: tuple[LeftOut, ...] = ()
    redeclared: tuple[Redeclared, ...] = ()
    trials: list[PlannedTrial] = field(default_factory=list)
    probes: list[PlannedTrial] = field(default_factory=list)
    pilots: list[PlannedTrial] = field(default_factory=list)

    def record(self):
        return SweepRecord(
            name="small",
            trials=tuple(self.trials),
            probes=tuple(self.probes),
            evaluations=self.evaluations,
            left_out=self.left_out,
            primary_groups=self.primary_groups,
            redeclared=self.redeclared,
            pilots=tuple(self.pilots),
        )

    def plan_trial(self, spec, *, status=None, with_spec=True):
        """List a trial that has no checkpoint."""
        key = trial_id(spec)
        self.trials.append(PlannedTrial(trial_id=key, title=spec.title))
        if with_spec:
            self.store.write(spec_key(trial_prefix(key)), to_json(spec).encode())
        self.plan_evaluations(key)
        if status:
            self.store.write(status_key(trial_prefix(key)), to_bytes(status))
        return key

    def plan_evaluations(self, trial, **changes):
        """What the sweep asks for of the trial's checkpoint."""
        specs = [evaluation_spec(planned, **changes) for planned in self.evaluations]
        self.store.write(evaluations_key(trial), evaluations_to_bytes(specs))

    def add_trial(self, spec, score: Score, *, packages: Mapping[str, str] | None = None, **columns):
        """Write a trial with its evaluations; data sets for which `score` gives None are left out.

        `columns` are further ones of its own row.
        """
        times = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:06:00+00:00"}
        key = self.plan_trial(spec, status=Status(state="finished", **times))
        provenance = json.dumps({"packages": packages or {"torch": "2.13.0"}})
        write_rows(self.store, trial_rows(key), "trials", [trial_row(spec, provenance) | columns])
        for planned in self.evaluations:
            for scored_with in [spec.similarity.name] if spec.similarity else FIXED:
                values = score(planned.data_set, scored_with)
                if values is None:
                    continue
                if planned.main_measure == SPEARMAN:
                    self.write_pairs(key, planned, scored_with, list(values), provenance_json=provenance)
                elif planned.reader:
                    self.write_answers(key, planned, scored_with, list(values), provenance_json=provenance)
                    self.write_evaluation(key, planned, scored_with, [1.0], provenance_json=provenance)
                else:
                    self.write_evaluation(key, planned, scored_with, list(values), provenance_json=provenance)
        return key

    def write_pairs(self, trial, planned, scored_with, orders, *, provenance_json=None):
        """Scored pairs p0, p1, ...: `orders` are the scores of both orders; the ratings rise from 0 to 1."""
        checkpoint = f"checkpoint-{trial}"
        rows = [
            {
                "checkpoint_hash": checkpoint,
                "data_set": planned.data_set,
                "data_hash": planned.data_hash,
                "split": planned.split,
                "score_similarity": scored_with,
                "pair_id": f"p{index}",
                "order": order,
                "score": float(score),
                "gold": index / (len(scores) - 1),
            }
            for order, scores in zip(("forward", "swapped"), orders, strict=True)
            for index, score in enumerate(scores)
        ]
        key = sts_rows(evaluation_id(checkpoint, evaluation_spec(planned), similarity_spec(scored_with)))
        write_rows(self.store, key, "sts", rows, provenance_json=provenance_json)

    def write_answers(self, trial, planned, scored_with, values, *, provenance_json=None):
        """Answers to questions q0, q1, ... with these F1, each from two passages, the first question's cut."""
        checkpoint = f"checkpoint-{trial}"
        rows = [
            {
                **_scored(checkpoint, planned, scored_with),
                "reader": planned.reader,
                "num_passages": planned.num_passages,
                "query_id": f"q{index}",
                "document_ids": ["d0", "d1"],
                "num_cut": int(index == 0),
                "prediction": "an answer",
                "exact_match": float(f1 == 1),
                "f1": float(f1),
            }
            for index, f1 in enumerate(values)
        ]
        key = answer_rows(answers_id(checkpoint, evaluation_spec(planned), similarity_spec(scored_with)))
        write_rows(self.store, key, "qa", rows, provenance_json=provenance_json)

    def write_evaluation(self, trial, planned, scored_with, values, *, provenance_json=None):
        checkpoint = f"checkpoint-{trial}"
        rows = [
            {
                **_scored(checkpoint, planned, scored_with),
                "query_id": f"q{index}",
                "measure": measure,
                "value": float(value),
            }
            for index, value in enumerate(values)
            for measure, value in ((planned.main_measure, value), ("R@100", 0.5))
        ]
        key = per_query_rows(evaluation_id(checkpoint, evaluation_spec(planned), similarity_spec(scored_with)))
        write_rows(self.store, key, "per_query", rows, provenance_json=provenance_json)

    def write_norms(self, trial, planned, documents, *, queries=(1.0, 3.0)):
        """Norms of queries q0, q1, ... and of documents d0, d1, ..."""
        checkpoint = f"checkpoint-{trial}"
        data = {"data_set": planned.data_set, "data_hash": planned.data_hash, "split": planned.split}
        rows = [
            {"checkpoint_hash": checkpoint, **data, "side": side, "text_id": f"{side[0]}{index}", "norm": float(norm)}
            for side, norms in (("query", queries), ("document", documents))
            for index, norm in enumerate(norms)
        ]
        write_rows(self.store, norm_rows(encoding_id(checkpoint, evaluation_spec(planned))), "norms", rows)

    def write_judgements(self, planned, grades):
        """`grades` of (query, document)."""
        rows = [
            {"data_hash": planned.data_hash, "query_id": query, "document_id": document, "relevance": grade}
            for (query, document), grade in grades.items()
        ]
        write_rows(self.store, judgement_rows(evaluation_spec(planned).data), "judgements", rows)

    def write_history(self, trial, gammas):
        """Steps 1, 2, ... with these (gamma_q, gamma_d)."""
        numbers = {field.name: 1.0 for field in HISTORY if not field.nullable}
        rows = [
            numbers | {"trial_id": trial, "step": step, "gamma_q": gamma_q, "gamma_d": gamma_d}
            for step, (gamma_q, gamma_d) in enumerate(gammas, start=1)
        ]
        write_rows(self.store, history_rows(trial), "history", rows)

    def add_probe(self, spec, differences, *, half_width=0.05, qnorm=2.0, softmax=None, provenance_json=None):
        """Write a probe: `differences` of log10 kappa (qnorm - dnorm) by rank; None plans it only.

        `softmax` are statistics of both sides, by name.
        """
        key = probe_id(spec)
        self.probes.append(PlannedTrial(trial_id=key, title=spec.title))
        if differences is not None:
            rows = [row for rank, d in differences.items() for row in probe_rows_of(spec, rank, qnorm, d, half_width)]
            rows += softmax_rows_of(rows[0], softmax or {})
            write_rows(self.store, probe_rows(key), "probes", rows, provenance_json=provenance_json)
        return key

    def add_pilot(self, spec, scores, norms=None, *, status=None):
        """Write a pilot with nDCG@10 and norms of queries q0, q1, ...; `scores` of None plan it only."""
        key = trial_id(spec)
        self.pilots.append(PlannedTrial(trial_id=key, title=spec.title))
        self.store.write(spec_key(trial_prefix(key)), to_json(spec).encode())
        self.store.write(evaluations_key(key), evaluations_to_bytes([]))
        if scores is None:
            if status:
                self.store.write(status_key(trial_prefix(key)), to_bytes(status))
            return key
        data = spec.validation.data
        about = {
            "checkpoint_hash": f"checkpoint-{key}",
            "data_set": data.name,
            "data_hash": data.content_hash,
            "split": data.split,
            "tier": "pool",
            "score_similarity": spec.similarity.name,
        }
        rows = [
            {**about, "query_id": f"q{index}", "measure": measure, "value": float(value)}
            for measure, values in (("nDCG@10", scores), ("query_norm", norms if norms is not None else scores))
            for index, value in enumerate(values)
        ]
        write_rows(self.store, pilot_rows(key), "per_query", rows)
        times = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T00:01:00+00:00"}
        self.store.write(status_key(trial_prefix(key)), to_bytes(Status(state="finished", **times)))
        write_rows(self.store, trial_rows(key), "trials", [trial_row(spec, json.dumps({"packages": {}}))])
        return key

    def write_pool(self, planned, settings=None):
        """The record of a data set's pool."""
        record = PoolRecord(
            pool_id=planned.pool_id,
            data_set=planned.data_set,
            split=planned.split,
            num_corpus_documents=8_841_823,
            num_documents=54_321,
            counts={"judged": 9_000},
            settings=settings or PoolSettings(),
            encoders=("minilm-3l/finetune",),
            made_by="{}",
        )
        self.store.write(pool_record(planned.pool_id), to_bytes(record))

    def fail_probe(self, spec, reason):
        key = self.add_probe(spec, None)
        status = Status(state="failed", started_at="2026-01-01T00:00:00+00:00", reason=reason)
        self.store.write(status_key(probe_prefix(key)), to_bytes(status))


def _scored(checkpoint, planned, scored_with):
    """The columns that say what a row of scores is of."""
    return {
        "checkpoint_hash": checkpoint,
        "data_set": planned.data_set,
        "data_hash": planned.data_hash,
        "split": planned.split,
        "tier": planned.tier,
        "score_similarity": scored_with,
    }
