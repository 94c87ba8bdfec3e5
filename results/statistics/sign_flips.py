"""Sign-flip permutation tests: is a sum of independent, symmetric terms further from 0 than chance puts it?

Under the null hypothesis a paired difference is as likely to be positive as negative, so every assignment of signs is
equally likely. All of them are tried where they are few, else a seeded sample, in which the observed one counts, too
(Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010), so that p is never 0.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from results.statistics.estimate import Floats

NUM_FLIPS = 9_999
MOST_EXACT = 16
"""Up to so many units all 2^n signs are tried; 2^n for more is beyond the sample."""
_CHUNK = 1_000
_SLACK = 1e-9  # a sum in another order must not look smaller


def sign_flip_p(terms_NC: Floats, *, num_flips: int = NUM_FLIPS, seed: int = 0) -> Floats:
    """Two-sided p of each column's sum, shape (C,).

    Args:
        terms_NC: one row for each independent unit (a query, a family), in any unit of measure. Terms may carry
            weights: those of a group's mean are its data sets' weights over their numbers of queries.
        num_flips: signs drawn where not all are tried.
        seed: of the signs; the same for all columns.
    """
    terms_NC = np.asarray(terms_NC, dtype=np.float64)
    observed_C = np.abs(terms_NC.sum(axis=0))
    limit_C = observed_C - _SLACK * np.abs(terms_NC).sum(axis=0)
    num_units = len(terms_NC)
    is_exact = num_units <= MOST_EXACT
    signs = _all_signs(num_units) if is_exact else _drawn_signs(num_units, num_flips, seed)
    as_far_C = sum((np.abs(signs_FN @ terms_NC) >= limit_C).sum(axis=0) for signs_FN in signs)
    return np.asarray(as_far_C / 2**num_units if is_exact else (1 + as_far_C) / (1 + num_flips), dtype=np.float64)


def clustered_sign_flip_p(terms_N: Floats, clusters: Sequence[str]) -> float:
    """Two-sided p of the sum, where units of one cluster share their sign: they may depend on each other in any way."""
    names = sorted(set(clusters))
    sums_K = np.array([sum(t for t, c in zip(terms_N, clusters, strict=True) if c == name) for name in names])
    return float(sign_flip_p(sums_K[:, None])[0])


def _all_signs(num_units: int) -> Iterator[Floats]:
    bits = np.arange(num_units)
    for start in range(0, 2**num_units, _CHUNK):
        numbers = np.arange(start, min(start + _CHUNK, 2**num_units))
        yield 1.0 - 2.0 * ((numbers[:, None] >> bits) & 1).astype(np.float64)


def _drawn_signs(num_units: int, num_flips: int, seed: int) -> Iterator[Floats]:
    generator = np.random.default_rng(seed)
    for start in range(0, num_flips, _CHUNK):
        size = (min(_CHUNK, num_flips - start), num_units)
        yield 2.0 * generator.integers(2, size=size, dtype=np.int8).astype(np.float64) - 1.0
