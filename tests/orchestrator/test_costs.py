"""What a plan costs: speeds by measurement or arithmetic, lengths of texts, and the sums by hand."""

import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from orchestrator.costs import costs
from orchestrator.plan import make_plan
from orchestrator.resolve import resolve
from orchestrator.row_costs import NOWHERE, evaluation_row_bytes, mirror_place, training_row_bytes
from orchestrator.speeds import speeds
from orchestrator.text_lengths import documents_of, queries_of
from results.rows import write_rows
from results.schemas import SCHEMAS
from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.catalogue.families import FAMILIES
from search_spaces.catalogue.model_sizes import ModelSize
from search_spaces.specs import DataSpec, EncoderSpec, Execution, WeightsSpec, to_json, with_data_hash
from trainers import data_sets
from trainers.data_sets import document_text, fingerprint
from trainers.data_sets.collection import strings
from trainers.weights import locate

SIZE = ModelSize(num_layers=6, parameters_per_layer=1_000_000, other_parameters=4_000_000, hidden_size=8)


@pytest.fixture
def plan(make_sweep):
    def make(**blocks):
        return make_plan(resolve(make_sweep(**blocks).file), None)

    return make


@pytest.fixture
def trial(plan):
    [first, *_] = [t.spec for t in plan().trials if t.spec.kind == "train"]
    return first


def row(spec, *, pairs_per_s, tokens_per_s, gpus=()):
    made_with = json.dumps({"accelerators": gpus})
    speeds = {"pairs_per_s": pairs_per_s, "tokens_per_s": tokens_per_s}
    return {"spec_json": to_json(spec), "provenance_json": made_with, **speeds}


def sizes(spec):
    return {spec.encoder.weights.source: SIZE}


def test_the_speed_of_the_same_shape_is_the_median_measured(trial):
    others = [replace(trial, seed=seed) for seed in (1, 2, 3)]
    rows = [row(s, pairs_per_s=p, tokens_per_s=1.0) for s, p in zip(others, (10.0, 30.0, 20.0), strict=True)]
    found = speeds(rows, sizes(trial), None)
    speed = found.of_shape(replace(trial, similarity=replace(trial.similarity, name="dot", gamma_q=0.0, gamma_d=0.0)))
    assert (speed.value, speed.is_measured) == (20.0, True)
    assert speed.basis == "measured by 3 finished trials of the same shape"
    larger = replace(trial, training=replace(trial.training, global_batch=16))
    assert found.of_shape(larger) is None


def test_other_shapes_go_by_the_operations_that_were_measured(trial):
    # One layer of 1,000,000 parameters at 500 tokens/s, 6 operations for each.
    found = speeds([row(trial, pairs_per_s=10.0, tokens_per_s=500.0)], sizes(trial), None)
    larger = replace(trial, training=replace(trial.training, global_batch=16))
    speed = found.flops(larger, "fp32")
    assert speed.value == 6 * 1_000_000 * 500.0
    assert speed.basis == "by FLOPs, from the measured speed of 1 finished trial of other shapes"
    two = replace(larger, execution=Execution(threads=2))
    assert found.flops(two, "fp32").value == 2 * speed.value
    assert not found.flops(larger, "bf16").is_measured


def test_speeds_of_another_kind_of_gpu_say_nothing(trial):
    on_gpu = replace(trial, execution=Execution(device="gpu"))
    names = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
    rows = [
        row(on_gpu, pairs_per_s=p, tokens_per_s=p, gpus=[name]) for name, p in zip(names, (10.0, 30.0), strict=True)
    ]
    for gpu, kind, expected in (("A100", "A100", 10.0), ("NVIDIA H100 PCIe", "H100", 30.0)):
        found = speeds(rows, sizes(trial), gpu)
        assert found.of_shape(on_gpu).value == expected
        assert found.of_shape(on_gpu).basis == f"measured by 1 finished trial on {kind} of the same shape"
        assert found.flops(on_gpu, "fp32").value == 6 * 1_000_000 * expected
    on_another = speeds(rows, sizes(trial), "NVIDIA L4")
    assert on_another.of_shape(on_gpu) is None
    assert on_another.flops(on_gpu, "fp32").basis.endswith("of one L4: no fp32 training is measured on one yet")
    anywhere = speeds(rows, sizes(trial), None)
    assert anywhere.of_shape(on_gpu).value == 20.0
    assert "2 finished trials on A100 and H100" in anywhere.of_shape(on_gpu).basis


@pytest.mark.parametrize(
    ("gpu", "peak", "said"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12, "of one H100:"),
        ("A100", 312e12, "of one A100:"),
        (None, 312e12, "of one A100, since the kind of GPU is not known:"),
        ("NVIDIA L40S", 181e12, "of one L40:"),
        ("NVIDIA L4", 121e12, "of one L4:"),
    ],
)
def test_without_measurements_it_is_a_share_of_the_peak(trial, gpu, peak, said):
    on_gpus = replace(trial, execution=Execution(device="gpu", num_devices=2))
    speed = speeds([], {}, gpu).flops(on_gpus, "bf16")
    assert speed.value == pytest.approx(0.35 * peak * 2)
    assert said in speed.basis
    assert "no bf16 training is measured yet" in speed.basis


