"""Models that come with code of their own: it runs where it is allowed, and nowhere else."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from weight_folders import local

from search_spaces.problems import InputError
from trainers.encoders.checkpoints import load_checkpoint, save_checkpoint
from trainers.init_regimes import start_encoder
from trainers.weights import content_hash, locate

pytestmark = pytest.mark.usefixtures("own_cache")


def own_code(folder, *, ran=None):
    """Make a BERT folder one that needs code of its own; it says so in a file where it runs."""
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    config.pop("architectures", None)
    (folder / "config.json").write_text(json.dumps(config))
    noted = f"open({str(ran)!r}, 'w').close()" if ran else ""
    (folder / "own.py").write_text(
        f"""
from transformers import BertConfig, BertModel
{noted}

class OwnConfig(BertConfig):
    model_type = "own"

class OwnModel(BertModel):
    config_class = OwnConfig
"""
    )


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """transformers copies code into a folder of its own before it imports it."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("sys.path", [*sys.path])


@pytest.mark.parametrize("regime", ["finetune", "random"])
def test_code_of_a_model_runs_where_it_is_allowed(bert_copy, tiny_bert, make_spec, tmp_path, own_modules, regime):
    own_code(bert_copy, ran=tmp_path / "ran")
    spec = replace(make_spec(bert_copy, pooling="mean", append_eos=False), init_regime=regime)
    with pytest.raises(InputError, match=r"which is not run \(write 'remote_code: true' beside its source"):
        start_encoder(spec, 0)
    assert not (tmp_path / "ran").exists()
    allowed = replace(spec, weights=replace(spec.weights, remote_code=True))
    encoder = start_encoder(allowed, 0)
    assert (tmp_path / "ran").exists()
    assert type(encoder.backbones["shared"]).__name__ == "OwnModel"
    known = start_encoder(replace(make_spec(tiny_bert, pooling="mean", append_eos=False), init_regime=regime), 0)
    ids = known.tokenise(["APT29 used scheduled tasks"], "query")
    with torch.inference_mode():
        assert torch.equal(encoder(*encoder.pad(ids), "query"), known(*known.pad(ids), "query"))


def test_a_checkpoint_of_a_model_with_code_is_read_back(bert_copy, make_spec, own_modules, tmp_path):
    own_code(bert_copy)
    spec = make_spec(bert_copy, pooling="mean", append_eos=False)
    spec = replace(spec, weights=replace(spec.weights, remote_code=True, content_hash="x"))
    encoder = start_encoder(spec, None)
    save_checkpoint(tmp_path / "saved", encoder, gammas=None, similarity=None, scale=None)
    again = load_checkpoint(tmp_path / "saved").encoder
    assert type(again.backbones["shared"]).__name__ == "OwnModel"
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in encoder.state_dict().items())


def test_code_belongs_to_what_identifies_a_model_where_it_runs(bert_copy):
    own_code(bert_copy)
    allowed = replace(local(bert_copy), remote_code=True)
    before = content_hash(allowed)
    (bert_copy / "own.py").write_text((bert_copy / "own.py").read_text() + "# changed\n")
    assert content_hash(allowed) != before


def test_code_beside_a_known_architecture_is_neither_run_nor_hashed(bert_copy, tiny_bert, make_spec, tmp_path):
    before = content_hash(local(bert_copy))
    (bert_copy / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    assert content_hash(local(bert_copy)) == before
    config = json.loads((bert_copy / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    (bert_copy / "config.json").write_text(json.dumps(config))
    start_encoder(make_spec(bert_copy, pooling="mean", append_eos=False), None)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            "org/other--own.OwnModel",
            "names code of another repository .org/other--own.OwnModel., whose revision nothing",
        ),
        ("nowhere.OwnModel", "names code .nowhere.OwnModel. that .* does not hold"),
    ],
)
def test_code_that_is_elsewhere_is_refused(bert_copy, named, message):
    own_code(bert_copy)
    config = json.loads((bert_copy / "config.json").read_text())
    config["auto_map"]["AutoModel"] = named
    (bert_copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        locate(replace(local(bert_copy), remote_code=True))


def test_remote_code_is_not_run(bert_copy, make_spec, tmp_path):
    """A config that names its own code, as a hub model would: neither is it run nor does anyone get asked."""
    config = json.loads((bert_copy / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Model"}}
    (bert_copy / "config.json").write_text(json.dumps(config))
    (bert_copy / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(InputError, match=r"it needs code of its own \(own.Model, own.Own\), which is not run"):
        start_encoder(make_spec(bert_copy, pooling="mean", append_eos=False), None)
    assert not (tmp_path / "ran").exists()
