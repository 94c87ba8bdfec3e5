"""`--help`, `validate`, `plan`, `status` and `tables` start at once: they import no framework."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.plan import make_plan, sweep_record
from orchestrator.resolve import resolve
from results import layout
from results.rows import write_rows
from results.schemas import SCHEMAS
from results.store import open_store
from search_spaces.identity import evaluation_id
from search_spaces.scoring import score_similarities
from search_spaces.specs import to_json

PROJECT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "ray", "mlflow", "transformers", "accelerate", "faiss", "lightkube")
SCRIPT = """
import sys
from orchestrator.cli import main
sys.argv = ["densesweep", *sys.argv[1:]]
try:
    main()
    code = 0
except SystemExit as end:
    code = end.code or 0
loaded = sorted(name for name in HEAVY if name in sys.modules)
print(f"exit={code} loaded={','.join(loaded)}", file=sys.stderr)
""".replace("HEAVY", repr(HEAVY))

SWEEP = """
name: light
axes:
  task: contrastive
  training_data: tiny
  family: minilm
  similarity: [cosine, qnorm]
  init_regime: finetune
  seed: 0
  scale: fixed(20)
data_sets:
  - {name: tiny, source: "path:tiny", train_split: train}
training: {steps: 2, global_batch: 2, learning_rate: 1e-4}
evaluation: {groups: {in_domain: tiny}}
probe: {num_queries: 2, candidates_per_query: 2}
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A sweep file with its data, and the folder of a run of it."""
    folder = tmp_path_factory.mktemp("light")
    data = folder / "tiny"
    (data / "qrels").mkdir(parents=True)
    numbers = range(4)
    (data / "corpus.jsonl").write_text(
        "".join(f'{{"_id": "d{n}", "title": "", "text": "text {n}"}}\n' for n in numbers)
    )
    (data / "queries.jsonl").write_text("".join(f'{{"_id": "q{n}", "text": "query {n}"}}\n' for n in numbers))
    for split in ("train", "test"):
        judged = "".join(f"q{n}\td{n}\t1\n" for n in numbers)
        (data / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    (folder / "light.yaml").write_text(SWEEP)
    write_sweep_folder(folder)
    return folder


def write_sweep_folder(folder):
    """What a finished run leaves that `status` and `tables` read."""
    store = open_store(str(folder / "sweep"))
    plan = make_plan(resolve(folder / "light.yaml"), store)
    record = sweep_record(plan)
    store.write(layout.SWEEP_RECORD, layout.to_bytes(record))
    [evaluation] = record.evaluations
    for trial in plan.trials:
        spec, checkpoint = trial.spec, f"checkpoint-of-{trial.trial_id}"
        row = dict.fromkeys(SCHEMAS["trials"].names) | {
            "trial_id": trial.trial_id,
            "kind": spec.kind,
            "task": spec.task,
            "training_data": spec.training_data and spec.training_data.name,
            "training_data_hash": spec.training_data and spec.training_data.content_hash,
            "family": spec.encoder.family,
            "init_regime": spec.encoder.init_regime,
            "similarity": spec.similarity and spec.similarity.name,
            "scale_mode": spec.scale and spec.scale.mode,
            "scale_value": spec.scale and spec.scale.value,
            "seed": spec.seed,
            "checkpoint_hash": checkpoint,
            "spec_json": to_json(spec),
            "provenance_json": "{}",
        }
        write_rows(store, layout.trial_rows(trial.trial_id), "trials", [row])
        specs = [grouped.spec for grouped in plan.evaluations]
        store.write(layout.evaluations_key(trial.trial_id), layout.evaluations_to_bytes(specs))
        for scored_with in score_similarities(spec.similarity, specs[0]):
            shared = {
                "checkpoint_hash": checkpoint,
                "score_similarity": scored_with.name,
                "measure": "nDCG@10",
                "value": 0.5,
            }
            known = {name: getattr(evaluation, name) for name in ("data_set", "data_hash", "split", "tier")}
            rows = [shared | known | {"query_id": f"q{number}"} for number in range(4)]
            key = layout.per_query_rows(evaluation_id(checkpoint, specs[0], scored_with))
            write_rows(store, key, "per_query", rows)


def densesweep(folder, *arguments):
    """(exit code, heavy modules that were loaded, all output) of a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "DENSESWEEP_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("exit="), done.stderr
    code, _, loaded = last.removeprefix("exit=").partition(" loaded=")
    return int(code), loaded, done.stdout + done.stderr


DATA = [["data", "list"], ["data", "describe", "light.yaml"], ["data", "check", "light.yaml"]]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["jobs", "--help"], ["validate", "light.yaml"], ["plan", "light.yaml"], *DATA]
)
def test_before_a_run_no_framework_is_loaded(workplace, arguments):
    code, loaded, output = densesweep(workplace, *arguments)
    assert (code, loaded) == (0, ""), output


def test_rendering_for_a_cluster_loads_none_either(workplace):
    (workplace / "on_hub.yaml").write_text(SWEEP.replace('"path:tiny"', "hf:org/tiny@" + "0" * 40))
    for arguments in (["k8s", "--help"], ["k8s", "render", "on_hub.yaml", "--profile", "cpu"]):
        code, loaded, output = densesweep(workplace, *arguments)
        assert (code, loaded) == (0, ""), output


DRAWN = [
    ["collect", "sweep", "-o", "all"],
    ["plots", "sweep", "gains", "-o", "plots", "--format", "svg"],
    ["report", "sweep", "-o", "report.html"],
]


ALL = ["tables", "sweep", "--allow-missing", "--format", "md"]
EXPLAINED = ["explain", "sweep", "gains", "similarity=qnorm", "score"]


SYMMETRIC = ["recommend", "--family", "minilm", "--data", "tiny", "--task", "sts"]


@pytest.mark.parametrize(
    "arguments", [["status", "sweep"], ["tables", "sweep", "--allow-missing"], ALL, EXPLAINED, SYMMETRIC, *DRAWN]
)
def test_over_a_sweep_folder_no_framework_is_loaded(workplace, arguments):
    code, loaded, output = densesweep(workplace, *arguments)
    assert (code, loaded) == (0, ""), output
