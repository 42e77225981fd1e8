"""Arguments that are wrong on one rank: every rank raises and is told why, nothing moves, nobody is left waiting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def read_only(count: int) -> Any:
    x = rt.zeros(count)
    x.flags.writeable = False
    return x


def overlapping(comm: rt.Communicator) -> Any:
    x = rt.zeros(9)
    return comm.all_reduce(x[:8], x[1:])


# What rank 1 does instead of all_reduce, and what everybody is told of it.
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a list": (lambda comm: comm.all_reduce([1, 2]), "x is a list; expected a NumPy array"),
    "nothing": (lambda comm: comm.all_reduce(None), "x is a NoneType; expected a NumPy array"),
    "dtype": (lambda comm: comm.all_reduce(rt.zeros(8, np.complex64)), "dtype complex64; expected one of int8, int16"),
    "byte order": (lambda comm: comm.all_reduce(np.zeros(8, ">f4")), "dtype >f4; expected one of"),
    "op": (lambda comm: comm.all_reduce(rt.zeros(8), op="xor"), "op 'xor'; expected one of sum, prod, max, min, avg"),
    "op number": (lambda comm: comm.all_reduce(rt.zeros(8), op=17), "op 17; expected one of sum"),
    "root": (lambda comm: comm.broadcast(rt.zeros(8), root=2), "root=2; expected a rank, 0 to 1"),
    "negative root": (lambda comm: comm.broadcast(rt.zeros(8), root=-1), "root=-1; expected a rank, 0 to 1"),
    "root of a kind": (lambda comm: comm.broadcast(rt.zeros(8), root="0"), "root is a str; expected a rank, 0 to 1"),
    "out's dtype": (
        lambda comm: comm.all_reduce(rt.zeros(8), rt.zeros(8, np.int32)),
        "out has dtype=int32 and x has dtype=float32; expected the same",
    ),
    "out's size": (
        lambda comm: comm.all_gather(rt.zeros(8), rt.zeros(8)),
        "out has the shape (8,); expected (2, 8), or another shape of as many elements",
    ),
    "indivisible": (
        lambda comm: comm.reduce_scatter(rt.zeros((3, 2))),
        "x has the shape (3, 2); expected a first dimension that is a multiple of 2 ranks",
    ),
    "no dimension": (lambda comm: comm.reduce_scatter(rt.zeros(())), "x has the shape (); expected a first dimension"),
    "read-only": (lambda comm: comm.all_reduce(read_only(8)), "out (or x, in place) is read-only"),
    "overlap": (overlapping, "x and out overlap; expected separate memory, or in place: OUT is IN"),
    "a slice of another rank": (
        lambda comm: (lambda out: comm.all_gather(out[:4], out))(rt.zeros(8)),
        "x and out overlap; expected separate memory, or in place",
    ),
    "into a slice of another rank": (
        lambda comm: (lambda x: comm.reduce_scatter(x, x[:4]))(rt.zeros(8)),
        "x and out overlap; expected separate memory, or in place",
    ),
    "no room": (lambda comm: comm.all_gather(np.broadcast_to(np.int8(1), 1 << 41)), "Unable to allocate 4.00 TiB"),
    "overlap where none is allowed": (
        lambda comm: (lambda x: comm.all_to_all(x, x))(rt.zeros(8)),
        "x and out overlap; expected separate memory: there is no in-place form",
    ),
    "nothing to scatter": (lambda comm: comm.scatter(None, rt.zeros(8), root=1), "x is a NoneType; expected a NumPy"),
    "nothing to receive into": (lambda comm: comm.scatter(None, root=0), "out is a NoneType; expected a NumPy array"),
    "a gather's out": (
        lambda comm: comm.gather(rt.zeros(8), rt.zeros(8), root=1),
        "out has the shape (8,); expected (2, 8), or another shape of as many elements",
    ),
    "stream": (lambda comm: comm.all_reduce(rt.zeros(8), stream=1), "stream is a int; expected an rt.Stream or None"),
}


UNSUPPORTED = ("dtype", "byte order", "op", "op number")


def refuse(comm: rt.Communicator, kind: str) -> tuple[str, Any, tuple[int, ...], bool, list[float]]:
    kept = rt.array(np.arange(8.0) + comm.rank)
    text, name, at_fault = "no error", None, ()
    try:
        WRONG[kind][0](comm) if comm.rank == 1 else comm.all_reduce(kept)
    except rt.HcclError as error:
        text, name, at_fault = str(error), error.name, error.ranks
    untouched = bool((kept == np.arange(8.0) + comm.rank).all())
    return text, name, at_fault, untouched, comm.all_reduce(kept).tolist()


@pytest.mark.parametrize("kind", WRONG)
def test_everybody_is_told(ranks: RankPool, kind: str) -> None:
    for text, name, at_fault, untouched, after in ranks.run(2, refuse, kind, environ={"ASCEND_RT_SLEEP_MS": "5"}):
        lines = text.splitlines()
        code = "HCCL_E_MEMORY" if kind == "no room" else "HCCL_E_NOT_SUPPORT" if kind in UNSUPPORTED else "HCCL_E_PARA"
        assert name == code and "EI0003" in lines[0]
        assert "#1" in lines[0] and "refused on rank 1; nothing was moved" in lines[0]
        assert lines[1].startswith("  rank 0 (test_refusals.py:") and "all_reduce count=8 dtype=float64" in lines[1]
        assert lines[2].startswith("  rank 1 (test_refusals.py:") and WRONG[kind][1] in lines[2]
        assert at_fault == (1,)
        assert untouched
        assert after == [2 * i + 1 for i in range(8)]


def refuse_alone(comm: rt.Communicator) -> str:
    with pytest.raises(rt.HcclError) as error:
        comm.broadcast(rt.zeros(8), root=1)
    return str(error.value)


def test_a_world_of_one_is_told_too(ranks: RankPool) -> None:
    [text] = ranks.run(1, refuse_alone)
    assert "root=1; expected a rank, 0 to 0" in text


def wrong_keyword(comm: rt.Communicator) -> list[str]:
    texts = []
    for call in (lambda: comm.all_reduce(rt.zeros(2), x=1), lambda: comm.all_reduce(), lambda: comm.broadcast(1, to=2)):
        with pytest.raises(TypeError) as error:
            call()
        texts.append(str(error.value))
    return texts


def test_signatures_are_pythons_own_business(ranks: RankPool) -> None:
    [texts] = ranks.run(1, wrong_keyword)
    assert len(texts) == 3


FULL = """
import numpy as np
import ascend_rt as rt
from ascend_rt import hccl
comm, held = rt.init(), []
if comm.rank == 1:
    for nbytes in (1 << 20, 1 << 12):
        try:
            while True:
                held.append(rt.empty(nbytes, np.uint8))
        except MemoryError:
            pass
