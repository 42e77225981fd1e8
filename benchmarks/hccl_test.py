"""The collectives one by one, over a range of sizes: the options and the table of CANN's hccl_test.

    hccl-run -n 2 benchmarks/hccl_test.py all_reduce -b 8 -e 64M -f 2 -d fp16 -o sum

Where CANN has a binary per collective, here the collective is the first word.  As there, those whose blocks may differ
in count (all_gatherv, reduce_scatterv, alltoallv, alltoallvc) are given equal ones: beside the collective without the
v, their time says what tables of counts cost.

As there, a measurement queues all its calls on a stream between two events and synchronizes once; its time per call is
what the events say, by the number of calls.  A row is what the root rank saw of 5 measurements: the average, then,
behind the columns of the tool, the bus bandwidth of that average and the median.  The calls go from device memory to
device memory.  GB = 1e9 bytes.

Bus bandwidth = algorithm bandwidth times the factor that makes it comparable between numbers of ranks N, by the
definition that nccl-tests uses: 2 (N - 1) / N for all_reduce, 1 for broadcast and reduce, else (N - 1) / N.

ours/limit, of all_reduce only: the time of a call in place, queued as well, by what limit.c needs for an fp32 sum of as
many bytes, in batches of as many calls, right after.  limit.c queues nothing: what the stream costs is in the ratio.
One turn each: a glance, where allreduce.py takes the median of many turns, of calls that block.

The exit code is 1 if a result was wrong on any rank.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hccl_test_options as options_of
import hccl_test_values as values
import numpy as np
import sides
from numpy.typing import NDArray

import ascend_rt as rt

# A batch lasts about this long in microseconds, as in allreduce.py.
BATCH_US, MOST_CALLS, BATCHES = 2_000.0, 5_000, 5
# Of one size; the median of one measurement would say nothing.
MEASUREMENTS = 5

Array = NDArray[Any]


def bus_factor(operation: str, size: int) -> float:
    """Bus bandwidth by algorithm bandwidth."""
    if operation == "all_reduce":
        return 2 * (size - 1) / size
    return 1.0 if operation in ("broadcast", "reduce") else (size - 1) / size


@dataclass(frozen=True)
class Row:
    """What is printed of one size, and what --json keeps of it."""

    nbytes: int
    average_us: float
    algorithm_gbps: float
    check: str
    bus_gbps: float
    median_us: float
    ours_by_limit: float | None

    def __str__(self) -> str:
        limit = "-" if self.ours_by_limit is None else f"{self.ours_by_limit:.2f}"
        return (
            f"{self.nbytes:<17d} | {self.average_us:<14.2f} | {self.algorithm_gbps:<20.5f} | {self.check:<13s}"
            f" | {self.bus_gbps:<20.5f} | {self.median_us:<16.2f} | {limit}"
        )


# "aveg" is how the tool spells it, and what scripts look for.
HEADER = (
    "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:"
    " | bus_bandwidth(GB/s): | median_time(us): | ours/limit:"
)


class Trial:
    """One collective at one size on this rank: its buffers and its call, which is queued."""

    def __init__(self, comm: rt.Communicator, stream: rt.Stream, given: argparse.Namespace, nbytes: int) -> None:
        self.comm, self.stream, self.given = comm, stream, given
        self.is_root = comm.rank == given.root
        self.count = options_of.count_of(given.operation, nbytes, given.dtype.itemsize, comm.size)
        sent, received = {
            "all_reduce": (1, 1),
            "broadcast": (1, 0),
            "all_gather": (1, comm.size),
            "reduce_scatter": (comm.size, 1),
            "reduce": (1, 1),
            "scatter": (comm.size, 1),
            "alltoall": (comm.size, comm.size),
        }[options_of.WITHOUT_V.get(given.operation, given.operation)]
        self.counts = [self.count] * comm.size
        self.send = rt.empty((sent * self.count,), given.dtype)
        self.receive = rt.empty((received * self.count,), given.dtype) if received else self.send
        self.nbytes = max(self.send.nbytes, self.receive.nbytes)
        self.fill()

    def fill(self) -> None:
        """Random input, the same in every run; nothing of an earlier result is left."""
        self.receive.fill(0)
        self.send[:] = values.contribution(self.comm.rank, self.comm.size, self.send.size, self.given)

    def call(self) -> None:
        comm, given, stream = self.comm, self.given, self.stream
        match given.operation:
            case "all_reduce":
                comm.all_reduce(self.send, self.receive, given.op, stream=stream)
            case "broadcast":
                comm.broadcast(self.send, given.root, stream=stream)
            case "all_gather":
                comm.all_gather(self.send, self.receive.reshape(comm.size, -1), stream=stream)
            case "reduce_scatter":
                comm.reduce_scatter(self.send, self.receive, given.op, stream=stream)
            case "reduce":
                comm.reduce(self.send, self.receive if self.is_root else None, given.op, given.root, stream=stream)
            case "scatter":
                comm.scatter(self.send if self.is_root else None, self.receive, given.root, stream=stream)
            case "alltoall":
                comm.all_to_all(self.send, self.receive, stream=stream)
            case _:
                self.call_with_counts()

    def call_with_counts(self) -> None:
        comm, given, stream, counts = self.comm, self.given, self.stream, self.counts
        match given.operation:
            case "all_gatherv":
                comm.all_gather_v(self.send, self.receive, counts, stream=stream)
            case "reduce_scatterv":
                comm.reduce_scatter_v(self.send, self.receive, counts, given.op, stream=stream)
            case "alltoallv":
                comm.all_to_all_v(self.send, counts, self.receive, counts, stream=stream)
            case "alltoallvc":
                comm.all_to_all_vc(self.send, [counts] * comm.size, self.receive, stream=stream)

    def call_in_place(self) -> None:
        """An all_reduce as limit.c does it."""
        self.comm.all_reduce(self.send, op=self.given.op, stream=self.stream)

    def measure(self) -> list[float]:
        """Microseconds per call of each measurement, as this rank saw them."""
        for _ in range(self.given.warmup_iters):
            self.call()
        return [self.time_queued(self.call, self.given.iters) for _ in range(MEASUREMENTS)]

    def time_queued(self, call: Callable[[], None], calls: int) -> float:
        """Microseconds per call of so many calls in the queue at once. All ranks begin together."""
        self.stream.synchronize()
        self.comm.barrier()
        begin = self.stream.record()
        for _ in range(calls):
            call()
        end = self.stream.record()
        self.stream.synchronize()
        return begin.elapsed_ms(end) * 1e3 / calls

    def check(self) -> str:
        """One more call, compared with NumPy; "failed" when it was wrong on any rank. A rank with errors says so."""
        if self.given.check == 0:
            return "NULL"
        self.fill()
        self.call()
        self.stream.synchronize()
        want = values.expected(self.comm.rank, self.comm.size, self.send.size, self.given)
        wrong = np.flatnonzero(self.receive != want)
        if wrong.size:
            said = f"local rank_id {self.comm.rank}, check result failed"
            if self.given.check == 2:
                first = int(wrong[0])
                said += (
                    f": {wrong.size} of {want.size} elements of {self.given.operation} differ, the first at {first}: "
                    f"{self.receive[first]}, expected {want[first]}"
                )
            print(said, flush=True)
        failures = rt.array([float(wrong.size > 0)], "float32")
        return "failed" if self.comm.all_reduce(failures, op="max")[0] else "success"


def ours_by_limit(trial: Trial, limit: sides.Probe | None, call_us: float) -> float | None:
    """All ranks: the time of a call in place by that of the probe, which the root rank has; None without a probe."""
    comm, given = trial.comm, trial.given
    # As many calls on every rank: as the root says.
    calls = min(MOST_CALLS, int(BATCH_US / call_us) + 1) if limit is not None and trial.nbytes % 4 == 0 else 0
    calls = int(comm.broadcast(rt.array([calls], "int64"), given.root)[0])
    if calls == 0:
        return None
    times = [trial.time_queued(trial.call_in_place, calls) for _ in range(BATCHES)]
    # The others sleep in the next call meanwhile.
    return None if limit is None else statistics.median(times) / limit.measure(trial.nbytes, calls, BATCHES)


def rows(comm: rt.Communicator, given: argparse.Namespace, limit: sides.Probe | None) -> Iterator[Row]:
    """Measures and checks one size after the other."""
    stream = rt.Stream()
    for nbytes in options_of.sizes(given, comm.size):
        trial = Trial(comm, stream, given, nbytes)
        times = trial.measure()
        average, median = statistics.fmean(times), statistics.median(times)
        check = trial.check()
        gbps = trial.nbytes / average / 1e3
        ratio = ours_by_limit(trial, limit, min(times)) if given.operation == "all_reduce" else None
        yield Row(nbytes, average, gbps, check, gbps * bus_factor(given.operation, comm.size), median, ratio)


def start_limit(size: int) -> sides.Probe | None:
    """The probe; None, and why, where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return sides.Probe(size, Path(folder))
        except sides.UnavailableError as reason:
            print(f"ours/limit is left out: {reason}", file=sys.stderr)
            return None


def main(arguments: list[str]) -> int:
    comm = rt.init()
    given = options_of.parse(arguments, comm.rank, comm.size, __doc__ or "")
    root = comm.rank == given.root
    limit = start_limit(comm.size) if root and given.operation == "all_reduce" else None
    if root:
        print(
            f"the minbytes is {given.minbytes}, maxbytes is {given.maxbytes}, iters is {given.iters}, "
            f"warmup_iters is {given.warmup_iters}\n{HEADER}",
            flush=True,
        )
    kept = []
    for row in rows(comm, given, limit):
        if root:
            print(row, flush=True)
        kept.append(row)
    if limit is not None:
        limit.close()
    if root and given.json is not None:
        about = {"operation": given.operation, "ranks": comm.size, "datatype": given.datatype, "op": given.op}
        given.json.write_text(json.dumps({**about, "rows": [asdict(row) for row in kept]}, indent=1))
    rt.finalize()
    return int(any(row.check == "failed" for row in kept))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
