"""What every rank of one side of collectives.py runs: times all calls at all sizes; rank 0 prints them as JSON.

    hccl-run -n 2 --no-prefix benchmarks/collectives_rank.py ours 64 4096       (collectives.py starts it)

Where the root alone has to wait for the others, or they for the root, a barrier follows each call on both sides:
without it a loop shows how far ranks may run ahead, not what a call takes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import allreduce_rank
import numpy as np

BATCHES = 5
BATCH_US, LEAST_CALLS, MOST_CALLS = 20_000.0, 5, 2_000
ROOT = 0

Array = np.ndarray[Any, np.dtype[np.float32]]
Calls = dict[str, Callable[[], Any]]


class Side(Protocol):
    """A library; `calls` are on blocks of `count` elements."""

    rank: int
    size: int

    def barrier(self) -> None: ...
    def calls(self, count: int) -> Calls: ...
    def close(self) -> None: ...


def ramps(rank: int, count: int, size: int, make: Callable[[Array], Array]) -> tuple[Array, Array, Array, Array]:
    """One block and one for each rank to give, and the same to be filled."""
    one, many = np.arange(count, dtype=np.float32) + rank, np.arange(count * size, dtype=np.float32) + rank
    return make(one), make(many), make(one), make(many)


class Ours(allreduce_rank.Ours):
    """ascend_rt, on device memory."""

    def calls(self, count: int) -> Calls:
        comm, on_root = self.comm, self.rank == ROOT
        x, many, out, out_many = ramps(self.rank, count, self.size, self.rt.array)

        def there_and_back() -> None:
            if self.rank == 0:
                comm.send(x, 1)
                comm.recv(out, 1)
            elif self.rank == 1:
                comm.recv(out, 0)
                comm.send(x, 0)

        return {
            "broadcast": lambda: comm.broadcast(x, ROOT),
            "reduce": lambda: comm.reduce(x, out, "sum", ROOT),
            "gather": lambda: comm.gather(x, out_many if on_root else None, ROOT),
            "scatter": lambda: comm.scatter(many if on_root else None, out, ROOT),
            "all_gather": lambda: comm.all_gather(x, out_many),
            "reduce_scatter": lambda: comm.reduce_scatter(many, out),
            "all_to_all": lambda: comm.all_to_all(many, out_many),
            "there and back": there_and_back,
        }


class Mpi4py(allreduce_rank.Mpi4py):
    """mpi4py over whatever MPI it finds, on NumPy arrays."""

    def calls(self, count: int) -> Calls:
        comm, on_root = self.comm, self.rank == ROOT
        x, many, out, out_many = ramps(self.rank, count, self.size, np.copy)

        def there_and_back() -> None:
            if self.rank == 0:
                comm.Send(x, 1)
                comm.Recv(out, 1)
            elif self.rank == 1:
                comm.Recv(out, 0)
                comm.Send(x, 0)

        return {
            "broadcast": lambda: comm.Bcast(x, ROOT),
            "reduce": lambda: comm.Reduce(x, out, self.mpi.SUM, ROOT),
            "gather": lambda: comm.Gather(x, out_many if on_root else None, ROOT),
            "scatter": lambda: comm.Scatter(many if on_root else None, out, ROOT),
            "all_gather": lambda: comm.Allgather(x, out_many),
            "reduce_scatter": lambda: comm.Reduce_scatter_block(many, out),
            "all_to_all": lambda: comm.Alltoall(many, out_many),
            "there and back": there_and_back,
        }


SIDES: dict[str, type[Side]] = {"ours": Ours, "mpi4py": Mpi4py}
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def loop(call: Callable[[], Any], after: Callable[[], Any] | None, calls: int) -> float:
    """Microseconds of one call."""
    began = time.perf_counter_ns()
    for _ in range(calls):
        call()
        if after is not None:
            after()
    return (time.perf_counter_ns() - began) / calls / 1e3


def measure(side: Side, name: str, call: Callable[[], Any], calls: int) -> float:
    """The median time of one call in microseconds, as this rank saw it."""
    after = side.barrier if name in ROOTED else None
    loop(call, after, calls // 10 + 2)
    times = []
    for _ in range(BATCHES):
        side.barrier()
        times.append(loop(call, after, calls))
    side.barrier()
    return statistics.median(times)


def calls_of(nbytes: int, size: int) -> int:
    """About BATCH_US of calls, by a guess that is the same on all ranks of both sides: 5 us and 1 us for each 4 KB."""
    return int(min(MOST_CALLS, max(LEAST_CALLS, BATCH_US / (5 + nbytes * size / 4096))))


def rows(side: Side, sizes: list[int]) -> Iterator[tuple[str, int, float]]:
    for nbytes in sizes:
        for name, call in side.calls(nbytes // 4).items():
            yield name, nbytes, measure(side, name, call, calls_of(nbytes, side.size))


def main() -> None:
    side = SIDES[sys.argv[1]]()
    times: dict[str, dict[int, float]] = {}
    for name, nbytes, microseconds in rows(side, [int(word) for word in sys.argv[2:]]):
        times.setdefault(name, {})[nbytes] = microseconds
    if side.rank == 0:
        print(json.dumps(times))
    side.close()


if __name__ == "__main__":
    main()
