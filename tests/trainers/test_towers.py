"""One encoder for both sides, or one for each: which tower embeds what, where they start, and what is saved of them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from search_spaces.problems import InputError
from search_spaces.specs import ScaleSpec, SimilaritySpec, WeightsSpec
from trainers.encoders.checkpoint_settings import found_settings
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint, read_record, save_checkpoint
from trainers.encoders.encode import encode
from trainers.init_regimes import start_encoder
from trainers.similarity import Gammas
from trainers.weights import content_hash
from trainers.weights.limits import Limits, limits

DOT = SimilaritySpec(name="dot", gamma_q=0.0, gamma_d=0.0, trained=False)
SCALE = ScaleSpec(mode="matched", value=20.0, divisor=31.25)
SIDES = ("query", "document")


@pytest.fixture(params=["mean-bert", "last-qwen3", pytest.param("mean-minilm", marks=pytest.mark.slow)])
def separate(request, make_spec, minilm):
    """Two towers over each kind of architecture, with a prompt and a length for each side."""
    pooling, _, name = request.param.partition("-")
    changes = {
        "towers": "separate",
        "query_prompt": "query: ",
        "document_prompt": "passage: ",
        "max_query_length": 12,
        "max_document_length": 50,
    }
    if name == "minilm":
        return replace(minilm, **changes)
    folder = request.getfixturevalue(f"tiny_{name}")
    return make_spec(folder, pooling=pooling, append_eos=pooling == "last", **changes)


def two_towers(spec, seed=None):
    """An encoder whose towers have come apart, each other than its start."""
    encoder = start_encoder(spec, seed)
    with torch.no_grad():
        for tower, factor in (("query", 1.02), ("document", 0.97)):
            for weight in encoder.backbones[tower].parameters():
                weight.mul_(factor)
    return encoder


def save(folder, encoder):
    save_checkpoint(folder, encoder, gammas=Gammas.from_spec(DOT), similarity=DOT, scale=SCALE)
    return folder


def embed(encoder, texts, side):
    return encoder(*encoder.pad(encoder.tokenise(texts, side)), side)


def same_weights(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_a_shared_tower_embeds_both_sides(tiny_bert, make_spec, texts):
    encoder = start_encoder(make_spec(tiny_bert), None)
    assert encoder.towers == ("shared",)
    assert [encoder.tower_of(side) for side in SIDES] == ["shared", "shared"]
    query, document = (encode(encoder, texts, side) for side in SIDES)
    np.testing.assert_array_equal(query, document)


@pytest.mark.parametrize("regime", ["finetune", "from_base"])
def test_separate_towers_start_from_the_same_weights_and_share_none(separate, regime):
    encoder = start_encoder(replace(separate, init_regime=regime), None)
    query, document = encoder.backbones["query"], encoder.backbones["document"]
    assert encoder.towers == SIDES == tuple(encoder.tower_of(side) for side in SIDES)
    assert same_weights(query, document)
    assert same_weights(query, start_encoder(replace(separate, towers="shared"), None).backbones["shared"])
    storages = [{weight.data_ptr() for weight in tower.parameters()} for tower in (query, document)]
    assert not storages[0] & storages[1]


def test_random_towers_are_two_draws_from_one_seed(separate):
    spec = replace(separate, init_regime="random")
    encoder, again, other = (start_encoder(spec, seed).backbones for seed in (7, 7, 8))
    shared = start_encoder(replace(spec, towers="shared"), 7).backbones["shared"]
    assert same_weights(encoder["query"], shared)
    assert not same_weights(encoder["query"], encoder["document"])
    for side in SIDES:
        assert same_weights(encoder[side], again[side])
        assert not same_weights(encoder[side], other[side])
    assert encoder["query"].config.to_dict() == encoder["document"].config.to_dict()


def test_each_side_goes_through_its_own_tower_alone(separate, texts):
    encoder = start_encoder(separate, None)
    before = {side: encode(encoder, texts, side) for side in SIDES}
    with torch.no_grad():
        for weight in encoder.backbones["document"].parameters():
            weight.mul_(1.05)
    np.testing.assert_array_equal(encode(encoder, texts, "query"), before["query"])
    assert np.abs(encode(encoder, texts, "document") - before["document"]).max() > 1e-2


def test_a_side_gives_its_tower_all_of_its_gradient_and_the_other_none(separate, texts):
    encoder = start_encoder(separate, None)
    embed(encoder, texts, "query").square().sum().backward()
    assert all(weight.grad is None for weight in encoder.backbones["document"].parameters())
    embed(encoder, texts, "document").square().sum().backward()
    lost = [name for name, weight in encoder.named_parameters() if weight.requires_grad and weight.grad is None]
    assert lost == []


def test_sentence_transformers_routes_each_side_to_the_same_embeddings(separate, texts, tmp_path):
    encoder = two_towers(separate)
    model = SentenceTransformer(str(save(tmp_path, encoder)), device="cpu", trust_remote_code=False)
    assert [type(module).__name__ for module in model] == ["Router"]
    assert model.similarity_fn_name == "dot"
    expected = {side: encode(encoder, texts, side) for side in SIDES}
    np.testing.assert_allclose(model.encode_query(texts), expected["query"], rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(model.encode_document(texts), expected["document"], rtol=1e-5, atol=2e-5)
    # Texts longer than both lengths among them, so that each tower cuts at its own.
    assert len(encoder.tokenise(texts, "query")[-1]) < len(encoder.tokenise(texts, "document")[-1])


def test_the_files_are_those_that_the_router_itself_writes(separate, tmp_path):
    save(tmp_path / "ours", two_towers(separate))
    SentenceTransformer(str(tmp_path / "ours"), device="cpu").save(str(tmp_path / "theirs"))
    ours, theirs = (json.loads((tmp_path / name / "router_config.json").read_text()) for name in ("ours", "theirs"))
    assert ours["structure"] == theirs["structure"]
    assert ours["parameters"] == theirs["parameters"]
    assert {name: kind.rpartition(".")[2] for name, kind in ours["types"].items()} == {
        name: kind.rpartition(".")[2] for name, kind in theirs["types"].items()
    }
    for side in SIDES:
        name = f"{side}_0_Transformer/model.safetensors"
        mine, saved = load_file(tmp_path / "ours" / name), load_file(tmp_path / "theirs" / name)
        assert mine.keys() == saved.keys()
        assert all(torch.equal(mine[key], saved[key]) for key in mine)


def test_what_is_loaded_encodes_as_what_was_saved(separate, texts, tmp_path):
    encoder = two_towers(separate)
    loaded = load_checkpoint(save(tmp_path, encoder))
    assert loaded.encoder.spec == separate
    assert (loaded.similarity, loaded.scale) == (DOT, SCALE)
    assert read_record(tmp_path).scale.factor == pytest.approx(20 / 31.25)
    for side in SIDES:
        np.testing.assert_array_equal(encode(loaded.encoder, texts, side), encode(encoder, texts, side))


@pytest.mark.parametrize("side", SIDES)
def test_the_hash_covers_both_towers(tiny_bert, make_spec, side, tmp_path):
    encoder = start_encoder(make_spec(tiny_bert, towers="separate"), None)
    first = checkpoint_hash(save(tmp_path / "first", encoder))
    assert checkpoint_hash(save(tmp_path / "again", load_checkpoint(tmp_path / "first").encoder)) == first
    with torch.no_grad():
        encoder.backbones[side].embeddings.word_embeddings.weight[5, 5] += 1e-6
    assert checkpoint_hash(save(tmp_path / "changed", encoder)) != first


def test_the_hash_tells_the_towers_apart(tiny_bert, make_spec, tmp_path):
    encoder = two_towers(make_spec(tiny_bert, towers="separate"))
    first = checkpoint_hash(save(tmp_path / "first", encoder))
    query, document = (tmp_path / "first" / f"{side}_0_Transformer" for side in SIDES)
    query.rename(tmp_path / "moved")
    document.rename(query)
    (tmp_path / "moved").rename(document)
    assert checkpoint_hash(tmp_path / "first") != first


def test_only_safe_files_are_written_and_none_tells_a_path(separate, tmp_path, capfd):
    encoder = two_towers(separate)
    capfd.readouterr()
    save(tmp_path / "here", encoder)
    assert capfd.readouterr() == ("", "")
    files = [path for path in (tmp_path / "here").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".txt", ".jinja"}
    told = [path for path in files if path.suffix == ".json" and str(tmp_path) in path.read_text()]
    assert told == []


def test_training_may_go_on_from_two_towers_with_two_towers_only(separate, texts, tmp_path):
    encoder = two_towers(separate)
    weights = WeightsSpec(source=f"path:{save(tmp_path, encoder)}")
    again = start_encoder(replace(separate, weights=weights, layers=None), None)
    for side in SIDES:
        np.testing.assert_array_equal(encode(again, texts, side), encode(encoder, texts, side))
    with pytest.raises(InputError, match=r"a tower for queries and one for documents; write `towers: separate`"):
        start_encoder(replace(separate, weights=weights, layers=None, towers="shared"), None)


def test_two_towers_may_go_on_from_a_shared_one(tiny_bert, make_spec, texts, tmp_path):
    spec = make_spec(tiny_bert)
    shared = start_encoder(spec, None)
    weights = WeightsSpec(source=f"path:{save(tmp_path, shared)}")
    encoder = start_encoder(replace(spec, weights=weights, towers="separate"), None)
    for side in SIDES:
        np.testing.assert_array_equal(encode(encoder, texts, side), encode(shared, texts, side))


def test_the_content_hash_of_weights_covers_both_towers(tiny_bert, make_spec, tmp_path):
    encoder = two_towers(make_spec(tiny_bert, towers="separate"))
    found = {content_hash(WeightsSpec(source=f"path:{save(tmp_path / 'a', encoder)}"))}
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    assert {content_hash(WeightsSpec(source=f"path:{tmp_path / 'copy'}"))} == found
    for side in SIDES:
        with torch.no_grad():
            encoder.backbones[side].embeddings.word_embeddings.weight[5, 5] += 1e-6
        found.add(content_hash(WeightsSpec(source=f"path:{save(tmp_path / side, encoder)}")))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("router", "message"),
    [
        ("{", r"router_config\.json cannot be read"),
        ('{"structure": {"query": ["q"]}}', "does not route queries and documents"),
        ('{"structure": {"query": [], "document": []}, "types": {}}', "it has no Transformer module"),
        (
            '{"structure": {"query": ["q"], "document": ["d"]}, "types": {"q": "x.Bow", "d": "x.Transformer"}}',
            "it has a Bow module",
        ),
        (
            '{"structure": {"query": ["q"], "document": ["d"]}, "types": {"q": "x.Transformer", "d": "x.Transformer"}}',
            r"q holds no config\.json",
        ),
    ],
)
def test_a_router_of_something_else_is_refused(router, message, tiny_bert, make_spec, tmp_path):
    (tmp_path / "router_config.json").write_text(router)
    (tmp_path / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "x.Router"}]')
    spec = replace(make_spec(tiny_bert, towers="separate"), weights=WeightsSpec(source=f"path:{tmp_path}"))
    with pytest.raises(InputError, match=message):
        start_encoder(spec, None)
    with pytest.raises(InputError, match=message):
        content_hash(spec.weights)


def test_towers_with_two_tokenizers_are_refused(tiny_bert, make_spec, tmp_path):
    spec = make_spec(tiny_bert, towers="separate")
    save(tmp_path, start_encoder(spec, None))
    file = tmp_path / "document_0_Transformer" / "tokenizer.json"
    file.write_text(file.read_text().replace('"lowercase": true', '"lowercase": false'))
    with pytest.raises(InputError, match="have different tokenizers"):
        start_encoder(replace(spec, weights=WeightsSpec(source=f"path:{tmp_path}")), None)


def test_a_plan_knows_what_two_towers_are(tiny_bert, make_spec, tmp_path):
    spec = make_spec(tiny_bert, towers="separate", query_prompt="query: ", max_query_length=9)
    weights = WeightsSpec(source=f"path:{save(tmp_path, start_encoder(spec, None))}")
    assert limits(weights, "") == Limits(num_layers=4, num_positions=128, hidden_size=32, two_towers=True)
    assert not limits(spec.weights, "").two_towers
    found = found_settings(weights)
    assert (found.pooling, found.query_prompt, found.max_query_length, found.max_document_length) == (
        "mean",
        "query: ",
        9,
        64,
    )
