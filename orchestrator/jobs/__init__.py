"""Sweeps as jobs of a Ray cluster that runs: submitted, followed and stopped over HTTP, with Ray's Jobs API."""