@pytest.mark.slow
def test_lengths_are_about_those_of_the_tokenizer():
    """Docstrings of Python, by MiniLM's own tokenizer."""
    entry = DATA_SETS["pydoc_small"]
    found = fingerprint(entry, entry.test_split)
    data = with_data_hash(
        DataSpec(entry=entry, split=entry.test_split), content_hash=found.content_hash, num_pairs=found.num_pairs
    )
    checkpoint = FAMILIES["minilm"].retriever
    tokenizer = Tokenizer.from_file(str(locate(WeightsSpec(source=checkpoint.source)) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(64)
    corpus = data_sets.load(entry).corpus
    texts = [document_text(*both) for both in zip(strings(corpus["title"]), strings(corpus["text"]), strict=True)]
    counted = sum(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))
    encoder = _encoder(64)
    documents = documents_of(data, encoder)
    assert documents.num_texts == len(texts)
    assert 0.7 < documents.tokens / counted < 1.4
    assert queries_of(data, encoder).num_texts == found.num_pairs
    assert documents_of(data, _encoder(8)).mean_tokens <= 8


def _encoder(length):
    return EncoderSpec(
        family="minilm",
        init_regime="finetune",
        weights=WeightsSpec(source="path:x"),
        layers=None,
        pooling="mean",
        append_eos=False,
        query_prompt="",
        document_prompt="",
        max_query_length=length,
        max_document_length=length,
    )


def test_data_that_is_not_here_goes_by_its_entry():
    entry = DATA_SETS["scifact"]
    documents = documents_of(DataSpec(entry=entry, split="test"), _encoder(512))
    assert documents.num_texts == entry.counts.num_documents
    assert documents.mean_tokens == pytest.approx(entry.size_bytes / documents.num_texts / 4 + 2)
    assert not documents.at_most
    unknown = documents_of(DataSpec(entry=DATA_SETS["msmarco_v1"], split="train"), _encoder(512))
    assert (unknown.num_texts, unknown.mean_tokens, unknown.at_most) == (None, 512, True)


@pytest.mark.parametrize(("name", "per_query"), [("2wikimultihopqa", 10), ("musique", 20)])
def test_paragraphs_that_come_with_questions_are_counted_by_the_questions(name, per_query):
    entry = DATA_SETS[name]
    documents = documents_of(DataSpec(entry=entry, split="test"), _encoder(512))
    assert documents.num_texts == per_query * entry.counts.splits[0].num_queries
    assert documents.tokens == pytest.approx(entry.size_bytes / 4 + 2 * documents.num_texts)
    assert documents.at_most


def test_of_what_the_study_evaluates_on_only_the_documents_of_novelhopqa_are_unknown():
    data = [DataSpec(entry=entry, split=entry.test_split) for entry in DATA_SETS.values() if entry.groups]
    scored = {spec.name for spec in data if spec.entry.is_scored}
    unknown = {spec.name for spec in data if documents_of(spec, _encoder(512)).num_texts is None}
    assert unknown - scored == {"novelhopqa"}


def test_the_sums_are_those_by_hand(plan):
    found = plan()
    total = costs(found, None)
    [spec, *_] = [t.spec for t in found.trials if t.spec.kind == "train"]
    queries, documents = queries_of(spec.training_data, spec.encoder), documents_of(spec.training_data, spec.encoder)
    assert total.steps == 2 * 6
    assert total.training_tokens == 2 * round(6 * 8 * (queries.mean_tokens + documents.mean_tokens))
    evaluated = documents_of(found.evaluations[0].spec.data, spec.encoder).num_texts
    assert evaluated == 48
    assert total.unit == "CPU"
    assert [part.what for part in total.parts] == [
        *("training", "evaluation"),
        *(f"probes: {part}" for part in ("texts", "embedding", "space")),
    ]
    assert total.hours == pytest.approx(sum(part.hours for part in total.parts))
    assert all(part.hours > 0 and part.bases for part in total.parts)
    assert not total.at_most
    assert total.unknown == ()


def test_a_constant_schedule_and_validation_take_more_room(plan):
    plain, constant, validated = (
        costs(plan(name=name, **blocks), None).storage_bytes
        for name, blocks in (
            ("plain", {}),
            ("constant", {"training": {"schedule": "constant"}}),
            ("validated", {"validation": {"data": "zoo/test", "every_steps": 2}}),
        )
    )
    # Two trained checkpoints and one untrained: what goes on needs weights and two moments, a best one a last one.
    checkpoint = (constant - plain) / 6
    assert validated - plain == pytest.approx(2 * checkpoint, rel=1e-6)
    assert 3 * checkpoint <= plain < 3.1 * checkpoint


def test_shares_of_a_gpu_are_counted_as_shares(plan, monkeypatch):
    """By arithmetic a third of a GPU takes three times as long: as many GPU-hours."""
    monkeypatch.setattr("orchestrator.resolve.machine_problems", lambda *_: ())
    whole, third = (
        costs(plan(name=f"gpus{place}", resources={"gpus": gpus}), None) for place, gpus in enumerate((1, "1/3"))
    )
    assert whole.unit == third.unit == "GPU"
    assert third.hours == pytest.approx(whole.hours)


def _parquet_bytes(store, name, rows):
    """What rows of a schema take in a file of their own, with what made them."""
    write_rows(store, "rows.parquet", name, rows, provenance_json="x" * 4000)
    return len(store.read("rows.parquet"))


def test_rows_take_about_what_files_of_such_rows_take(plan, store):
    """The oracle is what is written: a history, and norms and values of a data set under one similarity."""
    generator = random.Random(3)
    found = plan()
    [spec, *_] = [t.spec for t in found.trials if t.spec.kind == "train"]
    [evaluation] = [e.spec for e in found.evaluations]
    steps, num_documents, num_queries = 2000, 20_000, 900
    history = [
        {
            field.name: "0123456789abcdef" if pa.types.is_string(field.type) else step
            if pa.types.is_integer(field.type) else generator.random()
            for field in SCHEMAS["history"]
        }
        for step in range(1, steps + 1)
    ]  # fmt: skip
    said = training_row_bytes(steps, NOWHERE)
    assert 0.7 < said / _parquet_bytes(store, "history", history) < 1.4

    of_data = {"checkpoint_hash": "c" * 64, "data_set": "zoo", "data_hash": "d" * 64, "split": "test"}
    sides = ["query"] * num_queries + ["document"] * num_documents
    norms = [
        of_data | {"side": side, "text_id": f"d{generator.randrange(10**9)}", "norm": 9 + generator.random()}
        for side in sides
    ]
    of_data |= {"tier": "full", "score_similarity": "cosine"}
    values = [
        of_data | {"query_id": query, "measure": measure, "value": generator.choice([0.0, 1.0, generator.random()])}
        for query in [f"q{generator.randrange(10**9)}" for _ in range(num_queries)]
        for measure in evaluation.data.entry.measures
    ]  # fmt: skip
    written = _parquet_bytes(store, "norms", norms) + _parquet_bytes(store, "per_query", values)
    numbers = {"num_documents": num_documents, "num_queries": num_queries}
    said = evaluation_row_bytes(spec, evaluation, **numbers, mirror=NOWHERE)
    assert 0.7 < said / written < 1.4
    mirrored = evaluation_row_bytes(spec, evaluation, **numbers, mirror=replace(NOWHERE, holds_rows=True))
    assert 2 * said < mirrored < 2.5 * said


@pytest.mark.parametrize(
    ("tracking_uri", "expected"),
    [
        (None, (True, True)),
        ("https://mlflow.example.org", (False, False)),
        ("postgresql://db/mlflow", (True, False)),
    ],
)
def test_what_mlflow_keeps_counts_where_it_lies_in_the_sweep_folder(tmp_path, tracking_uri, expected):
    place = mirror_place(str(tmp_path / "sweep"), tracking_uri)
    assert (place.holds_rows, place.holds_numbers) == expected
    assert mirror_place("s3://bucket/sweep", tracking_uri) == NOWHERE
    assert not (tmp_path / "sweep").exists()


def test_samples_of_searches_leave_no_weights(plan):
    tune = {"spaces": {"learning_rate": {"loguniform": [1e-5, 1e-3]}}, "seed": 9}
    few, many = (
        costs(
            plan(
                name=f"tuned{number}",
                training={"learning_rate": None},
                validation={"data": "zoo/test", "every_steps": 3},
                tune=tune | {"num_samples": number},
            ),
            None,
        )
        for number in (2, 12)
    )
    assert many.steps > few.steps
    assert many.passing_bytes == few.passing_bytes > 0
    assert many.storage_bytes - many.row_bytes == few.storage_bytes - few.row_bytes > 0
    assert many.row_bytes > few.row_bytes


def test_probes_that_run_on_cpus_take_no_gpu_hours(plan, monkeypatch):
    monkeypatch.setattr("orchestrator.resolve.machine_problems", lambda *_: ())
    with_gpus, on_cpus = (
        costs(plan(name=name, resources={"gpus": 1}, probe=probe), None)
        for name, probe in (("on_gpus", {}), ("on_cpus", {"resources": {"gpus": 0, "cpus": 1}}))
    )
    assert on_cpus.hours < with_gpus.hours
    assert on_cpus.unknown == ("probes run on CPUs alone: no GPU-hours of them",)
    assert with_gpus.unknown == ()
