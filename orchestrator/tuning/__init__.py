"""Searching hyperparameters: what a study draws, what it stops early, what it finds, and where Optuna can see it."""
