"""Calls that are plainly right do not go through Python, and what is not plainly right is told apart there."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.hccl import communicator, transfers
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]
COUNT = 3


def ramp(rank: int, blocks: int) -> Array:
    """(blocks, COUNT), with another value in every place and on every rank."""
    return 100.0 * (rank + 1) + np.arange(blocks * COUNT, dtype=np.float64).reshape(blocks, COUNT)


def device(values: Array) -> Array:
    return rt.array(values)


def plain(values: Array) -> Array:
    return values.copy()


def calls(comm: rt.Communicator, make: Callable[[Array], Array], root: int, stream: Any) -> dict[str, tuple[Any, Any]]:
    """What each call has given, and what it should."""
    rank, size = comm.rank, comm.size
    one, all_of_one = ramp(rank, 1), [ramp(each, 1) for each in range(size)]
    many, all_of_many = ramp(rank, size), [ramp(each, size) for each in range(size)]
    own = slice(rank, rank + 1)
    on_root = rank == root
    x, into, gathered, inner = make(one), make(np.zeros_like(one)), make(many), make(many)
    gathered[own] = one
    apart = make(np.zeros_like(many))
    results = {
        "all_reduce": (comm.all_reduce(x, into, "max", stream), np.max(all_of_one, axis=0)),
        "reduce": (comm.reduce(x, make(np.zeros_like(one)), "sum", root, stream), sum(all_of_one) if on_root else None),
        "reduce in place": (comm.reduce(make(one), None, "min", root, stream), all_of_one[0] if on_root else None),
        "all_gather": (comm.all_gather(x, make(np.zeros_like(many)), stream), np.concatenate(all_of_one)),
        "all_gather in place": (comm.all_gather(gathered[own], gathered, stream), np.concatenate(all_of_one)),
        "reduce_scatter": (comm.reduce_scatter(make(many), into * 0, "sum", stream), sum(all_of_many)[own]),
        "reduce_scatter in place": (comm.reduce_scatter(inner, inner[own], "sum", stream), sum(all_of_many)[own]),
        "all_to_all": (comm.all_to_all(make(many), apart, stream), np.concatenate([each[own] for each in all_of_many])),
        "scatter": (
            comm.scatter(make(many) if on_root else None, make(np.zeros_like(one)), root, stream),
            all_of_many[root][own],
        ),
        "gather": (
            comm.gather(x, make(np.zeros_like(many)) if on_root else None, root, stream),
            np.concatenate(all_of_one) if on_root else None,
        ),
    }
    if stream is not None:
        stream.synchronize()
    return results


def wrong_results(comm: rt.Communicator, is_device: bool, queued: bool) -> list[str]:
    make = device if is_device else plain
    stream = rt.Stream() if queued else None
    for root in range(comm.size):
        calls(comm, make, root, stream)  # the first of a kind chooses how, in Python
    wrong = []
    with mock.patch.object(communicator, "check", side_effect=AssertionError("a plain call was looked at in Python")):
        for root in range(comm.size):
            for name, (given, expected) in calls(comm, make, root, stream).items():
                same = given is None if expected is None else np.array_equal(given, expected)
                if not same:
                    wrong.append(f"{name} root={root}: {given}; expected {expected}")
    return wrong


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("is_device", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_plain_call_is_looked_at_in_python(ranks: RankPool, size: int, is_device: bool, queued: bool) -> None:
    assert ranks.run(size, wrong_results, is_device, queued) == [[]] * size


def wrong_messages(comm: rt.Communicator, is_device: bool, queued: bool) -> list[str]:
    """Each rank passes its values on to the next."""
    make = device if is_device else plain
    there, back = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sends, receives = (rt.Stream(), rt.Stream()) if queued else (None, None)

    def pass_on() -> Array:
        into = make(np.zeros((1, COUNT)))
        if queued or comm.rank % 2 == 0:
            comm.send(make(ramp(comm.rank, 1)), there, sends)
        comm.recv(into, back, receives)
        if not queued and comm.rank % 2:
            comm.send(make(ramp(comm.rank, 1)), there)
        for stream in (sends, receives):
            if stream is not None:
                stream.synchronize()
        return into

    pass_on()  # the first message to a rank has its staging made, in Python
    with mock.patch.object(transfers, "check_items", side_effect=AssertionError("a message was looked at in Python")):
        given = pass_on()
    expected = ramp(back, 1)
    return [] if np.array_equal(given, expected) else [f"{given}; expected {expected}"]


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("is_device", [False, True])
def test_no_plain_message_is_looked_at_in_python(ranks: RankPool, is_device: bool, queued: bool) -> None:
    assert ranks.run(2, wrong_messages, is_device, queued) == [[]] * 2


def slid(x: Array, places: int) -> tuple[Array, Array]:
    return x[:-places], x[places:]


ODD: dict[str, Callable[[rt.Communicator], Any]] = {
    "overlapping": lambda comm: comm.all_reduce(*slid(rt.zeros(9), 1)),
    "a slice of another rank": lambda comm: (lambda out: comm.all_gather(out[1 - comm.rank], out))(rt.zeros((2, 4))),
    "into a slice of another rank": lambda comm: (lambda x: comm.reduce_scatter(x, x[1 - comm.rank]))(rt.zeros((2, 4))),
    "in place where there is none": lambda comm: (lambda x: comm.all_to_all(x, x))(rt.zeros(8)),
    "indivisible": lambda comm: comm.reduce_scatter(rt.zeros((1, 8)), rt.zeros(4)),
    "no dimension": lambda comm: comm.all_to_all(rt.zeros(()), rt.zeros(())),
    "half elements": lambda comm: comm.reduce_scatter(rt.zeros(3, np.float16), rt.zeros(3, np.float16)[:1]),
    "out's dtype": lambda comm: comm.all_gather(rt.zeros(4), rt.zeros(8, np.int32)),
    "out's size": lambda comm: comm.all_gather(rt.zeros(4), rt.zeros(12)),
    "a root that is not there": lambda comm: comm.reduce(rt.zeros(4), root=2),
    "a root of a kind": lambda comm: comm.gather(rt.zeros(4), rt.zeros(8), root="0"),  # type: ignore[arg-type]
    "op": lambda comm: comm.reduce_scatter(rt.zeros(8), rt.zeros(4), op="xor"),
    "stream": lambda comm: comm.all_gather(rt.zeros(4), rt.zeros(8), stream=1),  # type: ignore[arg-type]
}


def told_before_and_after(comm: rt.Communicator) -> dict[str, list[str]]:
    """What is said of each odd call, before any kind of call is known and when all are."""
    told: dict[str, list[str]] = {name: [] for name in ODD}
    for known in (False, True):
        if known:
            for root in (0, 1):
                calls(comm, device, root, None)
            for dtype in (np.float16, np.int32, np.float32):
                comm.all_reduce(rt.zeros(8, dtype))
        for name, odd in ODD.items():
            try:
                odd(comm)
                told[name].append("no error")
            except rt.HcclError as error:
                told[name].append(str(error).splitlines()[comm.rank + 1].partition("; expected")[0])
    return told


def test_what_is_wrong_is_told_whether_its_kind_is_known_or_not(ranks: RankPool) -> None:
    for told in ranks.run(2, told_before_and_after):
        for name, (before, after) in told.items():
            assert before == after and "error" not in before, name
