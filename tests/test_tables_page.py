"""docs/tables.md names every table and claim, and says what the code has."""

import re
from pathlib import Path

import pytest

from results.claims import CLAIMS, MAGNITUDE, NonInferiority
from results.estimates import LEVELS
from results.references import COLUMNS
from results.rendering import FORMATS
from results.statistics import bootstrap, power, ratios, spread
from results.tables import TABLES

PAGE = (Path(__file__).parents[1] / "docs" / "tables.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \|(.+)\|$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_row(name):
    assert name in dict(ROWS)


def test_every_claim_has_its_row_in_order():
    of_claims = PAGE.partition("## Claims")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", of_claims, flags=re.MULTILINE) == list(CLAIMS)


def test_every_format_and_every_column_of_external_numbers_has_its_row():
    assert set(FORMATS) <= set(dict(ROWS))
    of_references = PAGE.partition("## External numbers")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", of_references, flags=re.MULTILINE)) == set(COLUMNS)


def test_the_signs_and_the_margin_are_those_of_the_registry():
    told = dict(ROWS)
    for name, claim in CLAIMS.items():
        confirmed_by = told[name].split("|")[-1].strip()
        if isinstance(claim.test, NonInferiority):
            assert confirmed_by == f"above -{100 * claim.test.margin:g} points"
        else:
            assert confirmed_by == ("above 0" if claim.test.expected == 1 else "below 0")


def test_the_constants_are_those_of_the_code():
    assert f"reaches {100 * ratios.MIN_BASELINE} points" in PAGE
    assert f"{bootstrap.NUM_DRAWS:,} draws" in PAGE
    assert f"at least {power.MIN_SEEDS}, that see a gain of {100 * spread.DETECTABLE:g} point" in PAGE
    assert f"power of {100 * power.POWER:g} %" in PAGE
    assert f"at most {', '.join(f'{level:g}' for level in LEVELS)}" in PAGE
    assert f"mean of {' and '.join(MAGNITUDE)} minus cosine" in PAGE
