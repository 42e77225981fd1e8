"""Two small programs in the C spellings of ACL and HCCL, call for call as they are written for NPUs.

    hccl-run -n 4 -m ascend_rt.examples.hello_hccl

gradients   data parallelism: every rank has its own fp16 gradients; an in-place all-reduce sums them, each rank divides
            by the number of ranks, and all hold the same mean.
model       model parallelism: the encoder lives on the first rank, the decoder on the last. The encoder's activations
            come to the decoder by broadcast; then once more in parts that all ranks have computed: by all-gather whole,
            and by reduce-scatter summed, a part for each rank.

Each rank checks what it holds against the same sums in NumPy and tells rank 0, which prints it: exit code 1 if a value
is wrong on any rank.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ascend_rt import settings
from ascend_rt.acl import util
from ascend_rt.capi import (
    ACL_FLOAT16,
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    HCCL_REDUCE_SUM,
    aclFinalize,
    aclGetRecentErrMsg,
    aclInit,
    aclrtCreateContext,
    aclrtCreateStream,
    aclrtDestroyContext,
    aclrtDestroyStream,
    aclrtFree,
    aclrtMalloc,
    aclrtMemcpy,
    aclrtResetDevice,
    aclrtSetCurrentContext,
    aclrtSetDevice,
    aclrtSynchronizeStream,
    hcclAllGather,
    hcclAllReduce,
    hcclBroadcast,
    hcclFinalize,
    hcclInit,
    hcclReduceScatter,
    size_of,
)

GRADIENTS = 1024  # elements of a rank's gradients
ACTIVATIONS = 256  # elements of the activations that a rank computes
SHOWN = 4  # elements that are printed

Half = NDArray[np.float16]


class Rank:
    """What a rank sets up once: device, context, stream, communicator."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        check("aclInit", aclInit())
        check("aclrtSetDevice", aclrtSetDevice(rank))
        self.context = value("aclrtCreateContext", aclrtCreateContext(rank))
        self.stream = value("aclrtCreateStream", aclrtCreateStream())
        self.comm = value("hcclInit", hcclInit(rank, size, "default_hccl_group"))
        check("aclrtSetCurrentContext", aclrtSetCurrentContext(self.context))
        self._buffers: list[int] = []

    def allocate(self, count: int) -> int:
        """Address of device memory for `count` fp16 elements."""
        nbytes = count * size_of(ACL_FLOAT16)
        self._buffers.append(value("aclrtMalloc", aclrtMalloc(nbytes, ACL_MEM_MALLOC_HUGE_FIRST)))
        return self._buffers[-1]

    def upload(self, values: Half) -> int:
        """Address of a copy of `values` in device memory."""
        buffer, nbytes = self.allocate(values.size), values.nbytes
        source = util.numpy_contiguous_to_ptr(values)
        check("aclrtMemcpy", aclrtMemcpy(buffer, nbytes, source, nbytes, ACL_MEMCPY_HOST_TO_DEVICE))
        return buffer

    def download(self, buffer: int, count: int) -> Half:
        """A copy of `count` elements of device memory, when all that is queued is done."""
        check("aclrtSynchronizeStream", aclrtSynchronizeStream(self.stream))
        values = np.empty(count, np.float16)
        to = util.numpy_contiguous_to_ptr(values)
        check("aclrtMemcpy", aclrtMemcpy(to, values.nbytes, buffer, values.nbytes, ACL_MEMCPY_DEVICE_TO_HOST))
        return values

    def close(self) -> None:
        """Everything back, in the opposite order."""
        for buffer in self._buffers:
            check("aclrtFree", aclrtFree(buffer))
        check("hcclFinalize", hcclFinalize(self.comm))
        check("aclrtDestroyStream", aclrtDestroyStream(self.stream))
        check("aclrtDestroyContext", aclrtDestroyContext(self.context))
        check("aclrtResetDevice", aclrtResetDevice(self.rank))
        check("aclFinalize", aclFinalize())


def average_gradients(on: Rank) -> bool:
    """Data parallelism. Whether this rank holds the mean of all ranks' gradients."""
    nbytes = GRADIENTS * size_of(ACL_FLOAT16)
    buffer = on.upload(gradients(on.rank))
    count = nbytes // size_of(ACL_FLOAT16)
    ret = hcclAllReduce(buffer, buffer, count, ACL_FLOAT16, HCCL_REDUCE_SUM, on.comm, on.stream)
    check("hcclAllReduce", ret)
    check("aclrtSynchronizeStream", aclrtSynchronizeStream(on.stream))
    mean = on.download(buffer, GRADIENTS) / np.float16(on.size)
    expected = sum_over_ranks(gradients, on.size) / np.float16(on.size)
    return report(on, "the mean gradients", mean, expected)


