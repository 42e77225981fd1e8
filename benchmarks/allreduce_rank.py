"""What every rank of a measured side runs: waits for requests, times an in-place sum all-reduce, answers.

    hccl-run -n 2 --no-prefix benchmarks/allreduce_rank.py ours ADDRESS DTYPE       (allreduce.py starts it)

Each rank connects to the Unix socket ADDRESS and says "RANK SIZE".  A request is one line "NBYTES CALLS BATCHES", sent
to every rank; rank 0 answers with the microseconds of one call: the median over BATCHES batches of CALLS calls, each
batch begun by a barrier.  Between requests every rank sleeps.  The end of the connection is the end of the work.

A `Side` is all that differs between ascend_rt and its peers.  Its `loop` is written out for each, because whatever
stood between the loop and the library would be measured too.
"""

from __future__ import annotations

import socket
import statistics
import sys
import time
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A prime: no two chunks that an algorithm could confuse hold the same samples.
PERIOD = 65_521


class Side(Protocol):
    """A library that reduces: `loop` calls its in-place sum all-reduce `calls` times on one array made by `zeros`."""

    rank: int
    size: int

    def zeros(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]: ...
    def loop(self, x: NDArray[Any], calls: int) -> None: ...
    def barrier(self) -> None: ...
    def close(self) -> None: ...


class Ours:
    """ascend_rt, on device memory."""

    def __init__(self) -> None:
        import ascend_rt as rt

        self.rt, self.comm = rt, rt.init()
        self.rank, self.size = self.comm.rank, self.comm.size

    def zeros(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        x: NDArray[Any] = self.rt.zeros((count,), dtype)
        return x

    def loop(self, x: NDArray[Any], calls: int) -> None:
        comm = self.comm
        for _ in repeat(None, calls):
            comm.all_reduce(x)

    def barrier(self) -> None:
        self.comm.barrier()

    def close(self) -> None:
        self.rt.finalize()


class Mpi4py:
    """mpi4py over whatever MPI it finds, on NumPy arrays."""

    def __init__(self) -> None:
        self.mpi = import_module("mpi4py.MPI")
        self.comm = self.mpi.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()

    def zeros(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.zeros(count, dtype)

    def loop(self, x: NDArray[Any], calls: int) -> None:
        comm, in_place = self.comm, self.mpi.IN_PLACE
        for _ in repeat(None, calls):
            comm.Allreduce(in_place, x)

    def barrier(self) -> None:
        self.comm.Barrier()

    def close(self) -> None:
        self.mpi.Finalize()


class Gloo:
    """torch.distributed's gloo, on tensors that share the arrays' memory."""

    def __init__(self) -> None:
        self.torch, self.dist = import_module("torch"), import_module("torch.distributed")
        self.dist.init_process_group("gloo")
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()

    def zeros(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.zeros(count, dtype)

    def loop(self, x: NDArray[Any], calls: int) -> None:
        tensor, all_reduce = self.torch.from_numpy(x), self.dist.all_reduce
        for _ in repeat(None, calls):
            all_reduce(tensor)

    def barrier(self) -> None:
        self.dist.barrier()

    def close(self) -> None:
        self.dist.destroy_process_group()


SIDES: dict[str, type[Side]] = {"ours": Ours, "mpi4py": Mpi4py, "gloo": Gloo}


def samples(rank: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """What `rank` contributes to the check: small whole numbers, so that sums are exact in every order and type."""
    rng = np.random.default_rng([count, rank])
    return np.resize(rng.integers(-7, 8, min(count, PERIOD)), count).astype(dtype)


def check(side: Side, x: NDArray[Any]) -> None:
    """One all-reduce of random values; raises SystemExit where the sum is wrong."""
    x[:] = samples(side.rank, x.size, x.dtype)
    side.loop(x, 1)
    want = np.zeros(x.size, x.dtype)
    for rank in range(side.size):
        want += samples(rank, x.size, x.dtype)
    if not np.array_equal(x, want):
        wrong = int(np.count_nonzero(x != want))
        first = int(np.argmax(x != want))
        raise SystemExit(
            f"rank {side.rank}: all_reduce of {x.size} {x.dtype} gave {wrong} wrong sums,"
            f" the first at element {first}: {x[first]}, expected {want[first]}"
        )


def measure(side: Side, x: NDArray[Any], calls: int, batches: int) -> float:
    """The median time of one call in microseconds, as this rank saw it."""
    # Infinity stays itself however often it is summed in place (limit.c says why not zero).
    x[:] = np.inf
    side.loop(x, calls // 10 + 1)
    times = []
    for _ in range(batches):
        side.barrier()
        start = time.perf_counter_ns()
        side.loop(x, calls)
        times.append((time.perf_counter_ns() - start) / calls / 1e3)
    # Without it a rank could still be at work when another side is asked.
    side.barrier()
    return statistics.median(times)


def serve(side: Side, connection: socket.socket, dtype: np.dtype[Any]) -> None:
    """Answers requests until the connection ends; values are checked at the first request of each size."""
    arrays: dict[int, NDArray[Any]] = {}
    with connection, connection.makefile(encoding="ascii") as lines:
        connection.sendall(f"{side.rank} {side.size}\n".encode())
        for line in lines:
            nbytes, calls, batches = map(int, line.split())
            if nbytes not in arrays:
                arrays[nbytes] = side.zeros(nbytes // dtype.itemsize, dtype)
                check(side, arrays[nbytes])
            microseconds = measure(side, arrays[nbytes], calls, batches)
            if side.rank == 0:
                connection.sendall(f"{microseconds}\n".encode())


def main() -> None:
    name, address, dtype = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    side = SIDES[name]()
    serve(side, connection, np.dtype(dtype))
    side.close()


if __name__ == "__main__":
    main()
