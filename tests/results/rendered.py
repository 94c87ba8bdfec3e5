"""What tests of tables share: tables of a sweep folder, which have golden files, and tables of a few given rows."""

from results.collect import collect
from results.tables import TABLES, TableOptions
from results.tables.table import Column, Table

GOLDEN_TABLES = ["gains", "winners", "significance", "seeds", "claims", "sts", "rag", "fisher_check", "missing"]
GOLDEN_TABLES += ["rag_gains", "train_score_matrix", "learned_gamma", "cohen_d", "magnitude_correlation"]
GOLDEN_TABLES += ["fisher_calls", "predictions", "fisher_summary", "fisher_tau", "fisher_published", "cost"]
SEEDED = [
    "gains",
    "gains_by_dataset",
    "winners",
    "significance",
    "significance_by_dataset",
    "ranks",
    "seeds",
    "claims",
    "cost",
]
GOLDEN_FORMATS = ("md", "csv", "latex")
SPECIAL = '50% of_a & b#1 $x$ ~y^2 \\end{z} <tag> |p| "q" `r` -- s--- [t] *u*'


def build(folder, name, **options):
    """A table of what is in a sweep folder."""
    return TABLES[name].build(collect(folder.store, folder.record()), TableOptions(**options))


def table_of(rows, **changes):
    columns = tuple(Column(key=name, header=name) for name in rows.columns)
    return Table(**{"name": "t", "title": "t", "columns": columns, "rows": rows, **changes})