def encoder_to_decoder(on: Rank) -> bool:
    """Model parallelism, the encoder on one rank. Whether the activations have come to the decoder's rank."""
    encoder, decoder = 0, on.size - 1
    send = on.upload(activations(encoder)) if on.rank == encoder else on.allocate(ACTIVATIONS)
    recv = on.allocate(ACTIVATIONS)
    check("hcclBroadcast", hcclBroadcast(send, recv, ACTIVATIONS, ACL_FLOAT16, encoder, on.comm, on.stream))
    what = f"the activations of encoder rank {encoder} for decoder rank {decoder}"
    return report(on, what, on.download(recv, ACTIVATIONS), activations(encoder))


def parts_to_all(on: Rank) -> bool:
    """Model parallelism, a part of the encoder on every rank: the parts one behind another, then their sum in parts."""
    send, whole = on.upload(activations(on.rank)), on.allocate(ACTIVATIONS * on.size)
    check("hcclAllGather", hcclAllGather(send, whole, ACTIVATIONS, ACL_FLOAT16, on.comm, on.stream))
    gathered = np.concatenate([activations(rank) for rank in range(on.size)])
    fine = report(on, "the parts of all ranks", on.download(whole, gathered.size), gathered)

    # Every rank now holds the same `whole`, so what is summed are `size` equal contributions.
    part = on.allocate(ACTIVATIONS)
    ret = hcclReduceScatter(whole, part, ACTIVATIONS, ACL_FLOAT16, HCCL_REDUCE_SUM, on.comm, on.stream)
    check("hcclReduceScatter", ret)
    expected = activations(on.rank) * np.float16(on.size)
    return report(on, "its part of the sum", on.download(part, ACTIVATIONS), expected) and fine


def gradients(rank: int) -> Half:
    """A rank's gradients: multiples of 1/64, small enough that fp16 holds their sums exactly."""
    return (np.random.default_rng(rank).integers(-64, 65, GRADIENTS) / 64).astype(np.float16)


def activations(rank: int) -> Half:
    """What the encoder, or a rank's part of it, computes."""
    return (np.random.default_rng([7, rank]).integers(-128, 129, ACTIVATIONS) / 16).astype(np.float16)


def sum_over_ranks(values: Callable[[int], Half], size: int) -> Half:
    total: Half = np.sum([values(rank) for rank in range(size)], axis=0, dtype=np.float16)
    return total


def report(on: Rank, what: str, held: Half, expected: Half) -> bool:
    """Rank 0 prints what each rank holds; whether it is right on all."""
    mine = np.array([np.array_equal(held, expected), *held[:SHOWN]], np.float16)
    everyone = on.allocate(mine.size * on.size)
    ret = hcclAllGather(on.upload(mine), everyone, mine.size, ACL_FLOAT16, on.comm, on.stream)
    check("hcclAllGather", ret)
    rows = on.download(everyone, mine.size * on.size).reshape(on.size, mine.size)
    for rank, (fine, *values) in enumerate(rows if on.rank == 0 else []):
        numbers = " ".join(f"{number:g}" for number in values)
        print(f"rank {rank} holds {what} [{numbers} ...]{'' if fine else '   WRONG'}", flush=True)
    return bool(rows[:, 0].all())


def check(call: str, ret: int) -> None:
    """End this rank with exit code 1 if a call failed."""
    if ret:
        sys.exit(f"{call} returned {int(ret)}: {aclGetRecentErrMsg()}")


def value(call: str, answer: tuple[int, int]) -> int:
    """The value of (value, ret)."""
    check(call, answer[1])
    return answer[0]


def main() -> int:
    """0, or 1 if a rank holds wrong values."""
    job = settings.read()
    on = Rank(job.rank_id or 0, job.rank_size or 1)
    fine = [average_gradients(on), encoder_to_decoder(on), parts_to_all(on)]
    on.close()
    return 0 if all(fine) else 1


if __name__ == "__main__":
    status = main()
    if status == 0 and (settings.read().rank_id or 0) == 0:
        print("hello_hccl: ok")
    sys.exit(status)
