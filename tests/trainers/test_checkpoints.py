import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from search_spaces.problems import InputError
from search_spaces.specs import ScaleSpec, SimilaritySpec
from trainers.encoders.checkpoints import RECORD, checkpoint_hash, load_checkpoint, read_record, save_checkpoint
from trainers.init_regimes import start_encoder
from trainers.similarity import Gammas

LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)
COSINE = SimilaritySpec(name="cosine", gamma_q=1.0, gamma_d=1.0, trained=False)
SCALE = ScaleSpec(mode="fixed", value=20.0)


def embed(encoder, texts, side):
    with torch.inference_mode():
        return encoder(*encoder.pad(encoder.tokenise(texts, side)), side).numpy()


def save(folder, encoder, similarity=COSINE):
    save_checkpoint(folder, encoder, gammas=Gammas.from_spec(similarity), similarity=similarity, scale=SCALE)
    return folder


def trained_a_little(encoder):
    """Weights that no source holds."""
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(1.01)
    return encoder


def test_sentence_transformers_encodes_to_the_same_embeddings(any_spec, texts, tmp_path):
    encoder = trained_a_little(start_encoder(any_spec, None))
    save(tmp_path, encoder)
    model = SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=False)
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    for side, encode in (("query", model.encode_query), ("document", model.encode_document)):
        np.testing.assert_allclose(encode(texts), embed(encoder, texts, side), rtol=1e-5, atol=1e-5)
    assert np.linalg.norm(model.encode(texts), axis=1).min() > 1.5  # raw


def test_what_is_loaded_encodes_as_what_was_saved(any_spec, texts, tmp_path):
    encoder = trained_a_little(start_encoder(any_spec, None))
    loaded = load_checkpoint(save(tmp_path, encoder))
    assert loaded.encoder.spec == any_spec
    assert (loaded.similarity, loaded.scale) == (COSINE, SCALE)
    assert not loaded.encoder.training
    for side in ("query", "document"):
        assert loaded.encoder.tokenise(texts, side) == encoder.tokenise(texts, side)
        assert np.array_equal(embed(loaded.encoder, texts, side), embed(encoder, texts, side))


def test_the_record_has_the_gammas_of_the_end_of_training(minilm, tmp_path):
    gammas = Gammas.from_spec(LEARNABLE)
    with torch.no_grad():
        gammas.logits.copy_(torch.tensor([2.0, -1.0]))
    encoder = start_encoder(minilm, None)
    save_checkpoint(tmp_path, encoder, gammas=gammas, similarity=LEARNABLE, scale=SCALE)
    found = read_record(tmp_path).similarity
    assert (found.gamma_q, found.gamma_d) == pytest.approx((0.8807971, 0.2689414))
    assert found == replace(LEARNABLE, gamma_q=found.gamma_q, gamma_d=found.gamma_d)


def test_an_untrained_checkpoint_has_no_similarity(minilm, tmp_path):
    save_checkpoint(tmp_path, start_encoder(minilm, None), gammas=None, similarity=None, scale=None)
    record = read_record(tmp_path)
    assert (record.similarity, record.scale) == (None, None)


@pytest.mark.parametrize(("name", "gamma", "expected"), [("cosine", 1.0, "cosine"), ("dot", 0.0, "dot")])
def test_sentence_transformers_scores_with_the_similarity_of_the_checkpoint(minilm, tmp_path, name, gamma, expected):
    spec = SimilaritySpec(name=name, gamma_q=gamma, gamma_d=gamma, trained=False)
    save(tmp_path, start_encoder(minilm, None), spec)
    assert SentenceTransformer(str(tmp_path), device="cpu").similarity_fn_name == expected


def test_only_safetensors_json_and_text_are_written(any_spec, tmp_path):
    save(tmp_path, start_encoder(any_spec, None))
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert suffixes <= {".safetensors", ".json", ".txt", ".jinja"}
    assert (tmp_path / "model.safetensors").is_file()


