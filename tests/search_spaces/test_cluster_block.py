"""The block `cluster`: a file's keys go before a profile's, key by key, and none is part of any identity."""

from pathlib import Path

import pytest

from search_spaces.cluster_block import ClusterBlock, is_secret, over
from search_spaces.expand import expand
from search_spaces.load import load_profile, parse_sweep
from tests.kubernetes.sweeps_on_clusters import SWEEP


def parsed(text):
    return parse_sweep(text, where="small.yaml", folder=Path())


def block(text):
    return parsed(f"{SWEEP}\ncluster:\n{text}").cluster


def test_without_the_block_there_is_none():
    assert parsed(SWEEP).cluster is None


def test_where_a_sweep_runs_is_part_of_no_identity():
    here = expand(parsed(SWEEP), where="here")
    there = expand(parsed(SWEEP + "cluster: {image: a, workers: {cpu: {cpus: 1, memory: 8GiB}}}"), where="there")
    assert here == there  # of which identities are made


def test_a_file_goes_before_its_profile_key_by_key():
    profile = block("""
  namespace: theirs
  image: theirs
  storage: {root: s3://theirs, region: eu}
  workers:
    cpu: {cpus: 8, memory: 32GiB, max: 2}
    gpu: {cpus: 8, memory: 64GiB, gpus: 1, max: 4}
  secrets: [a, b]
  env: {A: theirs, B: theirs}
""")
    file = block("""
  image: ours
  storage: {root: s3://ours}
  workers:
    gpu: {max: 16}
    big: {cpus: 64, memory: 256GiB}
  secrets: [c]
  env: {B: ours}
""")
    joined = over(file, profile)
    assert (joined.namespace, joined.image, joined.secrets) == ("theirs", "ours", ("c",))
    assert (joined.storage.root, joined.storage.region) == ("s3://ours", "eu")
    assert joined.env == {"A": "theirs", "B": "ours"}
    assert list(joined.workers) == ["cpu", "gpu", "big"]
    assert (joined.workers["gpu"].max, joined.workers["gpu"].gpus) == (16, 1)
    assert joined.workers["cpu"] == profile.workers["cpu"]


def test_a_key_that_is_given_its_default_still_goes_before():
    assert over(block("  namespace: densesweep"), block("  namespace: theirs")).namespace == "densesweep"
    assert over(block("  autoscaling: null"), block("  autoscaling: {idle_s: 5}")).autoscaling is None
    assert over(block("  autoscaling: {}"), block("  autoscaling: {idle_s: 5}")).autoscaling.idle_s == 5
    assert over(block("  image: a"), ClusterBlock()) == ClusterBlock(image="a")


def test_a_profile_is_the_block_in_a_file_of_its_own(tmp_path):
    (tmp_path / "mine.yaml").write_text("image: a\nhead: {memory: 4GiB}\n")
    assert load_profile(tmp_path / "mine.yaml") == block("  image: a\n  head: {memory: 4GiB}")


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PGPASSWORD", "SOME_API_KEY", "my_credential"])
def test_what_looks_like_a_secret(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["GOOGLE_APPLICATION_CREDENTIALS", "HF_HOME", "RAY_AUTH_TOKEN_PATH", "OMP_NUM_THREADS"]
)
def test_what_says_where_one_lies_is_none(name):
    assert not is_secret(name)
