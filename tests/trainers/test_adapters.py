"""Low-rank adapters: what is trained, what is left alone, and that merging them changes nothing but the last digits."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tiny_trials import data_spec, train_here, trial_spec, write_collection
from transformers import AutoTokenizer, BertConfig, BertModel, GPT2Config, GPT2Model

from search_spaces.problems import InputError
from trainers.encoders.adapters import adapted, load_trainable_state, merged, save_adapters, trainable_state, with_lora
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, save_checkpoint
from trainers.encoders.encode import encode
from trainers.encoders.encoder import Encoder
from trainers.init_regimes import start_encoder
from trainers.training.resume import CheckpointPolicy

SIDES = ("query", "document")
RANK = 3
MERGING = 1e-5  # of an embedding's norm: what is stated of `merged`


@pytest.fixture(params=["mean-bert", "last-qwen3", pytest.param("mean-minilm", marks=pytest.mark.slow)])
def spec(request, make_spec, minilm):
    pooling, _, name = request.param.partition("-")
    if name == "minilm":
        return minilm
    folder = request.getfixturevalue(f"tiny_{name}")
    return make_spec(folder, pooling=pooling, append_eos=pooling == "last", query_prompt="query: ")


def with_adapters(encoder, *, seed=0, rank=RANK, alpha=16.0, dropout=0.0):
    return with_lora(encoder, rank=rank, alpha=alpha, dropout=dropout, seed=seed)


def trained(encoder, texts, *, steps=3, learning_rate=0.02):
    """Some steps of AdamW on a loss that every embedding has a part in."""
    encoder.train()
    weights = [weight for weight in encoder.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=0.1)
    for _ in range(steps):
        query, document = (encoder(*encoder.pad(encoder.tokenise(texts, side)), side) for side in SIDES)
        (torch.cosine_similarity(query, document.roll(1, 0)).sum() + 0.01 * query.square().sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return encoder.eval()


def states(encoder):
    return {name: tensor.clone() for name, tensor in encoder.state_dict().items()}


def base_weights(encoder, tower):
    """The frozen weights by the names they had before the adapters came."""
    return {
        name.removeprefix("base_model.model.").replace(".base_layer.", "."): tensor
        for name, tensor in encoder.backbones[tower].state_dict().items()
        if ".lora_" not in name
    }


def assert_close(found, expected):
    norms = np.linalg.norm(expected, axis=1)
    assert (np.linalg.norm(found - expected, axis=1) / norms).max() < MERGING


def hand_count(config):
    """Trainable numbers by hand: A and B of each linear layer have rank * (inputs + outputs) together."""
    hidden, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    if config.model_type == "bert":  # query, key, value, output; up, down
        sizes = 4 * (hidden + hidden) + 2 * (hidden + inner)
    else:  # q and o, k and v; gate and up, down
        heads, kv_heads = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
        sizes = 2 * (hidden + heads) + 2 * (hidden + kv_heads) + 3 * (hidden + inner)
    return RANK * layers * sizes


@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_the_number_of_trained_weights_is_the_formulas(spec, towers):
    encoder = with_adapters(start_encoder(replace(spec, towers=towers), None))
    found = sum(weight.numel() for weight in encoder.parameters() if weight.requires_grad)
    assert found == hand_count(encoder.config) * (2 if towers == "separate" else 1)


def test_embeddings_start_as_they_were_to_the_last_bit(spec, texts):
    plain, encoder = start_encoder(spec, None), with_adapters(start_encoder(spec, None))
    assert not any(module.training for module in encoder.modules())
    for side in SIDES:
        np.testing.assert_array_equal(encode(encoder, texts, side), encode(plain, texts, side))


@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_training_leaves_the_base_as_it_is_and_reaches_every_adapter(spec, towers, texts):
    spec = replace(spec, towers=towers)
    encoder = with_adapters(start_encoder(spec, None), dropout=0.1)
    before = states(encoder)
    trained(encoder, texts)
    start = start_encoder(spec, None)
    for tower in encoder.towers:
        own, first = base_weights(encoder, tower), start.backbones[tower].state_dict()
        assert own.keys() == first.keys()
        assert all(torch.equal(own[name], first[name]) for name in own)
    moved = {name for name, tensor in encoder.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved == {name for name in before if ".lora_" in name} == trainable_state(encoder).keys()


def test_only_adapters_get_gradients(spec, texts):
    encoder = with_adapters(start_encoder(spec, None)).train()
    encoder(*encoder.pad(encoder.tokenise(texts, "query")), "query").square().sum().backward()
    with_gradient = {name for name, weight in encoder.named_parameters() if weight.grad is not None}
    assert with_gradient == {name for name, _ in encoder.named_parameters() if ".lora_" in name}
    assert with_gradient == {name for name, weight in encoder.named_parameters() if weight.requires_grad}


def test_what_is_merged_is_the_formula(spec, texts):
    """W + alpha / rank * B A, computed here in float64."""
    encoder = trained(with_adapters(start_encoder(spec, None), alpha=6.0), texts)
    plain = merged(encoder).backbones["shared"].state_dict()
    tensors = encoder.backbones["shared"].state_dict()
    found = 0
    for name, before in base_weights(encoder, "shared").items():
        a = tensors.get(f"base_model.model.{name.removesuffix('.weight')}.lora_A.default.weight")
        if a is None:
            assert torch.equal(plain[name], before)
            continue
        found += 1
        b = tensors[f"base_model.model.{name.removesuffix('.weight')}.lora_B.default.weight"]
        expected = before.double() + 6.0 / RANK * (b.double() @ a.double())
        torch.testing.assert_close(plain[name].double(), expected, rtol=1e-5, atol=1e-6)
    layers = encoder.config.num_hidden_layers
    assert found == layers * {"bert": 6, "qwen3": 7}[encoder.config.model_type]


def test_merging_changes_neither_the_embeddings_nor_what_is_trained(spec, texts):
    start = {side: encode(start_encoder(spec, None), texts, side) for side in SIDES}
    encoder = trained(with_adapters(start_encoder(spec, None), dropout=0.1), texts).train()
    before, embedded = states(encoder), {side: encode(encoder, texts, side) for side in SIDES}
    plain = merged(encoder)
    assert adapted(encoder)
    assert not adapted(plain)
    assert plain.training
    for side in SIDES:
        assert_close(encode(plain, texts, side), embedded[side])
        assert np.abs(embedded[side] - start[side]).max() > 100 * MERGING * np.linalg.norm(start[side], axis=1).max()
        np.testing.assert_array_equal(encode(encoder, texts, side), embedded[side])
    after = encoder.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert trainable_state(encoder).keys() == {name for name in before if ".lora_" in name}


@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_a_checkpoint_is_plain_weights_that_sentence_transformers_encodes_with(spec, towers, texts, tmp_path, capfd):
    encoder = trained(with_adapters(start_encoder(replace(spec, towers=towers), None)), texts)
    before = states(encoder)
    capfd.readouterr()
    save_checkpoint(tmp_path, encoder, gammas=None, similarity=None, scale=None)
    assert capfd.readouterr() == ("", "")
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())
    model = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=False)
    assert not any("lora" in name for name, _ in model.named_parameters())
    loaded = load_checkpoint(tmp_path).encoder
    assert not adapted(loaded)
    for side, found in (("query", model.encode_query(texts)), ("document", model.encode_document(texts))):
        assert_close(found, encode(encoder, texts, side))
        assert_close(encode(loaded, texts, side), encode(encoder, texts, side))


@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_peft_puts_the_saved_adapter_on_the_starting_weights(spec, towers, texts, tmp_path):
    spec = replace(spec, towers=towers)
    encoder = trained(with_adapters(start_encoder(spec, None)), texts)
    save_checkpoint(tmp_path, encoder, gammas=None, similarity=None, scale=None)
    start = start_encoder(spec, None)
    for tower in start.towers:
        folder = tmp_path / "adapter" if tower == "shared" else tmp_path / "adapter" / tower
        assert sorted(path.name for path in folder.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
        assert str(tmp_path) not in (folder / "adapter_config.json").read_text()
        assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] is None
        start.backbones[tower] = PeftModel.from_pretrained(start.backbones[tower], folder)
    for side in SIDES:
        np.testing.assert_array_equal(encode(start, texts, side), encode(encoder, texts, side))


def test_a_seed_gives_the_adapters_and_no_global_random_state_changes(tiny_bert, make_spec):
    spec = make_spec(tiny_bert, towers="separate")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    encoder = with_adapters(start_encoder(spec, None), seed=1)
    assert torch.equal(torch.rand(3), expected)
    one, again, other = (
        trainable_state(e) for e in (encoder, *(with_adapters(start_encoder(spec, None), seed=s) for s in (1, 2)))
    )
    drawn = [name for name in one if ".lora_A." in name]
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in drawn)
    assert not any(torch.equal(one[name], one[name.replace(".query.", ".document.", 1)]) for name in drawn[:1])
    assert all(not tensor.any() for name, tensor in one.items() if ".lora_B." in name)


def test_an_adapters_dropout_follows_train_and_eval(tiny_qwen3, make_spec, texts):
    """Qwen3 itself has none."""
    encoder = trained(with_adapters(start_encoder(make_spec(tiny_qwen3), None), dropout=0.5), texts)
    ids, mask = encoder.pad(encoder.tokenise(texts, "query"))
    with torch.inference_mode():
        assert torch.equal(encoder(ids, mask, "query"), encoder(ids, mask, "query"))
        encoder.train()
        assert not torch.equal(encoder(ids, mask, "query"), encoder(ids, mask, "query"))


@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_the_trained_state_comes_back_to_the_last_bit(spec, towers, texts, tmp_path):
    spec = replace(spec, towers=towers)
    encoder = trained(with_adapters(start_encoder(spec, None), seed=1), texts)
    save_file(trainable_state(encoder), tmp_path / "state.safetensors")
    other = with_adapters(start_encoder(spec, None), seed=2)
    load_trainable_state(other, load_file(tmp_path / "state.safetensors"))
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in encoder.state_dict().items())
    for side in SIDES:
        np.testing.assert_array_equal(encode(other, texts, side), encode(encoder, texts, side))


def test_without_adapters_the_trained_state_is_all_that_has_a_gradient(tiny_bert, make_spec, texts):
    encoder = trained(start_encoder(make_spec(tiny_bert), None), texts, learning_rate=1e-3)
    state = trainable_state(encoder)
    assert state.keys() == {name for name, _ in encoder.named_parameters() if ".pooler." not in name}
    other = start_encoder(make_spec(tiny_bert), None)
    load_trainable_state(other, state)
    np.testing.assert_array_equal(encode(other, texts, "query"), encode(encoder, texts, "query"))


def test_another_models_state_is_refused_and_changes_nothing(tiny_bert, make_spec):
    encoder, wider = (with_adapters(start_encoder(make_spec(tiny_bert), None), rank=rank) for rank in (3, 4))
    before = states(encoder)
    with pytest.raises(ValueError, match=r"lora_A\.default\.weight has the shape \(4, 32\), where the model has \(3"):
        load_trainable_state(encoder, trainable_state(wider))
    with pytest.raises(ValueError, match=r"tensors differ in name, such as backbones\.shared\."):
        load_trainable_state(encoder, trainable_state(start_encoder(make_spec(tiny_bert), None)))
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())


def test_gpt2s_transposed_layers_have_adapters_too(tiny_llama, make_spec, texts, tmp_path):
    """GPT-2 keeps its weights as [inputs, outputs]."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, initializer_range=0.3)
    spec = make_spec(tiny_llama, pooling="last")
    encoder = with_adapters(Encoder({"shared": GPT2Model(config)}, tokenizer, spec).eval())
    found = sum(weight.numel() for weight in encoder.parameters() if weight.requires_grad)
    assert found == RANK * 2 * ((32 + 96) + (32 + 32) + 2 * (32 + 128))
    trained(encoder, texts)
    save_checkpoint(tmp_path, encoder, gammas=None, similarity=None, scale=None)
    for side in SIDES:
        assert_close(encode(load_checkpoint(tmp_path).encoder, texts, side), encode(encoder, texts, side))


