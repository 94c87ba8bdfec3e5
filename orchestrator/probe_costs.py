"""What a probe computes, in operations: one forward pass over its texts, then each block. Imports no torch.

Closed forms are in float64, of which a CPU does half as many a second. They are counted as sums of products: what a
probe takes beside them (eigenvalues of small matrices, drawing) is not.
"""

from orchestrator.speeds import FORWARD
from search_spaces.catalogue.model_sizes import ModelSize
from search_spaces.specs import ProbeSpec
from trainers.fisher.candidate_pools import NUM_HELD_OUT
from trainers.fisher.sizes import (
    HEAD_MAX_RANK,
    HEAD_STEPS,
    HEAD_VECTORS,
    NUM_IRRELEVANT,
    NUM_SIDES,
    RANK_GROUPS,
    RANKS,
    WEIGHTS_STEPS,
    WEIGHTS_VECTORS,
)

_DOUBLE = 2  # float64, in operations of float32
_EIGENVALUES = 2  # of a symmetric matrix, times its size cubed
# For each weight, token and vector: the derivative along it with the forward pass (6), and back to the weights (4).
_PRODUCT = 10


def probe_operations(
    probe: ProbeSpec, size: ModelSize, *, query_tokens: float, document_tokens: float
) -> dict[str, float]:
    """By part of the probe ('texts', 'embedding', 'space', 'head', 'weights') its operations; what is not asked is not.

    Args:
        probe: as planned: a time budget makes it shorter.
        size: of its encoder.
        query_tokens: of a query, on average.
        document_tokens: of a document.
    """
    pair_tokens = query_tokens + document_tokens
    tokens = (probe.num_queries + NUM_HELD_OUT) * pair_tokens + NUM_IRRELEVANT * document_tokens
    of_texts = FORWARD * size.parameters_in_layers(probe.encoder.layers) * tokens
    labels = 2 if probe.empirical else 1
    found = {"texts": of_texts, "embedding": labels * _embedding(probe), "space": _space(probe, size)}
    if "head" in probe.blocks:
        found["head"] = labels * _head(probe, size)
    if "weights" in probe.blocks:
        found["weights"] = labels * _weights(probe, size, pair_tokens)
    return found


def _embedding(probe: ProbeSpec) -> float:
    """Two blocks in the largest subspace: gradients of all pairs of query and candidate, and their outer products."""
    num_pairs, rank = probe.num_queries * probe.candidates_per_query, max(RANKS)
    return _DOUBLE * NUM_SIDES * 2 * num_pairs * 2 * rank**2


def _space(probe: ProbeSpec, size: ModelSize) -> float:
    """Covariances of both kinds of texts, and the eigenvalues of all pools and of all but each group."""
    hidden = size.hidden_size
    of_eigenvalues = (1 + RANK_GROUPS) * _EIGENVALUES * hidden**3
    return _DOUBLE * NUM_SIDES * 2 * (2 * probe.num_queries * hidden**2 + of_eigenvalues)


def _head(probe: ProbeSpec, size: ModelSize) -> float:
    """Products with H x H directions for each pool, and F as it is in the coordinates of the subspace."""
    candidates, hidden = probe.candidates_per_query, size.hidden_size
    num_pools = max(1, probe.head_queries // candidates)
    # <G, V> and back: five products of candidates x H x H, two of candidates x candidates x H.
    product = 2 * (5 * candidates * hidden**2 + 2 * candidates**2 * hidden)
    coordinates = HEAD_MAX_RANK * (HEAD_MAX_RANK + 1) / 2
    in_subspace = candidates**2 * 2 * coordinates**2
    return _DOUBLE * NUM_SIDES * num_pools * (HEAD_VECTORS * HEAD_STEPS * product + in_subspace)


def _weights(probe: ProbeSpec, size: ModelSize, pair_tokens: float) -> float:
    """Products over the texts of whole pools; layers below those that are asked for run once, and count as nothing."""
    candidates = probe.candidates_per_query
    num_queries = max(1, min(probe.weights_queries, probe.num_queries) // candidates) * candidates
    asked = size.parameters_in_layers(probe.weights_layers or probe.encoder.layers)
    return NUM_SIDES * WEIGHTS_VECTORS * WEIGHTS_STEPS * _PRODUCT * asked * num_queries * pair_tokens
