"""Explain a number of a table: which cell is meant, and the trials, data and queries behind it."""
