"""Communicators and collectives, and the errors they raise.

Communicator has the collectives as methods that raise; the functions that begin with Hccl are C's, return codes and
take integers (c_api.py).
"""

from .c_api import (
    HcclAllGather,
    HcclAllReduce,
    HcclAlltoAll,
    HcclBarrier,
    HcclBroadcast,
    HcclReduce,
    HcclReduceScatter,
    HcclScatter,
)
from .c_api_communicators import (
    HCCL_DETERMINISTIC,
    HCCL_ROOT_INFO_BYTES,
    HcclCommConfigInit,
    HcclCommDestroy,
    HcclCommGetHandleWithName,
    HcclCommInitClusterInfo,
    HcclCommInitClusterInfoConfig,
    HcclCommInitRootInfo,
    HcclCommInitRootInfoConfig,
    HcclCommStatus,
    HcclCreateSubCommConfig,
    HcclGetCommAsyncError,
    HcclGetCommConfigCapability,
    HcclGetCommName,
    HcclGetConfig,
    HcclGetErrorString,
    HcclGetRankId,
    HcclGetRankSize,
    HcclGetRootInfo,
    HcclSetConfig,
    handle_of,
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
from .config import HcclCommConfig
from .errors import HcclError, HcclResult
from .transfers import HcclSendRecvType, Recv, Send
from .types import HcclDataType, HcclReduceOp

__all__ = [
    "HCCL_DETERMINISTIC",
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
    "HcclCommConfig",
    "HcclCommConfigInit",
    "HcclCommDestroy",
    "HcclCommGetHandleWithName",
    "HcclCommInitClusterInfo",
    "HcclCommInitClusterInfoConfig",
    "HcclCommInitRootInfo",
    "HcclCommInitRootInfoConfig",
    "HcclCommStatus",
    "HcclCreateSubCommConfig",
    "HcclDataType",
    "HcclError",
    "HcclGetCommAsyncError",
    "HcclGetCommConfigCapability",
    "HcclGetCommName",
    "HcclGetConfig",
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
    "HcclSetConfig",
    "Recv",
    "Send",
    "handle_of",
]
