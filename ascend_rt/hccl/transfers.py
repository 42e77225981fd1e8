"""What two ranks send and receive by themselves: the items, the checks of their arguments, the methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..acl import recording
from ..acl.memory import Array, DeviceMemory
from ..acl.stream import Stream
from ..core import _core
from ..diag.call_site import call_site
from ..diag.failure import rank_name
from ..diag.vocabulary import COLLECTIVES
from .arguments import RefusedError, check_array, check_stream, code_of_refusal, dtype_number, told
from .buffers import Buffers
from .device_dtypes import check_dtype
from .errors import HcclError
from .recorded import refuse_recorded, refuse_while_recording
from .types import number_of_dtype


class HcclSendRecvType(IntEnum):
    """Which way an item goes, with the numbers of hccl_types.h."""

    HCCL_SEND = 0
    HCCL_RECV = 1


@dataclass(slots=True, eq=False)
class Send:
    """x goes to rank `dest`: any shape, of a dtype that HCCL knows."""

    x: Array
    dest: int


@dataclass(slots=True, eq=False)
class Recv:
    """out gets what rank `source` sends: as many elements of the same dtype, any shape."""

    out: Array
    source: int


TRANSFERS = {name: number for number, name in COLLECTIVES.items() if name in ("send", "recv", "batch_send_recv")}
"""HcclCMDType by the names of the methods."""

SEND, RECV = int(HcclSendRecvType.HCCL_SEND), int(HcclSendRecvType.HCCL_RECV)

Item = tuple[int, int, int, int, Array | None]
"""As the core takes it: HcclSendRecvType, rank of the other side, HcclDataType, count, array (None if refused)."""


class Transfers(_core.Communicator):
    """What a communicator does with the arrays of two ranks. How the calls behave is told at Communicator."""

    rank: int
    size: int
    world_ranks: tuple[int, ...]
    _members: tuple[int, ...] | None
    _memory: DeviceMemory
    _buffers: Buffers
    _strict_dtypes: str

    def send(self, x: Array, dest: int, stream: Stream | None = None) -> None:
        """Send x to rank `dest`, which receives it with recv.

        Blocks, or its stream does, until the receiver has it. Messages between two ranks are matched in the order in
        which they are issued; count and dtype of both sides must agree, shapes need not. Between messages of other
        pairs of ranks, and between messages and collectives, there is no order. To itself a rank can send from another
        stream, or in a batch.
        """
        if not self._passes_plainly("send", SEND, dest, x, stream):
            self._exchange("send", [Send(x, dest)], stream)

    def recv(self, out: Array, source: int, stream: Stream | None = None) -> Array:
        """Receive into out what rank `source` sends with send; returns out. See send."""
        if not self._passes_plainly("recv", RECV, source, out, stream):
            self._exchange("recv", [Recv(out, source)], stream)
        return out

    def batch_send_recv(self, items: Sequence[Send | Recv], stream: Stream | None = None) -> None:
        """Send and receive all at once: `[Send(x, dest), Recv(out, source)]`.

        No item waits for another of the list, so ranks may list theirs in any order, and send to themselves. Several
        items to or from one rank are matched in the order of the list. An item whose two sides disagree fails alone:
        the others are done, then the first failure is raised. After a wrong argument nothing of the list is done.
        """
        self._exchange("batch_send_recv", items, stream)

    def _passes_plainly(self, kind: str, way: int, peer: Any, x: Any, stream: Any) -> bool:
        """One message without a look at its arguments; False: nothing was done, they need one."""
        return self._strict_dtypes == "0" and self._transfer_plainly(TRANSFERS[kind], way, peer, x, stream)

    def _exchange(self, kind: str, items: Sequence[Send | Recv], stream: Any) -> None:
        number = TRANSFERS[kind]
        refuse_while_recording(kind, stream)
        try:
            check_stream(stream)
            checked = check_items(items, self.size)
            if self._strict_dtypes != "0":
                for _, _, dtype, _, _ in checked:
                    check_dtype(kind, dtype, 0, self._strict_dtypes)
            if (recorder := recording.recorder_of(stream)) is not None:
                recorder.transfer(stream, self, kind, checked)
                return
            self._provide_channel(lambda: self._transfer(number, checked, None, stream))
            return
        except (RefusedError, MemoryError) as error:
            why = told(error)
        # Behind the handler: both sides raise the same.
        refuse_recorded(self, kind, why, stream)
        self._refuse_items(number, items, why, stream)
        if not refused_items(items, self.size):  # there is nobody to tell it to
            own = rank_name(self.world_ranks[self.rank], self._members)
            raise HcclError(code_of_refusal(why), f"{own}: {kind} ({call_site()}): {why}", [self.rank], "EI0003")

    def _provide_channel(self, attempt: Callable[[], int | None]) -> None:
        """Makes staging for the ranks that the attempt names until it names none."""
        while (peer := attempt()) is not None:
            nbytes = self._buffers.channel
            block = self._memory.allocate(nbytes)
            self._set_channel_staging(peer, block, block.offset, nbytes)

    def _refuse_items(self, number: int, items: Sequence[Send | Recv], why: str, stream: Any) -> None:
        usable = isinstance(stream, Stream) and not stream.closed
        self._transfer(number, refused_items(items, self.size), why, stream if usable else None)


def check_items(items: Sequence[Send | Recv], size: int) -> tuple[Item, ...]:
    """The items as the core takes them, or RefusedError."""
    checked: list[Item] = []
    try:
        for item in items:
            checked.append(_check_item(item, size))
    except RefusedError as error:
        if len(items) == 1:
            raise
        raise RefusedError(f"item {len(checked)}: {error}", error.code) from None
    return tuple(checked)


def refused_items(items: Sequence[Send | Recv], size: int) -> tuple[Item, ...]:
    """Those of the items whose other side is known and can be told that this rank refuses them."""
    known = (item for item in items if isinstance(item, Send | Recv) and _is_rank(_peer(item), size))
    return tuple((_way(item), int(_peer(item)), _dtype_or_any(item), 0, None) for item in known)


def _check_item(item: Any, size: int) -> Item:
    if isinstance(item, Send):
        way, x, peer = SEND, item.x, item.dest
    elif isinstance(item, Recv):
        way, x, peer = RECV, item.out, item.source
    else:
        raise RefusedError(f"a {type(item).__name__}; expected hccl.Send(x, dest) or hccl.Recv(out, source)")
    if not _is_rank(peer, size):
        raise RefusedError(f"{'source' if way else 'dest'}={peer!r}; expected a rank, 0 to {size - 1}")
    check_array("out" if way else "x", x)
    if way == RECV and not x.flags.writeable:
        raise RefusedError("the message cannot be stored: out is read-only")
    return way, int(peer), dtype_number(x), x.size, x


def _way(item: Send | Recv) -> int:
    return SEND if isinstance(item, Send) else RECV


def _peer(item: Send | Recv) -> Any:
    return item.dest if isinstance(item, Send) else item.source


def _dtype_or_any(item: Send | Recv) -> int:
    return number_of_dtype(getattr(item.x if isinstance(item, Send) else item.out, "dtype", np.dtype(np.int8))) or 0


def _is_rank(peer: Any, size: int) -> bool:
    if type(peer) is int:
        return 0 <= peer < size
    try:
        return bool(0 <= peer.__index__() < size)
    except (AttributeError, TypeError):
        return False