def test_the_hash_is_that_of_the_content(any_spec, texts, tmp_path):
    encoder = start_encoder(any_spec, None)
    first = checkpoint_hash(save(tmp_path / "first", encoder))
    encoder.tokenise(texts, "query")  # leaves its truncation in the tokenizer
    assert checkpoint_hash(save(tmp_path / "second", encoder)) == first
    assert checkpoint_hash(save(tmp_path / "loaded", load_checkpoint(tmp_path / "first").encoder)) == first
    moved = replace(any_spec, weights=replace(any_spec.weights, source="path:/somewhere/else"))
    encoder.spec = moved
    assert checkpoint_hash(save(tmp_path / "moved", encoder)) == first


def test_the_hash_changes_with_weights_prompts_and_similarity(minilm, tmp_path):
    encoder = start_encoder(minilm, None)
    dot = SimilaritySpec(name="dot", gamma_q=0.0, gamma_d=0.0, trained=False)
    hashes = [checkpoint_hash(save(tmp_path / "0", encoder)), checkpoint_hash(save(tmp_path / "1", encoder, dot))]
    encoder.spec = replace(minilm, query_prompt="query: ")
    hashes.append(checkpoint_hash(save(tmp_path / "2", encoder)))
    encoder.spec = minilm
    with torch.no_grad():
        encoder.backbones["shared"].embeddings.word_embeddings.weight[5, 5] += 1e-6
    hashes.append(checkpoint_hash(save(tmp_path / "3", encoder)))
    assert len(set(hashes)) == 4


def test_a_checkpoint_tells_no_path(minilm, tmp_path):
    """Moved or copied, it is the same checkpoint; and it can be given away."""
    save(tmp_path / "here", start_encoder(minilm, None))
    for path in (tmp_path / "here").rglob("*.json"):
        assert str(tmp_path) not in path.read_text()
        assert "site-packages" not in path.read_text()
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert checkpoint_hash(tmp_path / "there") == checkpoint_hash(tmp_path / "here")


def test_a_folder_without_record_is_refused(tmp_path):
    with pytest.raises(InputError, match=rf"{RECORD}: there is no such file"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"format_version": 1}'])
def test_a_broken_record_is_refused(text, tmp_path):
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(InputError, match="not a checkpoint's record"):
        load_checkpoint(tmp_path)


def test_another_versions_record_is_refused(minilm, tmp_path):
    save(tmp_path, start_encoder(minilm, None))
    record = json.loads((tmp_path / RECORD).read_text())
    (tmp_path / RECORD).write_text(json.dumps({**record, "format_version": 99}))
    with pytest.raises(InputError, match="format version 99, where 1 is read"):
        load_checkpoint(tmp_path)


_OWN_CODE = """
from transformers import BertConfig, BertModel

class OwnConfig(BertConfig):
    model_type = "own"

class OwnModel(BertModel):
    config_class = OwnConfig
    def forward(self, *args, **kwargs):
        found = super().forward(*args, **kwargs)
        found.last_hidden_state = found.last_hidden_state * 2
        return found
"""


@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_a_model_with_code_of_its_own_comes_back_where_that_is_allowed(
    towers, tiny_bert, make_spec, texts, tmp_path, monkeypatch
):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    shutil.copytree(tiny_bert, tmp_path / "own")
    config = json.loads((tiny_bert / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (tmp_path / "own" / "config.json").write_text(json.dumps(config))
    (tmp_path / "own" / "own.py").write_text(_OWN_CODE)
    spec = make_spec(tmp_path / "own", towers=towers)
    encoder = start_encoder(replace(spec, weights=replace(spec.weights, remote_code=True)), None)
    plain = start_encoder(make_spec(tiny_bert), None)
    save(tmp_path / "saved", encoder)
    assert not [path for path in (tmp_path / "saved").rglob("config.json") if str(tmp_path) in path.read_text()]
    loaded = load_checkpoint(tmp_path / "saved").encoder
    for side in ("query", "document"):
        assert np.array_equal(embed(loaded, texts, side), embed(encoder, texts, side))
        assert np.array_equal(embed(loaded, texts, side), 2 * embed(plain, texts, side))
    record = json.loads((tmp_path / "saved" / RECORD).read_text())
    record["encoder"]["weights"]["remote_code"] = False
    (tmp_path / "saved" / RECORD).write_text(json.dumps(record))
    with pytest.raises(InputError):
        load_checkpoint(tmp_path / "saved")
