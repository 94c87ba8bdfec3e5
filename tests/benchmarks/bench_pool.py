"""How far scores on pools are from scores over whole corpora: briefly trained MiniLM checkpoints on two collections.

A sweep evaluates its checkpoints on both tiers, by the code that any sweep runs, with the default settings of pools.
The smaller a part of its corpus a pool is, the more it leaves away: so each collection is also asked few queries only.
The figures go into `results/pool_bias.py`, which every table of pools prints.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from search_spaces.specs import PoolSettings
from tests.benchmarks.data import SHARED
from tests.benchmarks.options import Options

COLLECTIONS = ("scifact", "conala")
LOCAL = "shared_"  # what their names begin with here: the catalogue has a scifact too, on a hub
TRAINED_ON = "conala"
FEW_QUERIES = 25
SPLITS = ("test", "few")
STEPS, GLOBAL_BATCH = 60, 32
LAYERS, LENGTH = 2, 48  # tokens
HOW = (
    f"MiniLM ({LAYERS} layers, {LENGTH} tokens) untrained under every fixed similarity and after {STEPS} steps of "
    f"{GLOBAL_BATCH} pairs of {TRAINED_ON} with cosine, dot, qnorm or dnorm"
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One collection and split, as `results.pool_bias.MEASURED` lists it."""

    collection: str
    num_queries: int
    num_corpus_documents: int
    num_documents: int
    num_scores: int
    mean_difference: float
    max_difference: float
    kendall_tau: float | None
    same_winner: bool

    def __str__(self) -> str:
        size = f"{self.num_queries} queries, pool of {self.num_documents} of {self.num_corpus_documents} documents"
        points = f"{self.mean_difference * 100:.3f} points in the mean, {self.max_difference * 100:.3f} at most"
        tau = "none" if self.kendall_tau is None else f"{self.kendall_tau:.4f}"
        winner = "the same winner" if self.same_winner else "another winner"
        return f"{self.collection}, {size}: {points} over {self.num_scores} scores, tau {tau}, {winner}"


def run(options: Options) -> Iterator[Result | str]:
    """The bias on each collection, or why there is none."""
    missing = [name for name in COLLECTIONS if not (SHARED / name).is_dir()]
    if missing:
        yield f"pool: left out, there is no ../shared/data/{' and '.join(missing)} beside the repository"
        return
    with tempfile.TemporaryDirectory() as root:
        yield f"{PoolSettings()}; {HOW}"
        yield from measure(Path(root), options.threads)


def measure(root: Path, threads: int) -> Iterator[Result]:
    """Run the sweep in a folder, from where it was left there, and tell what it shows."""
    from orchestrator.plan import make_plan, sweep_record
    from orchestrator.resolve import resolve
    from results.collect import collect
    from results.layout import PoolRecord, evaluations_key, evaluations_to_bytes, from_bytes, pool_record
    from results.pool_bias import biases_in_sweep
    from results.store import open_store
    from search_spaces.identity import pool_id
    from trainers.evaluation.pool_building import Building, build_missing
    from trainers.provenance import provenance
    from trainers.training.resume import CheckpointPolicy
    from trainers.trial import run_trial
    from trainers.trial_hooks import Hooks

    file = root / "pool.yaml"
    file.write_text(yaml.safe_dump(sweep_file(root, threads)))
    store = open_store(str(root / "sweep"))
    plan = make_plan(resolve(file), store)
    record = sweep_record(plan)
    evaluations = [grouped.spec for grouped in plan.evaluations]
    build_missing(evaluations, Building(store=store, say=print))
    for trial in plan.trials:
        store.write(evaluations_key(trial.trial_id), evaluations_to_bytes(evaluations))
        status = run_trial(
            trial.spec,
            evaluations,
            store=store,
            hooks=Hooks(enter_phase=lambda phase, title=trial.spec.title: print(f"{title}: {phase}", flush=True)),
            checkpoint_policy=CheckpointPolicy(every_s=60),
            provenance_json=provenance().to_json(),
        )
        if status.state != "finished":
            raise RuntimeError(f"{trial.spec.title}: {status.reason}\n{status.error}")
    collected = collect(store, record)
    pools = {(e.data.name, e.data.split): pool_record(pool_id(e)) for e in evaluations if e.pool}
    num_queries = {
        key: collected.per_query.filter(data_set=key[0], split=key[1])["query_id"].n_unique() for key in pools
    }
    for found in biases_in_sweep(store, collected.trials.iter_rows(named=True)):
        key = (found.data_set, found.split)
        pool = from_bytes(PoolRecord, store.read(pools[key]))
        yield Result(
            collection=found.data_set.removeprefix(LOCAL),
            num_queries=num_queries[key],
            num_corpus_documents=pool.num_corpus_documents,
            num_documents=pool.num_documents,
            num_scores=found.bias.num_scores,
            mean_difference=found.bias.mean_difference,
            max_difference=found.bias.max_difference,
            kendall_tau=found.bias.kendall_tau,
            same_winner=found.bias.same_winner,
        )


def sweep_file(root: Path, threads: int) -> dict:
    """The sweep, whose collections are the shared ones with a split of few queries more."""
    for name in COLLECTIONS:
        if not (root / name).is_dir():
            _with_few_queries(SHARED / name, root / name)
    both = [f"{LOCAL}{name}/{split}" for name in COLLECTIONS for split in SPLITS]
    family = {"name": "minilm", "layers": LAYERS, "max_query_length": LENGTH, "max_document_length": LENGTH}
    return {
        "name": "pool",
        "data_sets": [
            {"name": f"{LOCAL}{name}", "source": f"path:{root / name}", "train_split": "train"} for name in COLLECTIONS
        ],
        "axes": {
            "task": "contrastive",
            "training_data": f"{LOCAL}{TRAINED_ON}",
            "family": family,
            "similarity": ["cosine", "dot", "qnorm", "dnorm"],
            "init_regime": "finetune",
            "seed": 0,
            "scale": "matched",
        },
        "training": {"steps": STEPS, "global_batch": GLOBAL_BATCH, "learning_rate": 2e-4},
        "evaluation": {"groups": {"corpus": both, "pool": both}, "tier": {"pool": "pool"}},
        "resources": {"cpus": 1, "threads": threads},
    }


def _with_few_queries(source: Path, folder: Path) -> None:
    """The collection with the judgements of the first queries of its test split as a split of their own."""
    (folder / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", *(f"qrels/{file.name}" for file in (source / "qrels").iterdir())):
        (folder / name).symlink_to(source / name)
    header, *lines = (source / "qrels" / "test.tsv").read_text().splitlines()
    few = list(dict.fromkeys(line.split("\t")[0] for line in lines))[:FEW_QUERIES]
    kept = [line for line in lines if line.split("\t")[0] in few]
    (folder / "qrels" / "few.tsv").write_text("\n".join([header, *kept]) + "\n")