x, others = np.arange(1000.0), range(comm.size)
calls = {
    "all_reduce": lambda: comm.all_reduce(x),
    "all_gather_v": lambda: comm.all_gather_v(x, np.zeros(2000), [1000, 1000]),
    "batch_send_recv": lambda: comm.batch_send_recv([hccl.Send(x, 1 - comm.rank), hccl.Recv(x + 0, 1 - comm.rank)]),
}
for name, call in calls.items():
    try:
        call()
    except rt.HcclError as error:
        print(name, error.name, error.ranks, error.ei)
held.clear()
print(comm.all_reduce(x)[3])
"""


def test_a_rank_whose_memory_is_full_refuses_with_that_code(ranks: RankPool, tmp_path: Path) -> None:
    """What staging needs is not there on rank 1; both are told, and go on when it has room."""
    program = tmp_path / "full.py"
    program.write_text(FULL)
    ended = ranks.hccl_run(["-n", "2", "--hbm", "8M", str(program)])
    for rank in range(2):
        told = [line.partition(" ")[2] for line in ended.stdout.splitlines() if line.startswith(f"[{rank}]")]
        calls = ("all_reduce", "all_gather_v", "batch_send_recv")
        assert told == [*(f"{call} HCCL_E_MEMORY (1,) EI0003" for call in calls), "6.0"], ended
