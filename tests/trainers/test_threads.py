import ast
import subprocess
import sys

import pytest

from trainers.threads import set_threads

CHECK = """
set_threads(2)
import faiss, numpy, torch
assert torch.get_num_threads() == 2
faiss.omp_set_num_threads(2)
assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == (2, 2)
vectors = numpy.random.default_rng(0).standard_normal((3000, 64)).astype("float32")
index = faiss.IndexFlatIP(64)
index.add(vectors)
scores, _ = index.search(vectors[:50], 5)
expected = (torch.from_numpy(vectors[:50]) @ torch.from_numpy(vectors).T).topk(5).values.numpy()
assert numpy.allclose(scores, expected, rtol=1e-4)
print("same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import torch, faiss", "import faiss, torch", "", "import faiss"])
def test_the_oracle_of_search_tests_works_beside_torch_whichever_is_imported_first(first):
    code = f"{first}\nfrom trainers.threads import set_threads\n{CHECK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


@pytest.mark.slow
def test_a_trial_loads_one_openmp_runtime():
    code = """
import trainers.trial, trainers.search, trainers.evaluation.evaluate, torch
from pathlib import Path
torch.ones(300, 300) @ torch.ones(300, 300)
maps = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "omp" in line}
print(sorted({Path(name).name for name in maps if "libgomp" in name or "libomp" in name or "libiomp" in name}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(ast.literal_eval(done.stdout)) == 1, done.stdout


def test_less_than_one_thread_is_refused():
    with pytest.raises(ValueError, match="num_threads is 0"):
        set_threads(0)
