"""What a checkpoint is worth: rankings, measures and correlations, as rows."""
