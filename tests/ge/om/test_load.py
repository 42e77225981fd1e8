"""An .om is loaded by a job and runs, with nothing left to plan."""

import operator
import re
from pathlib import Path

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def build(rank: int, size: int) -> ge.Graph:
    """out: the sum over all ranks of x + w; part: that of the ranks that are even or odd as this one."""
    b = ge.Builder(rank, {"world": range(size), "even": range(0, size, 2), "odd": range(1, size, 2)})
    x, out, part = b.input("x", (50,)), b.output("out", (50,)), b.output("part", (50,))
    h, w = b.empty("h", (50,)), b.constant("w", np.arange(50, dtype=np.float32))
    b.copy(h, x)
    b.kernel(operator.iadd, h, w, reads=[h, w], writes=[h])
    b.wait(1, on=0)
    b.all_reduce("world", h, out)
    b.all_reduce("odd" if rank % 2 else "even", h, part, stream=1)
    b.wait(0, on=1)
    return b.graph("step")


def loaded(comm: rt.Communicator, path: str) -> tuple[list[list[float]], dict[str, int], str, str]:
    graph = ge.load(path, comm)
    stream = rt.Stream()
    results = []
    for round_ in range(2):
        graph.array("x")[:] = comm.rank + 10 * round_
        graph.launch(stream)
        stream.synchronize()
        results.append([graph.array(name)[7].item() for name in ("out", "part")])
    sizes = {name: communicator.size for name, communicator in graph.communicators.items()}
    with pytest.raises(ge.ModelFileError) as refused:
        ge.load(Path(path).with_suffix(".of_two"), comm)
    with pytest.raises(ge.ModelFileError) as differs:
        ge.load(Path(path).with_suffix(".other" if comm.rank == 1 else ".om"), comm)
    return results, sizes, str(refused.value), str(differs.value)


def test_ranks_load_one_file_and_run(ranks: RankPool, tmp_path: Path) -> None:
    for size, suffix in ((3, "om"), (2, "of_two")):
        graphs = {rank: build(rank, size) for rank in range(size)}
        (tmp_path / f"step.{suffix}").write_bytes(ge.compile_model("step", graphs).to_bytes())
    other = ge.compile_model("step", {rank: build(rank, 3) for rank in range(3)}, ge.MemoryOptions(reuse=False))
    (tmp_path / "step.other").write_bytes(other.to_bytes())
    for rank, (results, sizes, refused, differs) in enumerate(ranks.run(3, loaded, str(tmp_path / "step.om"))):
        part = [1] if rank % 2 else [0, 2]
        assert results == [[sum(r + 10 * i + 7 for r in of) for of in (range(3), part)] for i in range(2)]
        assert sizes == ({"world": 3, "odd": 1} if rank % 2 else {"world": 3, "even": 2})
        assert "the .om is for 2 ranks; communicator 'world" in refused
        assert re.search(r"rank 1 has loaded 'step' \(\w{16}\), and rank 0 'step' \(\w{16}\): give them all", differs)
