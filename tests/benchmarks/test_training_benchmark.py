"""The training benchmark on a tiny model: both sides see the same batches, and a difference is found."""

import json
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.benchmarks import data, training
from tests.benchmarks.__main__ import main
from tests.benchmarks.jobs import TrainingJob, minilm_folder, single_token_words

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A BERT of one layer as a sentence-transformers folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    bare, folder = tmp_path_factory.mktemp("bare"), tmp_path_factory.mktemp("model")
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(bare)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(bare)
    transformer = Transformer(str(bare), max_seq_length=64)
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(folder))
    return folder


def job_of(model, folder, name="pairs", words=WORDS):
    pairs = [(f"{a} {b}", f"{b} {a} {a}") for a in words for b in words if a != b]
    entry = data.write_collection(folder / name, pairs)
    return TrainingJob(model=model, entry=entry, batch=8, precision="fp32", steps=6, threads=1)


@pytest.mark.slow
def test_both_sides_train_on_the_same_batches(model, tmp_path):
    assert training.loss_difference(job_of(model, tmp_path), tmp_path) < 1e-4


@pytest.mark.slow
def test_sides_that_differ_are_refused(model, tmp_path, monkeypatch):
    job, other = job_of(model, tmp_path), job_of(model, tmp_path, "others", WORDS[:6]).entry
    contestants = training._contestants

    def with_other_data(checked):
        ours, peer = contestants(checked)
        return [ours, replace(peer, job=replace(checked, entry=other))]

    monkeypatch.setattr(training, "_contestants", with_other_data)
    with pytest.raises(training.UnfairError, match="losses on equal batches differ"):
        training.loss_difference(job, tmp_path)


@pytest.mark.slow
def test_figures_are_printed_and_written(tmp_path, capsys):
    file = tmp_path / "figures.json"

    main(
        [
            *[
                "training",
                "--data",
                "one_length",
                "--batch",
                "2",
                "--precision",
                "fp32",
                "--rounds",
                "1",
                "--steps",
                "1",
                "--json",
            ],
            str(file),
        ]
    )

    assert "pairs a cpu second" in capsys.readouterr().out
    (found,) = json.loads(file.read_text())["results"]
    assert found["case"] == {"data": "one_length", "batch": 2, "precision": "fp32"}
    assert found["ours_pairs_per_s"] > 0 < found["cpu"]["median"]


def test_a_missing_data_set_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "SHARED", tmp_path)

    found = data.entry_of("medquad", tmp_path / "new", WORDS, 4)

    assert isinstance(found, data.Missing)
    assert "medquad" in found.reason


def test_texts_of_one_length(tmp_path):
    words = single_token_words(minilm_folder())
    pairs = data.one_length_pairs(words, 3)
    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    assert {len(tokenizer.encode(text).ids) for pair in pairs for text in pair} == {data.ONE_LENGTH}
    assert len({text for pair in pairs for text in pair}) == 6


def test_different_pairs_hold_no_text_twice():
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z"), ("c", "v")]

    assert data.different_pairs(pairs, 9) == [("a", "x"), ("b", "z"), ("c", "v")]
    assert data.different_pairs(pairs, 2) == [("a", "x"), ("b", "z")]
