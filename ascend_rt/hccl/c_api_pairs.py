"""HcclSend, HcclRecv and HcclBatchSendRecv, and the collectives whose blocks differ in count, by their C names.

Conventions and codes are those of c_api.py. Arrays of counts and displacements are sequences of whole numbers, in
elements, one per rank, where C takes pointers to u64.
"""

# ruff: noqa: N802, N815  the functions and the fields have their C names
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..acl.memory import Array
from ..acl.return_codes import integer
from ..acl.stream import Stream
from ..plan.split import NUMBERS
from .arguments import RefusedError, told
from .c_conventions import (
    MOST_ELEMENTS,
    Elements,
    device_of,
    dtype_of,
    op_of,
    returns_result,
)
from .communicator import Communicator
from .grouping import issue, issue_items, refuse_in_group, target
from .splits import matrix, whole_numbers
from .transfers import TRANSFERS, HcclSendRecvType, Recv, Send

# ---- between two ranks ----


@dataclass(frozen=True)
class HcclSendRecvItem:
    """One item of HcclBatchSendRecv: `count` elements of dataType at buf go to remoteRank, or come from it."""

    sendRecvType: int
    buf: int
    count: int
    dataType: int
    remoteRank: int


@returns_result
def HcclSend(send: int, count: int, dtype: int, dest_rank: int, comm: int, stream: int, /) -> None:
    """`count` elements at send go to rank dest_rank, whose HcclRecv the stream waits for."""
    item = HcclSendRecvItem(HcclSendRecvType.HCCL_SEND, send, count, dtype, dest_rank)
    _queue_items("send", [item], comm, stream)


@returns_result
def HcclRecv(recv: int, count: int, dtype: int, source_rank: int, comm: int, stream: int, /) -> None:
    """`count` elements that rank source_rank sends come to recv."""
    item = HcclSendRecvItem(HcclSendRecvType.HCCL_RECV, recv, count, dtype, source_rank)
    _queue_items("recv", [item], comm, stream)


@returns_result
def HcclBatchSendRecv(items: Sequence[HcclSendRecvItem], item_num: int, comm: int, stream: int, /) -> None:
    """The first `item_num` items, all at once: none waits for another of them. HCCL_E_NOT_SUPPORT: in a group, which
    takes HcclSend and HcclRecv."""
    refuse_in_group("HcclBatchSendRecv")
    if not 0 < integer("item_num", item_num) <= len(items):
        raise RefusedError(f"item_num={item_num}; expected 1 to the {len(items)} items that there are")
    _queue_items("batch_send_recv", items[:item_num], comm, stream)


def _queue_items(kind: str, items: Sequence[HcclSendRecvItem], comm: int, stream: int) -> None:
    to = target(comm, stream)
    issue_items(to, items, lambda all_items, on: _issue_items(kind, all_items, to[0], on))


def _issue_items(kind: str, items: Sequence[HcclSendRecvItem], communicator: Communicator, on: Stream) -> None:
    """Queues a transfer. If an argument is wrong, what is queued is its refusal, for the other sides to learn of it."""
    kind = kind if len(items) == 1 else "batch_send_recv"
    try:
        arrays = [_as_item(item, _memory_of(communicator, item)) for item in items]
    except RefusedError as error:
        unused = np.empty(0, np.int8)
        known = [_as_item(item, unused) for item in items if item.sendRecvType in tuple(HcclSendRecvType)]
        communicator._refuse_items(TRANSFERS[kind], known, told(error), on)
        raise
    communicator._exchange(kind, arrays, on)


def _as_item(item: HcclSendRecvItem, array: Array) -> Send | Recv:
    sends = integer("sendRecvType", item.sendRecvType) == HcclSendRecvType.HCCL_SEND
    return Send(array, item.remoteRank) if sends else Recv(array, item.remoteRank)


def _memory_of(communicator: Communicator, item: HcclSendRecvItem) -> Array:
    if integer("sendRecvType", item.sendRecvType) not in tuple(HcclSendRecvType):
        raise RefusedError(f"sendRecvType={item.sendRecvType}; expected HCCL_SEND (0) or HCCL_RECV (1)")
    return _elements(communicator, "count", item.count, item.dataType).at("buf", item.buf)


# ---- blocks that differ in count ----


