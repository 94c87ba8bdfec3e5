"""What a training leaves in the store: checkpoints to resume from, its best weights, and what it publishes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch.optim import Optimizer

from results.layout import checkpoint_prefix, last_checkpoint_prefix
from results.store import Store
from search_spaces.specs import SimilaritySpec
from trainers.encoders.checkpoints import save_checkpoint
from trainers.training.continuing import load_end, longest_end, take_over_best, write_end
from trainers.training.resume import (
    Progress,
    load_best,
    remove_older_best,
    resume_training,
    steps_with_checkpoints,
    write_best,
    write_training_checkpoint,
)
from trainers.training.retriever import Retriever


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """Keeps one trial's training. `verify` is called before each write; raises where nothing may be written.

    With a `prefix_id` the training may go on from the end of a shorter one, and leaves its own end for longer ones.
    """

    store: Store
    trial_id: str
    prefix_id: str | None
    num_steps: int
    retriever: Retriever
    optimizer: Optimizer
    verify: Callable[[], None]

    def resume(self) -> Progress | None:
        """Go on from the newest training checkpoint, or from the end of a shorter training where that is further."""
        own = steps_with_checkpoints(self.store, self.trial_id)
        if (end := self._end()) and end > max(own, default=0):
            assert self.prefix_id is not None, "an end was found by it"
            return load_end(self.store, self.prefix_id, end, self.retriever, self.optimizer)
        return resume_training(self.store, self.trial_id, self.retriever, self.optimizer)

    def take_over(self, progress: Progress) -> None:
        """After `resume`: keep the best weights of the shorter training, where it went on from one."""
        is_own = progress.step in (0, *steps_with_checkpoints(self.store, self.trial_id))
        if not is_own and self.prefix_id and self._end() == progress.step:
            self.verify()
            take_over_best(self.store, self.prefix_id, self.trial_id, progress)

    def _end(self) -> int | None:
        return longest_end(self.store, self.prefix_id, self.num_steps) if self.prefix_id else None

    def write_end(self, progress: Progress) -> None:
        """Leave the training as it stands after its last step for longer ones."""
        if self.prefix_id:
            self.verify()
            write_end(self.store, self.prefix_id, self.trial_id, self.retriever, self.optimizer, progress)

    def write(self, progress: Progress) -> None:
        """Write a checkpoint to resume from, and drop what none refers to any more."""
        self.verify()
        write_training_checkpoint(self.store, self.trial_id, self.retriever, self.optimizer, progress)
        if progress.best:
            remove_older_best(self.store, self.trial_id, progress.best.step)

    def write_best(self, progress: Progress) -> None:
        """Keep the weights as they are now, the best so far."""
        self.verify()
        write_best(self.store, self.trial_id, self.retriever, progress.step)

    def publish(self, progress: Progress, similarity: SimilaritySpec) -> None:
        """Publish the final checkpoint: the weights now, or the best ones, with those of now as the last checkpoint.

        The retriever holds the weights of the final checkpoint then.
        """
        if progress.best:
            self._publish(last_checkpoint_prefix(self.trial_id), progress, similarity)
            if progress.best.step != progress.step:
                load_best(self.store, self.trial_id, self.retriever, progress.best.step)
        self._publish(checkpoint_prefix(self.trial_id), progress, similarity)

    def _publish(self, prefix: str, progress: Progress, similarity: SimilaritySpec) -> None:
        self.verify()
        # One without rows is of an attempt that died before it wrote them, perhaps under other threads: history and
        # checkpoint come from one attempt.
        self.store.delete(prefix)
        self.store.put_folder(
            prefix,
            lambda folder: save_checkpoint(
                folder,
                self.retriever.encoder,
                gammas=self.retriever.gammas,
                similarity=similarity,
                scale=progress.scale,
            ),
        )
