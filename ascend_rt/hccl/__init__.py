"""Communicators and collectives, and the errors they raise.

Communicator has the collectives as methods that raise; the functions that begin with Hccl are C's, return codes and
take integers (c_api.py).
"""

from .c_api import (
    HCCL_ROOT_INFO_BYTES,
    HcclAllGather,
    HcclAllReduce,
    HcclAlltoAll,
    HcclBarrier,
    HcclBroadcast,
    HcclCommDestroy,
    HcclCommInitRootInfo,
    HcclGetCommAsyncError,
    HcclGetErrorString,
    HcclGetRankId,
    HcclGetRankSize,
    HcclGetRootInfo,
    HcclReduce,
    HcclReduceScatter,
    HcclScatter,
)
from .c_api_pairs import (
    HcclAllGatherV,
    HcclAlltoAllV,
    HcclAlltoAllVC,
    HcclBatchSendRecv,
    HcclRecv,
    HcclReduceScatterV,
    HcclSend,
    HcclSendRecvItem,
)
from .communicator import Communicator
from .errors import HcclError, HcclResult
from .transfers import HcclSendRecvType, Recv, Send
from .types import HcclDataType, HcclReduceOp

__all__ = [
    "HCCL_ROOT_INFO_BYTES",
    "Communicator",
    "HcclAllGather",
    "HcclAllGatherV",
    "HcclAllReduce",
    "HcclAlltoAll",
    "HcclAlltoAllV",
    "HcclAlltoAllVC",
    "HcclBarrier",
    "HcclBatchSendRecv",
    "HcclBroadcast",
    "HcclCommDestroy",
    "HcclCommInitRootInfo",
    "HcclDataType",
    "HcclError",
    "HcclGetCommAsyncError",
    "HcclGetErrorString",
    "HcclGetRankId",
    "HcclGetRankSize",
    "HcclGetRootInfo",
    "HcclRecv",
    "HcclReduce",
    "HcclReduceOp",
    "HcclReduceScatter",
    "HcclReduceScatterV",
    "HcclResult",
    "HcclScatter",
    "HcclSend",
    "HcclSendRecvItem",
    "HcclSendRecvType",
    "Recv",
    "Send",
]
