"""This project's side of a training benchmark: the whole of `trainers.training.train`, as a trial runs it."""

import tempfile
from dataclasses import replace

from search_spaces.specs import (
    DataSpec,
    EncoderSpec,
    Execution,
    ScaleSpec,
    SimilaritySpec,
    TrainingSettings,
    TrialSpec,
    WeightsSpec,
)
from tests.benchmarks.harness import Gate
from tests.benchmarks.jobs import LEARNING_RATE, MAX_LENGTH, SEED, TrainingJob


def run(job: TrainingJob, gate: Gate) -> None:
    """Train, one optimiser step a unit; a unit's value is its loss."""
    from trainers.threads import set_threads

    set_threads(job.threads)
    from results.store import open_store
    from trainers.training.resume import CheckpointPolicy
    from trainers.training.train import train

    gate.memory_from_here()
    with tempfile.TemporaryDirectory() as folder:
        train(
            trial_spec(job),
            store=open_store(folder),
            report=lambda report: gate.unit_done(report.numbers.loss),
            verify=lambda: None,
            checkpoint_policy=CheckpointPolicy(),
        )


def trial_spec(job: TrainingJob) -> TrialSpec:
    """The trial: cosine at scale 20, as the peer's loss; content hashes included."""
    from trainers.data_sets import fingerprint
    from trainers.weights import content_hash

    weights = WeightsSpec(source=f"path:{job.model}")
    found = fingerprint(job.entry, "train")
    return TrialSpec(
        kind="train",
        task="contrastive",
        training_data=DataSpec(
            entry=job.entry, split="train", content_hash=found.content_hash, num_pairs=found.num_pairs
        ),
        encoder=EncoderSpec(
            family="minilm",
            init_regime="finetune",
            weights=replace(weights, content_hash=content_hash(weights)),
            layers=None,
            pooling="mean",
            append_eos=False,
            query_prompt="",
            document_prompt="",
            max_query_length=MAX_LENGTH,
            max_document_length=MAX_LENGTH,
        ),
        similarity=SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False),
        scale=ScaleSpec(mode="fixed", value=20.0),
        seed=SEED,
        training=TrainingSettings(
            steps=job.steps,
            global_batch=job.batch,
            learning_rate=LEARNING_RATE,
            schedule="constant",
            precision=job.precision,
        ),
        execution=Execution(threads=job.threads, chunk_size=job.chunk_size),
    )
