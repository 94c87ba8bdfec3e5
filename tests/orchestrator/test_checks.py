"""What a checkpoint says against a sweep file's encoders."""

from dataclasses import replace

import pytest

from orchestrator.checks import empty_split_problems, encoder_problems, machine_problems
from orchestrator.machine import available_cpus
from search_spaces.catalogue.data_sets import DataSet
from search_spaces.schema import ProbeResourcesBlock, ResourcesBlock
from search_spaces.specs import DataSpec, EncoderSpec, WeightsSpec
from trainers.weights.limits import Limits

ENCODER = EncoderSpec(
    family="minilm",
    init_regime="finetune",
    weights=WeightsSpec(source="path:/somewhere"),
    layers=None,
    pooling="mean",
    append_eos=False,
    query_prompt="",
    document_prompt="",
    max_query_length=64,
    max_document_length=64,
)


@pytest.mark.parametrize(("two_towers", "towers"), [(False, "shared"), (False, "separate"), (True, "separate")])
def test_any_towers_may_start_from_one_and_two_from_two(two_towers, towers):
    limits = Limits(num_layers=None, num_positions=None, two_towers=two_towers)
    assert list(encoder_problems(replace(ENCODER, towers=towers), limits, where="sweep.yaml", key="axes")) == []


def test_one_tower_cannot_start_from_two():
    limits = Limits(num_layers=None, num_positions=None, two_towers=True)
    [problem] = encoder_problems(ENCODER, limits, where="sweep.yaml", key="axes.family[0]")
    assert (problem.where, problem.key) == ("sweep.yaml", "axes.family[0]")
    message = "path:/somewhere has a tower for queries and one for documents; write `towers: separate`"
    assert problem.message == message


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([1, 2], []),
        ([], ["split 'test' of data set 'mine' has no scored pairs"]),
        (
            [2, 2, 2.0],
            ["split 'test' of data set 'mine' has no rank correlation: all of its 3 pairs have the same score"],
        ),
    ],
)
def test_splits_of_scored_pairs_that_no_correlation_can_be_taken_of(tmp_path, monkeypatch, scores, told):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    lines = ["score\tsentence1\tsentence2", *(f"{score}\tone {n}\tother {n}" for n, score in enumerate(scores))]
    (tmp_path / "test.tsv").write_text("\n".join(lines) + "\n")
    entry = DataSet(name="mine", source=f"path:{tmp_path}", reader="sts", score_range=(0, 5))
    data = DataSpec(entry=entry, split="test", num_pairs=len(scores))
    assert [problem.message for problem in empty_split_problems([data], "s.yaml", key="evaluation.groups")] == told


def test_what_a_probe_asks_for_and_this_machine_lacks_is_told():
    asked = ProbeResourcesBlock(cpus=available_cpus() + 1, gpus=1000)
    problems = [str(problem) for problem in machine_problems(ResourcesBlock(), "sweep.yaml", asked)]
    assert problems[0] == (
        f"sweep.yaml: probe.resources.cpus: {available_cpus() + 1} CPUs for one probe, but this machine has "
        f"{available_cpus()}"
    )
    assert problems[1].startswith("sweep.yaml: probe.resources.gpus: 1000 GPUs for one probe, but this machine has ")
    assert not list(machine_problems(ResourcesBlock(), "sweep.yaml", ProbeResourcesBlock(cpus=1, gpus=0)))
