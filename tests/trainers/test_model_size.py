"""Sizes of models by their files' headers and as the catalogue has them; transformers' own models are the oracle."""

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel, BertConfig, Qwen3Config

from search_spaces.catalogue.families import FAMILIES, ROLES
from search_spaces.catalogue.model_sizes import PUBLISHED_SIZES, ModelSize
from search_spaces.catalogue.sources import parse_source
from search_spaces.specs import WeightsSpec
from trainers.weights import content_hash, locate
from trainers.weights.model_size import model_size, size_of

QWEN3 = Qwen3Config(
    vocab_size=151_936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
)


def on_meta(config):
    with torch.device("meta"):
        return AutoModel.from_config(config)


def counted(model):
    layers = getattr(model, "encoder", model).layers if hasattr(model, "layers") else model.encoder.layer
    of_layers = [sum(weight.numel() for weight in layer.parameters()) for layer in layers]
    return len(of_layers), of_layers[0], sum(weight.numel() for weight in model.parameters()) - sum(of_layers)


@pytest.mark.parametrize(
    ("config", "name"), [(BertConfig(), "google-bert/bert-base-uncased"), (QWEN3, "Qwen/Qwen3-0.6B-Base")]
)
def test_published_sizes_are_those_of_the_architectures(config, name):
    size = PUBLISHED_SIZES[name].size
    assert (size.num_layers, size.parameters_per_layer, size.other_parameters) == counted(on_meta(config))
    assert size.hidden_size == config.hidden_size


@pytest.mark.parametrize("config", [BertConfig(num_hidden_layers=3), QWEN3], ids=["bert", "qwen3"])
def test_a_size_is_read_off_names_and_shapes(config):
    model = on_meta(config)
    shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    head = {"lm_head.weight": (config.vocab_size, config.hidden_size), "cls.predictions.bias": (config.vocab_size,)}
    found = size_of({**shapes, **head})
    assert (found.num_layers, found.parameters_per_layer, found.other_parameters) == counted(model)
    assert found.hidden_size == config.hidden_size


def test_every_hub_checkpoint_of_the_catalogue_has_its_size():
    checkpoints = [family.checkpoint(role) for family in FAMILIES.values() for role in ROLES]
    sources = {parse_source(checkpoint.source) for checkpoint in checkpoints if checkpoint}
    hub = {source.location for source in sources if source.scheme == "hf"}
    assert hub <= set(PUBLISHED_SIZES)
    assert all(PUBLISHED_SIZES[name].size and PUBLISHED_SIZES[name].num_bytes for name in hub)


def test_the_size_of_minilm_is_that_of_its_tensors():
    checkpoint = FAMILIES["minilm"].retriever
    weights = WeightsSpec(source=checkpoint.source)
    found = model_size(weights, content_hash(weights))
    with safe_open(locate(weights) / "model.safetensors", "pt") as file:
        names = file.keys()
        total = sum(file.get_tensor(name).numel() for name in names if not name.endswith("position_ids"))
    assert found.parameters(None) == pytest.approx(total, abs=512)
    assert (found.num_layers, found.hidden_size) == (6, 384)
    assert model_size(weights, content_hash(weights)) == found  # remembered


def test_a_model_cut_to_layers_has_fewer():
    size = ModelSize(num_layers=6, parameters_per_layer=10, other_parameters=5, hidden_size=2)
    assert (size.parameters_in_layers(2), size.parameters(2), size.parameters(None)) == (20, 25, 65)
    assert size.parameters(9) == size.parameters(None)


def test_tensors_that_are_in_no_layer_have_no_size():
    assert size_of({"weight": (3, 4)}) is None
