"""Weights from the local cache of the Hugging Face hub: whole, interrupted, pickled, or not there."""

import os
import pickle
import shutil
import subprocess
import sys

import pytest
from weight_folders import cut

pytestmark = pytest.mark.usefixtures("own_cache")
REVISION = "0123456789abcdef0123456789abcdef01234567"


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
