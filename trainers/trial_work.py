"""What a trial makes: its checkpoint, history and row, then the rows of every evaluation that is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

from results import layout
from results.rows import read_rows, write_rows
from results.store import Store
from search_spaces.identity import trial_id
from search_spaces.scoring import trained_similarity
from search_spaces.specs import EvaluationSpec, TrialSpec
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.evaluation.evaluate import evaluate_all
from trainers.evaluation.evaluations import missing_evaluations
from trainers.init_regimes import start_encoder
from trainers.pilot_rows import mean_score, pilot_query_rows
from trainers.planned import check_as_planned
from trainers.training.history import history_row
from trainers.training.resume import CheckpointPolicy, remove_training_checkpoints
from trainers.training.train import train
from trainers.training.train_result import TrainResult
from trainers.trial_hooks import Hooks
from trainers.trial_rows import trial_row


@dataclass(frozen=True, kw_only=True)
class TrialWork:
    """A trial with what `run_trial` takes."""

    spec: TrialSpec
    evaluations: Sequence[EvaluationSpec]
    store: Store
    hooks: Hooks
    checkpoint_policy: CheckpointPolicy
    provenance_json: str

    @property
    def prefix(self) -> str:
        """Under which key of the store it lies."""
        return layout.trial_prefix(self._key)

    def make_checkpoint(self) -> None:
        """Publish the checkpoint, then the history, then the trial's own row, which says that all is there.

        Raises:
            InputError: weights or data cannot be read.
            ValueError: they are not what was planned.
            Exception: whatever ends the training.
        """
        if not self.store.exists(layout.trial_rows(self._key)):
            check_as_planned(self.spec)
            result, score = None, None
            if self.spec.kind == "untrained":
                self._publish_untrained()
            else:
                result = self._train()
            if self.spec.kind == "pilot":
                score = self._score_pilot()
            self._write_row(result, score)
        self.hooks.verify()
        remove_training_checkpoints(self.store, self._key)
        if self.spec.kind == "pilot":  # its rows say what it was worth, and nothing evaluates it
            self.store.delete(layout.checkpoint_prefix(self._key))

    def evaluate_missing(self) -> None:
        """Score the checkpoint on every data set and with every similarity whose rows are not there.

        Raises as `evaluate_all`.
        """
        [row] = read_rows(self.store, layout.trial_rows(self._key), "trials").to_pylist()
        similarity = trained_similarity(self.spec.similarity, row["gamma_q"], row["gamma_d"])
        checkpoint = row["checkpoint_hash"]
        missing = {e: missing_evaluations(checkpoint, similarity, e, self.store) for e in self.evaluations}
        if not any(missing.values()):
            return
        self.hooks.build_pools([evaluation for evaluation, similarities in missing.items() if similarities])
        with self.store.get_folder(layout.checkpoint_prefix(self._key)) as folder:
            encoder = load_checkpoint(folder).encoder.to("cuda" if self.spec.execution.device == "gpu" else "cpu")
            evaluate_all(
                folder,
                missing,
                store=self.store,
                encoder=encoder,
                verify=self.hooks.verify,
                say=self.hooks.enter_phase,
                helpers=self.hooks.helpers,
            )

    @property
    def _key(self) -> str:
        return trial_id(self.spec)

    def _train(self) -> TrainResult:
        self.hooks.enter_phase("training")
        result = train(
            self.spec,
            store=self.store,
            report=self.hooks.report,
            verify=self.hooks.verify,
            checkpoint_policy=self.checkpoint_policy,
        )
        history = [history_row(self._key, numbers) for numbers in result.history]
        self.hooks.verify()
        write_rows(self.store, layout.history_rows(self._key), "history", history)
        return result

    def _score_pilot(self) -> float:
        """Write what each development query of a pilot gave; returns the mean score, 0 to 1."""
        self.hooks.enter_phase("evaluating")
        with self.store.get_folder(layout.checkpoint_prefix(self._key)) as folder:
            rows = pilot_query_rows(self.spec, folder)
        self.hooks.verify()
        write_rows(self.store, layout.pilot_rows(self._key), "per_query", rows)
        return mean_score(rows)

    def _publish_untrained(self) -> None:
        """The starting encoder as a checkpoint without a similarity."""
        encoder = start_encoder(self.spec.encoder, self.spec.seed)
        self.hooks.verify()
        self.store.put_folder(
            layout.checkpoint_prefix(self._key),
            lambda folder: save_checkpoint(folder, encoder, gammas=None, similarity=None, scale=None),
        )

    def _write_row(self, result: TrainResult | None, pilot_score: float | None) -> None:
        with self.store.get_folder(layout.checkpoint_prefix(self._key)) as folder:
            found = checkpoint_hash(folder)
        row = trial_row(self.spec, result, checkpoint_hash=found, provenance_json=self.provenance_json)
        if pilot_score is not None:
            row["validation_score"] = pilot_score
        self.hooks.verify()
        write_rows(self.store, layout.trial_rows(self._key), "trials", [row])
