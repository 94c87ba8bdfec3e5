"""Bad input at the command line: one clear line for each problem, exit code 2, nothing started."""

import json

import pytest
import yaml


def _refused(sweep, *arguments: str) -> list[str]:
    """Run, expect exit code 2, nothing on standard output and no sweep folder; give the lines of the message."""
    done = sweep.command(*(arguments or ("run", sweep.file.name)))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert not sweep.folder.exists()
    return done.stderr.splitlines()


def test_all_problems_of_a_file_stand_on_a_line_each(make_sweep):
    sweep = make_sweep(axes={"similarity": ["cosine", "cosin"]}, training={"warmup": 1}, resourcs={"cpus": 1})
    assert sorted(_refused(sweep)) == [
        "error: sweep.yaml: axes.similarity[1]: 'cosin' is not a similarity (did you mean 'cosine'?)",
        "error: sweep.yaml: resourcs: 'resourcs' is not a key of the sweep file (did you mean 'resources'?)",
        "error: sweep.yaml: training.warmup: 'warmup' is not a key of the sweep file (did you mean 'warmup_steps'?)",
    ]


def test_a_cell_without_its_checkpoint(make_sweep):
    [line] = _refused(make_sweep(axes={"init_regime": ["finetune", "from_base"]}))
    assert line.startswith(
        "error: sweep.yaml: axes.init_regime[1]: 'from_base' needs a base checkpoint, and family 'minilm' has none"
    )


def test_a_missing_folder_of_weights_or_data(make_sweep):
    lines = _refused(
        make_sweep(
            data_sets=[{"name": "zoo", "source": "path:nowhere"}],
            families=[
                {
                    "name": "mine",
                    "retriever": {"source": "path:weights"},
                    "pooling": "mean",
                    "max_query_length": 8,
                    "max_document_length": 8,
                }
            ],
        )
    )
    keys = sorted(line.split(": ")[2] for line in lines)
    assert keys == ["data_sets[0].source", "families[0].retriever.source"]


def test_judgements_outside_the_corpus(make_sweep):
    sweep = make_sweep()
    with (sweep.file.parent / "data" / "qrels" / "test.tsv").open("a") as file:
        file.write("qd0-0\tunknown-document\t1\n")
    lines = _refused(sweep)
    assert any("test.tsv" in line and "unknown-document" in line for line in lines)


def test_a_batch_larger_than_the_data(make_sweep):
    [line] = _refused(make_sweep(training={"global_batch": 64}))
    assert line == "error: sweep.yaml: training.global_batch: 64, but 'zoo' has only 48 queries to fill it"


def test_an_unwritable_sweep_folder(make_sweep):
    sweep = make_sweep()
    done = sweep.command("run", sweep.file.name, "--storage", "/proc/sweep")
    assert done.returncode == 2
    assert done.stderr.startswith("error: /proc/sweep: storage: this sweep folder cannot be written")
    assert done.stderr.count("\n") == 1


def test_more_cpus_than_there_are(make_sweep):
    [line] = _refused(make_sweep(resources={"cpus": 1000}))
    assert line.startswith("error: sweep.yaml: resources.cpus: 1000 CPUs for one trial, but this machine has ")


@pytest.mark.parametrize("command", ["status", "tables", "ui"])
def test_a_folder_that_is_no_sweep(make_sweep, command):
    [line] = _refused(make_sweep(), command, "elsewhere")
    assert line == "error: elsewhere: is no sweep folder (a sweep is made by: densesweep run FILE)"


def test_validate_says_the_same_and_starts_nothing(make_sweep):
    sweep = make_sweep()
    done = sweep.command("validate", sweep.file.name)
    assert (done.returncode, done.stdout) == (0, "sweep.yaml: 3 trials and 1 probes, no problems.\n")
    assert not sweep.folder.exists()
    content = yaml.safe_load(sweep.file.read_text())
    content["axes"]["seed"] = "zero"
    sweep.file.write_text(json.dumps(content))  # JSON is YAML
    assert _refused(sweep, "validate", sweep.file.name) == _refused(sweep)


def test_plan_lists_what_is_left_out_and_why(make_sweep):
    sweep = make_sweep(axes={"init_regime": ["finetune", "from_base"]}, missing_checkpoints="leave_out")
    done = sweep.command("plan", sweep.file.name)
    assert done.returncode == 0, done.stderr
    assert "left out: minilm/from_base: 'from_base' needs a base checkpoint" in done.stdout
    assert "0 done, 4 left, 12 optimiser steps to train" in done.stdout
    assert not sweep.folder.exists()