@returns_result
def HcclAllGatherV(
    send: int,
    send_count: int,
    recv: int,
    recv_counts: Sequence[int],
    recv_displs: Sequence[int],
    dtype: int,
    comm: int,
    stream: int,
    /,
) -> None:
    """Every rank's `send_count` elements, which are recv_counts[rank], at recv_displs[rank] of every rank's recv."""

    def queue(communicator: Communicator, on: Stream) -> None:
        x = _elements(communicator, "send_count", send_count, dtype).at("send", send)
        out = _blocks(communicator, "recv", recv, recv_counts, recv_displs, dtype)
        communicator.all_gather_v(x, out, recv_counts, recv_displs, on)

    _queue_split("all_gather_v", comm, stream, queue)


@returns_result
def HcclReduceScatterV(
    send: int,
    send_counts: Sequence[int],
    send_displs: Sequence[int],
    recv: int,
    recv_count: int,
    dtype: int,
    op: int,
    comm: int,
    stream: int,
    /,
) -> None:
    """Fold send; rank r's recv gets the recv_count = send_counts[r] elements at send_displs[r] of the result."""

    def queue(communicator: Communicator, on: Stream) -> None:
        out = _elements(communicator, "recv_count", recv_count, dtype).at("recv", recv)
        x = _blocks(communicator, "send", send, send_counts, send_displs, dtype)
        communicator.reduce_scatter_v(x, out, send_counts, op_of(op), send_displs, on)

    _queue_split("reduce_scatter_v", comm, stream, queue)


@returns_result
def HcclAlltoAllV(
    send: int,
    send_counts: Sequence[int],
    send_displs: Sequence[int],
    send_type: int,
    recv: int,
    recv_counts: Sequence[int],
    recv_displs: Sequence[int],
    recv_type: int,
    comm: int,
    stream: int,
    /,
) -> None:
    """send_counts[i] elements at send_displs[i] of send go to rank i; the recv_counts[i] elements that it sends come to
    recv_displs[i] of recv."""

    def queue(communicator: Communicator, on: Stream) -> None:
        x = _blocks(communicator, "send", send, send_counts, send_displs, send_type)
        out = _blocks(communicator, "recv", recv, recv_counts, recv_displs, recv_type)
        communicator.all_to_all_v(x, send_counts, out, recv_counts, send_displs, recv_displs, on)

    _queue_split("all_to_all_v", comm, stream, queue)


@returns_result
def HcclAlltoAllVC(
    send: int,
    send_count_matrix: Sequence[int],
    send_type: int,
    recv: int,
    recv_type: int,
    comm: int,
    stream: int,
    /,
) -> None:
    """send_count_matrix[i * size + j] elements go from rank i to rank j; blocks in send and recv have no gaps."""

    def queue(communicator: Communicator, on: Stream) -> None:
        size, rank = communicator.size, communicator.rank
        flat = whole_numbers("send_count_matrix", send_count_matrix)
        rows = matrix([flat[row * size : (row + 1) * size] for row in range(-(-len(flat) // size))], size)
        x = _elements(communicator, "row of send_count_matrix", sum(rows[rank]), send_type).at("send", send)
        count = sum(row[rank] for row in rows)
        out = _elements(communicator, "column of send_count_matrix", count, recv_type).at("recv", recv)
        communicator.all_to_all_vc(x, rows, out, on)

    _queue_split("all_to_all_vc", comm, stream, queue)


def _queue_split(name: str, comm: int, stream: int, queue: Callable[[Communicator, Stream], None]) -> None:
    to = target(comm, stream)

    def call(on: Stream) -> None:
        try:
            queue(to[0], on)
        except RefusedError as error:
            to[0]._refuse(NUMBERS[name], told(error), on)
            raise

    issue(to, call)


def _blocks(communicator: Communicator, name: str, address: int, counts: Any, displs: Any, dtype: int) -> Array:
    """All elements up to the end of the last block."""
    numbers, starts = whole_numbers(f"{name}_counts", counts), whole_numbers(f"{name}_displs", displs)
    ends = [start + count for start, count in zip(starts, numbers, strict=False) if count]
    return _elements(communicator, f"the end of {name}", max(ends, default=0), dtype).at(name, address)


def _elements(communicator: Communicator, name: str, count: int, dtype: int) -> Elements:
    """name: of the count."""
    if not 0 <= integer(name, count) <= MOST_ELEMENTS:
        raise RefusedError(f"{name}={count}; expected 0 to {MOST_ELEMENTS}")
    return Elements(count, dtype_of(dtype), device_of(communicator))
