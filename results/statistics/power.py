"""How many seeds a claim needs: fewest for an interval that holds, fewest for a gain to be seen."""

from math import isnan

from results.statistics.estimate import LEVEL, t_quantile

MIN_SEEDS = 3
"""Fewest seeds for a claim on training. With two, one degree of freedom is left: docs/statistics.md."""
POWER = 0.8
_MOST = 1000


def power_of(num_seeds: int, gain: float, seed_std: float, *, level: float = LEVEL) -> float:
    """The probability, 0 to 1, that the two-way test sees `gain` where seeds bring all of the variance.

    Args:
        num_seeds: at least 2.
        gain: the true mean gain.
        seed_std: of the gain between seeds, in the same unit, above 0.
        level: of the interval; the test's error is 1 - level.

    The test is then Student's over seeds: noncentral t with num_seeds - 1 degrees of freedom. Queries only lower it.
    """
    df, shift = num_seeds - 1, abs(gain) / seed_std * num_seeds**0.5
    critical = t_quantile(level, df)
    return 1 - _below(critical, df, shift) + _below(-critical, df, shift)


def seeds_needed(gain: float, seed_std: float, *, power: float = POWER, level: float = LEVEL) -> int | None:
    """The fewest seeds, MIN_SEEDS at least, whose `power_of` reaches `power`; None above a thousand."""
    enough = (n for n in range(MIN_SEEDS, _MOST + 1) if power_of(n, gain, seed_std, level=level) >= power)
    return next(enough, None)


def _below(t: float, df: float, shift: float) -> float:
    from scipy.special import nctdtr

    found = float(nctdtr(df, shift, t))
    return 0.0 if isnan(found) else found  # scipy gives nan where next to nothing lies below `t`
