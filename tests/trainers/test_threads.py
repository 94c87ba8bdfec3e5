import subprocess
import sys

import pytest

from trainers.threads import set_threads

CHECK = """
set_threads(2)
import faiss, numpy, torch
found = (torch.get_num_threads(), faiss.omp_get_max_threads())
assert found == (2, 2), found
vectors = numpy.random.default_rng(0).standard_normal((3000, 64)).astype("float32")
index = faiss.IndexFlatIP(64)
index.add(vectors)
scores, _ = index.search(vectors[:50], 5)
expected = (torch.from_numpy(vectors[:50]) @ torch.from_numpy(vectors).T).topk(5).values.numpy()
assert numpy.allclose(scores, expected, rtol=1e-4)
print("same")
"""


@pytest.mark.parametrize("first", ["import torch, faiss", "import faiss, torch", "", "import faiss"])
def test_both_libraries_work_with_that_many_threads_whichever_is_imported_first(first):
    code = f"{first}\nfrom trainers.threads import set_threads\n{CHECK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


def test_less_than_one_thread_is_refused():
    with pytest.raises(ValueError, match="num_threads is 0"):
        set_threads(0)
