"""Statistics of gains as pure functions on arrays: no file, no frame of the store, no table layout.

Array suffixes: `C` columns (similarities), `S` seeds, `Q` queries, `J` data sets, `B` bootstrap draws, `N` units.
Scores and gains are 0 to 1, intervals have level 0.95 unless said otherwise, p values are two-sided.
`docs/statistics.md` tells which method answers which question, and how far each was found to hold.
"""
