"""The shipped sweep files: each loads and expands, to as many cells, trials and probes as counted by hand."""

from pathlib import Path

import pytest

from search_spaces.catalogue.data_sets import PARTS
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.expand import expand
from search_spaces.load import load_sweep

FOLDER = Path(__file__).parents[2] / "search_spaces"
STUDY = ("contriever", "retromae", "e5", "qwen3")
# file: (cells, trained, untrained, probes, studies, data sets). Seeds of untrained ones count under `random` alone.
COUNTS = {
    "demo": (5 * 2 + 2, 12, 3, 3, 0, 2),
    # minilm under finetune and random, smollm2 from_base: 3 x 6 similarities x 2 scales, 3 seeds; a probe per scale
    "cpu": (3 * 6 * 2, 3 * 6 * 2 * 3, 1 + 3 + 1, (1 + 3 + 1) * 2, 0, 2),
    # (minilm finetune and random, smollm2 from_base) x 3 similarities, on 3 data sets; random has 3 probes each
    "fisher_cpu": (3 * 3, 3 * 3 * 3 * 3, 1 + 3 + 1, (1 + 3 + 1) * 3, 0, 3),
    "sts": (4, 4, 1, 0, 0, 2),
    # 4 families x 3 regimes x 6 similarities, 3 seeds; 3 in domain, 13 and 12 forums, 12 of BRIGHT, 4 of which 1 is
    # BEIR's, and TriviaQA
    "paper": (72, 216, 4 + 4 + 4 * 3, 4 + 4 + 4 * 3, 0, 3 + 13 + 12 + 12 + 3 + 1),
    "lr_grid": (4 * 6 * 6, 144, 4, 4, 0, 1),
    # 2 regimes x 4 similarities; trials run with what the studies find
    "tune": (8, 0, 1 + 3, 1 + 3, 8, 2),
}


def expanded(name):
    path = FOLDER / f"{name}.yaml"
    return expand(load_sweep(path), where=str(path))


def test_every_shipped_file_is_counted():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(COUNTS)


def cell(trial):
    settings = trial.training
    return (
        trial.encoder.family,
        trial.encoder.init_regime,
        trial.similarity.name,
        str(trial.scale),
        settings.learning_rate if settings else None,
    )


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_those_by_hand(name):
    expansion = expanded(name)
    trained = [t for t in expansion.trials if t.kind == "train"]
    untrained = [t for t in expansion.trials if t.kind == "untrained"]
    of_studies = [trial for study in expansion.tuned for trial in study.reporting]
    found = (
        len({cell(t) for t in [*trained, *of_studies]}),
        len(trained),
        len(untrained),
        len(expansion.probes),
        len(expansion.tuned),
        len(expansion.evaluations),
    )
    assert found == COUNTS[name]


def test_the_cpu_file_has_two_families_three_regimes_and_three_seeds():
    expansion = expanded("cpu")
    trained = [t for t in expansion.trials if t.kind == "train"]
    assert {(t.encoder.family, t.encoder.init_regime) for t in trained} == {
        ("minilm", "finetune"),
        ("minilm", "random"),
        ("smollm2", "from_base"),
    }
    assert {t.seed for t in trained} == {0, 42, 1337}
    assert {(t.encoder.family, t.training.learning_rate) for t in trained} == {("minilm", 5e-5), ("smollm2", 1e-4)}
    assert {c.title for c in expansion.left_out} == {"minilm/from_base", "smollm2/finetune"}


def test_the_paper_file_has_the_studys_settings():
    expansion = expanded("paper")
    trained = [t for t in expansion.trials if t.kind == "train"]
    assert {t.encoder.family for t in trained} == set(STUDY)
    assert {t.similarity.name for t in trained} == set(SIMILARITIES)
    assert {t.seed for t in trained} == {0, 42, 1337}
    assert expansion.left_out == ()
    rates = {(t.encoder.family, t.training.learning_rate) for t in trained}
    assert rates == {("contriever", 2e-6), ("retromae", 5e-6), ("e5", 5e-6), ("qwen3", 5e-6)}
    [settings] = {
        (s.global_batch, s.weight_decay, s.beta_1, s.beta_2, s.epsilon, s.warmup_steps, s.schedule, s.clip_norm)
        for s in (t.training for t in trained)
    }
    assert settings == (2 * 128, 0.01, 0.9, 0.98, 1e-8, 0, "cosine", 1.0)
    assert {t.training.steps for t in trained} == {100 * (81_795 // 256)}
    assert {str(t.scale) for t in trained} == {"fixed(20)"}
    assert {t.validation.every_steps for t in trained} == {500}
    assert {t.execution.num_devices for t in trained} == {2}


def test_the_paper_file_is_evaluated_on_the_studys_benchmarks():
    groups = {}
    for evaluation in expanded("paper").evaluations:
        entry = evaluation.spec.data.entry
        for group in evaluation.groups:
            groups.setdefault(group, set()).add(entry.part_of or entry.name)
    assert {group: len(names) for group, names in groups.items()} == {
        "in_domain": 3,
        "beir": 14,
        "bright": 12,
        "multi_hop": 4,
    }
    assert "cqadupstack" in groups["beir"]
    assert len(PARTS["cqadupstack"]) == 12
    read = {e.spec.data.name for e in expanded("paper").evaluations if e.spec.rag}
    assert read == {"nq", "hotpotqa", "triviaqa"}


def test_the_grid_is_the_studys_and_its_seed_is_not_reported():
    trained = [t for t in expanded("lr_grid").trials if t.kind == "train"]
    assert {t.training.learning_rate for t in trained} == {2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5}
    reported = {t.seed for t in expanded("paper").trials if t.kind == "train"}
    assert not {t.seed for t in trained} & reported


def test_each_cell_of_the_tuned_file_has_one_study_of_the_same_size():
    studies = expanded("tune").tuned
    assert {study.tune.num_samples for study in studies} == {8}
    assert {study.tuning.seed for study in studies} == {7}
    assert {trial.seed for study in studies for trial in study.reporting} == {0, 42, 1337}
    assert {study.tune.asha.rungs(40) for study in studies} == {(10, 20)}