def test_an_architecture_without_blocks_is_refused(tiny_bert, make_spec):
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    backbone = BertModel(BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=0))
    encoder = Encoder({"shared": backbone}, tokenizer, make_spec(tiny_bert))
    with pytest.raises(InputError, match="lora_rank needs linear layers in transformer blocks, and a bert has none"):
        with_adapters(encoder)


class InterruptedHereError(Exception):
    """What ends a training in the middle of a step's report."""


@pytest.mark.parametrize(("towers", "rank"), [("shared", 4), ("separate", 4), ("separate", None)])
def test_an_interrupted_training_goes_on_to_the_last_bit(towers, rank, tiny_bert, make_spec, tmp_path):
    data = data_spec(write_collection(tmp_path / "data"), "train")
    encoder = make_spec(tiny_bert, towers=towers)
    trial = trial_spec(data, encoder, lora_rank=rank, lora_dropout=0.1, learning_rate=1e-2)
    _, whole = train_here(trial, tmp_path / "whole")

    def interrupt(report):
        if report.numbers.step == 4:
            raise InterruptedHereError

    every_three = CheckpointPolicy(every_steps=3)
    with pytest.raises(InterruptedHereError):
        train_here(trial, tmp_path / "interrupted", report=interrupt, policy=every_three)
    steps = []
    _, resumed = train_here(
        trial, tmp_path / "interrupted", report=lambda report: steps.append(report.numbers.step), policy=every_three
    )
    assert steps == [4, 5, 6]
    assert resumed == whole


