"""A sweep of the symmetric task as a user runs it: trained, evaluated both ways round, shown, and gone on with."""

import sqlite3

import pytest
from outcomes import table_of

PAIRS = [
    ("A girl is styling her hair.", "A girl is brushing her hair.", 2.5),
    ("Men play soccer.", "A group of boys are playing soccer on the beach.", 3.6),
    ("A man is cutting up a cucumber.", "A man is slicing a cucumber.", 4.2),
    ("A man is playing a harp.", "A man is playing a keyboard.", 1.5),
    ("A woman is cutting onions.", "A woman is cutting tofu.", 1.8),
    ("Drums.", "The price of oil rose by a dollar on Monday, and gas by more.", 0.0),
    ("A man is playing the drums.", "A man plays the drum.", 5.0),
    ("A man is riding an electric bicycle.", "A bicycle.", 3.5),
]


@pytest.fixture
def sweep(make_sweep):
    lines = ["score\tsentence1\tsentence2", *(f"{gold}\t{first}\t{second}" for first, second, gold in PAIRS)]
    made = make_sweep(
        data_sets=[
            {"name": "pairs", "source": "path:pairs", "reader": "sts", "score_range": [0, 5], "train_split": "train"},
            {"name": "zoo", "source": "path:data", "train_split": "train"},
        ],
        axes={"task": "sts", "training_data": "pairs", "scale": "fixed(1)"},
        allow_asymmetric=True,
        training={"steps": 2},
        evaluation={"groups": {"sts": "pairs", "retrieval": "zoo"}},
    )
    folder = made.file.parent / "pairs"
    folder.mkdir()
    for split in ("train", "test"):
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return made


def test_an_asymmetric_similarity_needs_a_word_and_a_batch_enough_pairs(sweep):
    text = sweep.file.read_text()
    sweep.file.write_text(text.replace("allow_asymmetric: true", "allow_asymmetric: false"))
    refused = sweep.here("validate", sweep.file.name)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: sweep.yaml: axes.similarity: task 'sts' needs sim(a, b) = sim(b, a)")
    sweep.file.write_text(text.replace("global_batch: 8", "global_batch: 9"))
    refused = sweep.here("validate", sweep.file.name)
    assert refused.returncode == 2
    expected = "error: sweep.yaml: training.global_batch: 9, but 'pairs' has only 8 scored pairs to fill it"
    assert refused.stderr.splitlines() == [expected]


@pytest.mark.heavy
def test_a_symmetric_sweep_runs_to_its_tables_and_only_what_is_missing_runs_again(sweep):
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr + sweep.logs()
    assert "Spearman correlation with the raters" in done.stdout
    rows = {row["similarity"]: row for row in table_of(sweep, "sts")}
    assert set(rows) == {"cosine", "qnorm"}
    assert rows["cosine"]["forward"] == rows["cosine"]["swapped"]
    assert rows["qnorm"]["forward"] != rows["qnorm"]["swapped"]
    assert all(row["untrained"] for row in rows.values())
    # Retrieval is evaluated too, and a correlation stands in no gain table; nothing was probed.
    assert {row["group"] for row in table_of(sweep, "gains")} == {"retrieval"}
    refused = sweep.command("tables", str(sweep.folder), "fisher_check")
    assert refused.returncode == 2
    assert "table 'fisher_check' says nothing of this sweep" in refused.stderr
    with sqlite3.connect(sweep.folder / "tracking" / "mlflow.db") as database:
        found = {name for (name,) in database.execute("select distinct key from metrics where key like 'Spearman%'")}
    assert {"Spearman/pairs", "Spearman/group.sts"} <= found

    evaluations = sorted(sweep.folder.glob("evaluations/*/sts.parquet"))
    evaluations[0].unlink()
    tables = sweep.command("tables", str(sweep.folder), "sts")
    assert "pairs/test scored with" in tables.stdout + tables.stderr
    plan = sweep.command("plan", sweep.file.name)
    assert "to evaluate" in plan.stdout
    before = {
        path: path.stat().st_mtime_ns for path in (*evaluations[1:], *sweep.folder.glob("trials/*/trial.parquet"))
    }
    again = sweep.run()
    assert again.returncode == 0, again.stdout + again.stderr
    assert evaluations[0].is_file()
    assert {path: path.stat().st_mtime_ns for path in before} == before
