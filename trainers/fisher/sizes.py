"""How much a probe computes: sizes that plans count with, too. Imports no torch."""

# Doubling steps from a handful of directions, where the smallest eigenvalue is well estimated, up to 64, where it is
# still above the rounding of float32 embeddings in a model of 384 dimensions.
RANKS = (8, 16, 32, 64)
NUM_SIDES = 2  # the similarities that are compared
HEAD_MAX_RANK = 32  # 528 coordinates; 64 would be 2,080, of which a probe's queries determine too few
# 32 vectors of each start vector, of 73,920 coordinates (H = 384) in float64: 145 MiB, four times as much for H = 768.
HEAD_VECTORS, HEAD_STEPS = 8, 32
WEIGHTS_VECTORS, WEIGHTS_STEPS = 8, 24
NUM_IRRELEVANT = 256  # documents, against which Cohen's d is taken: its interval is about a quarter of a deviation wide
RANK_GROUPS = 8  # of pools; an eigenvalue problem of size H for each, side and similarity