_SAVE = """
import sys
from pathlib import Path
from search_spaces.specs import *
from trainers.encoders.adapters import save_adapters, with_lora
from trainers.encoders.checkpoints import save_checkpoint
from trainers.encoders.encode import encode
from trainers.init_regimes import start_encoder
encoder = start_encoder({spec!r}, None)
encode(encoder, ["a text"], "query")
save_checkpoint(Path("plain"), encoder, gammas=None, similarity=None, scale=None)
assert "peft" not in sys.modules
save_adapters(Path(), with_lora(encoder, rank=3, alpha=16, dropout=0.0, seed=1))
assert "peft" in sys.modules
"""


@pytest.mark.slow
def test_peft_is_imported_only_for_adapters_which_are_the_same_in_every_process(minilm, tmp_path):
    found = set()
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        code = _SAVE.format(spec=minilm)
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
        assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
        files = sorted((folder / "adapter").iterdir())
        found.add(tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in files))
    assert len(found) == 1


def test_the_hash_is_that_of_the_merged_weights(tiny_bert, make_spec, texts, tmp_path):
    encoder = trained(with_adapters(start_encoder(make_spec(tiny_bert), None)), texts)
    hashes = []
    for name, model in (
        ("adapted", encoder),
        ("merged", merged(encoder)),
        ("start", start_encoder(encoder.spec, None)),
    ):
        save_checkpoint(tmp_path / name, model, gammas=None, similarity=None, scale=None)
        hashes.append(checkpoint_hash(tmp_path / name))
    assert hashes[0] == hashes[1] != hashes[2]
    assert not (tmp_path / "merged" / "adapter").exists()


def test_adapters_are_not_written_over(tiny_bert, make_spec, tmp_path):
    encoder = with_adapters(start_encoder(make_spec(tiny_bert), None))
    save_adapters(tmp_path, encoder)
    with pytest.raises(FileExistsError):
        save_adapters(tmp_path, encoder)
