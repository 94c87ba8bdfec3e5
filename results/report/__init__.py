"""The report: one HTML page, which needs no network, with all tables, plots, what is missing, and provenance."""
