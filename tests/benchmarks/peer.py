"""The peer's side: SentenceTransformerTrainer with MultipleNegativesRankingLoss, over the same batches.

It is left as it comes where that is at its best: fused AdamW, its own collator, which tokenises each batch in the loop,
no data loader workers (they would take a core that the other side does not have). What costs time and trains nothing
is off: evaluation, saving, logging, reports.
"""

import tempfile
from typing import Any

from tests.benchmarks.harness import Gate
from tests.benchmarks.jobs import LEARNING_RATE, MAX_LENGTH, SEED, TrainingJob


def run(job: TrainingJob, gate: Gate) -> None:
    """Train, one optimiser step a unit; a unit's value is its loss."""
    import torch

    torch.set_num_threads(job.threads)
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer

    gate.memory_from_here()
    model = SentenceTransformer(str(job.model), device="cpu")
    model.max_seq_length = MAX_LENGTH
    loss = _remembering_loss(model)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(
            model=model,
            args=_arguments(job, folder),
            train_dataset=_planned_pairs(job),
            loss=loss,
            callbacks=[_gate_callback(gate, loss)],
        )
        trainer.train()


def _arguments(job: TrainingJob, folder: str) -> Any:
    from sentence_transformers import SentenceTransformerTrainingArguments

    from search_spaces.specs import TrainingSettings

    ours = TrainingSettings(steps=job.steps, global_batch=job.batch, learning_rate=LEARNING_RATE)
    return SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=job.steps,
        per_device_train_batch_size=job.batch,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        weight_decay=ours.weight_decay,
        adam_beta1=ours.beta_1,
        adam_beta2=ours.beta_2,
        adam_epsilon=ours.epsilon,
        max_grad_norm=ours.clip_norm,
        bf16=job.precision == "bf16",
        use_cpu=True,
        seed=SEED,
        batch_sampler=_in_order,
        dataloader_drop_last=True,
        eval_strategy="no",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _planned_pairs(job: TrainingJob) -> Any:
    """The pairs of all batches in the order of this project's plan."""
    import datasets

    from search_spaces.specs import DataSpec
    from trainers.training.batches import plan_batches
    from trainers.training.pairs import load_pairs

    pairs = load_pairs(DataSpec(entry=job.entry, split="train"))
    plan = plan_batches(pairs, global_batch=job.batch, steps=job.steps, seed=SEED)
    order = plan.pair_SB.ravel()
    return datasets.Dataset.from_dict(
        {
            "anchor": [pairs.query_texts[query] for query in pairs.query_index[order].tolist()],
            "positive": [pairs.document_texts[document] for document in pairs.document_index[order].tolist()],
        }
    )


def _in_order(dataset: Any, **settings: Any) -> Any:
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from torch.utils.data import SequentialSampler

    return DefaultBatchSampler(SequentialSampler(dataset), **settings)


def _remembering_loss(model: Any) -> Any:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    class RememberingLoss(MultipleNegativesRankingLoss):
        """It keeps the newest value, which the trainer would only log as a mean."""

        newest: Any = None

        def forward(self, sentence_features: Any, labels: Any) -> Any:
            loss = super().forward(sentence_features, labels)
            self.newest = loss.detach()
            return loss

    return RememberingLoss(model, scale=20.0)


def _gate_callback(gate: Gate, loss: Any) -> Any:
    from transformers import TrainerCallback

    class GateCallback(TrainerCallback):
        """Called when a step is whole: after the optimiser and after the gradients were set to none."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            gate.unit_done(loss.newest.item())

    return GateCallback()
