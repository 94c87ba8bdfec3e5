"""What a trained trial's row says of hard negatives that its data lacks."""

import pytest
from tiny_trials import TOPICS, VERBS, data_spec, train_here, trial_spec, write_collection

from trainers.trial_rows import trial_row


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Of 40 queries those of three topics, 12, have no hard negative."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    folder = write_collection(tmp_path / "collection")
    lines = [f"q{i}-{j}\td{(i + 1) % len(TOPICS)}\n" for i in range(3, len(TOPICS)) for j in range(len(VERBS))]
    (folder / "negatives").mkdir()
    (folder / "negatives" / "train.tsv").write_text("".join(lines))
    return data_spec(folder, "train")


@pytest.mark.parametrize(("hard_negatives", "expected"), [(1, 2 * 12), (0, None)])
def test_random_documents_in_place_of_negatives_are_counted_in_the_row(
    data, tiny_bert, make_spec, tmp_path, hard_negatives, expected
):
    # A batch of all 40 queries draws the 12 in each of its two steps.
    spec = trial_spec(data, make_spec(tiny_bert), steps=2, global_batch=40, hard_negatives=hard_negatives)
    result, checkpoint = train_here(spec, tmp_path / "sweep")
    row = trial_row(spec, result, checkpoint_hash=checkpoint, provenance_json="{}")
    assert (row["num_random_negatives"], row["num_negatives"]) == (expected, 39 + 40 * hard_negatives)
