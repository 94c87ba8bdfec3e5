"""The training of one trial: data, batches, losses, steps, checkpoints to resume from."""
