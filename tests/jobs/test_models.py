"""Models that hccl-atc compiles, in programs of pyACL that know nothing of ascend_rt."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.processes

HCCL_ATC = str(Path(sys.executable).with_name("hccl-atc"))
INFER = Path(__file__).with_name("programs") / "infer.py"
NETWORK = """
    import numpy as np

    from ascend_rt import ge


    def dense(x, weight, out):
        np.maximum(x @ weight, 0, out=out)


    def largest(scores, out):
        out[:] = scores.argmax(axis=1)


    def build(rank, size):
        '''Two dense layers of which each rank has a part of the inner width, and the class with the largest score.'''
        b = ge.Builder(rank, {"world": range(size)} if size > 1 else {})
        inner = 8 // size
        own = slice(rank * inner, (rank + 1) * inner)
        first, second = (np.load(f"weight{number}.npy") for number in range(2))
        x = b.input("images", (3, 5))
        w0, w1 = b.constant("w0", first[:, own].copy()), b.constant("w1", second[own].copy())
        hidden, part = b.empty("hidden", (3, inner)), b.empty("part", (3, 4))
        scores, labels = b.output("scores", (3, 4)), b.output("labels", (3,), "int32")
        b.kernel(dense, x, w0, hidden, reads=[x, w0], writes=[hidden])
        b.kernel(np.matmul, hidden, w1, part, reads=[hidden, w1], writes=[part])
        if size > 1:
            b.all_reduce("world", part, scores)
        else:
            b.copy(scores, part)
        b.kernel(largest, scores, labels, reads=[scores], writes=[labels])
        return b.graph("network")
"""


def compiled(folder: Path, ranks: int) -> Path:
    words = [HCCL_ATC, "network.py:build", "--ranks", str(ranks), "--output", f"of{ranks}"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.splitlines()[-1] == "ATC run success, welcome to the next use."
    return folder / f"of{ranks}.om"


def test_an_inference_program_of_pyacl_runs_as_it_is(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    """On one rank by itself, and on two whose partial sums an all-reduce of the graph adds."""
    random = np.random.default_rng(41)
    weights = [random.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 8), (8, 4))]
    batches = [random.integers(-4, 5, (3, 5)).astype(np.float32) for _ in range(3)]
    for name, arrays in (("weight", weights), ("batch", batches)):
        for number, array in enumerate(arrays):
            np.save(tmp_path / f"{name}{number}.npy", array)
    script(NETWORK, "network.py")
    files = [f"batch{number}.npy" for number in range(3)]

    def expected(added: tuple[int, ...]) -> list[Any]:
        """added: by rank, to its batch; each rank has its part of the weights."""
        parts = zip(added, np.split(weights[0], len(added), 1), np.split(weights[1], len(added)), strict=True)
        of_ranks = list(parts)
        scores = [sum(np.maximum((x + add) @ w0, 0) @ w1 for add, w0, w1 in of_ranks) for x in batches]
        return [[each.tolist(), each.argmax(axis=1).tolist()] for each in scores]

    alone = script(INFER.read_text().replace("import acl\n", "from ascend_rt import acl, ge\n"), "alone.py")
    words = [sys.executable, alone, compiled(tmp_path, 1), *files]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout) == expected((0,)), done

    outcome = hccl_run("--no-prefix", "--acl", INFER, compiled(tmp_path, 2), *files, n=2, cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    assert [json.loads(line) for line in outcome.lines] == [expected((0, 1))] * 2
