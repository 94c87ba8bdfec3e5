"""docs/statistics.md says what the code has: constants, power, modules."""

import re
from pathlib import Path

from results.statistics import bootstrap, contrasts, correlation, power, ratios, sign_flips
from results.statistics.binary_outcomes import fewest_for_level

PROJECT = Path(__file__).parents[1]
PAGE = (PROJECT / "docs" / "statistics.md").read_text()


def test_the_powers_are_those_of_the_code():
    rows = re.findall(r"^\| (\d) \|(.+)\| (\d+) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 4
    for gain, powers, needed in rows:
        found = [f"{power.power_of(n, float(gain), 1.0):.0%}" for n in (2, 3, 5, 10)]
        assert [cell.strip().replace(" ", "") for cell in powers.split("|")] == found
        assert power.seeds_needed(float(gain), 1.0) == int(needed)


def test_the_constants_are_those_of_the_code():
    assert (power.MIN_SEEDS, fewest_for_level()) == (3, 6), "'Three, at least', '**Six** discordant'"
    assert f"reaches {100 * ratios.MIN_BASELINE} points" in PAGE
    assert f"margin {100 * contrasts.MARGIN} points" in PAGE
    assert f"up to {sign_flips.MOST_EXACT} queries, else {sign_flips.NUM_FLIPS:,} seeded" in PAGE
    assert f"BCa interval ({correlation.NUM_DRAWS:,} draws" in PAGE
    assert bootstrap.NUM_DRAWS == 1000


def test_every_module_that_is_named_exists():
    named = set(re.findall(r"`(\w+\.py)`", PAGE))
    assert len(named) > 10
    assert not [name for name in named if not (PROJECT / "results" / "statistics" / name).is_file()]
