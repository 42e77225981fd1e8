"""The C spellings of acl.rt and of HCCL's first generation, for people who read C samples: thin aliases.

What C returns through a pointer stands before the code: (value, ret). In the lower-case hccl functions a plain integer
is an aclDataType (ACL_FLOAT16 is 1), where HcclAllReduce and its like read it as an HcclDataType (1 is int16).
"""

# ruff: noqa: N802, N816  the names are C's
from . import acl
from .acl.constants import aclDataType
from .acl.return_codes import integer, set_recent_err_msg
from .hccl import c_api
from .hccl.errors import HcclResult
from .hccl.types import HcclDataType, HcclReduceOp

ACL_SUCCESS = acl.ACL_SUCCESS
ACL_MEM_MALLOC_HUGE_FIRST = acl.ACL_MEM_MALLOC_HUGE_FIRST
ACL_MEM_MALLOC_HUGE_ONLY = acl.ACL_MEM_MALLOC_HUGE_ONLY
ACL_MEM_MALLOC_NORMAL_ONLY = acl.ACL_MEM_MALLOC_NORMAL_ONLY
ACL_MEMCPY_DEFAULT = acl.ACL_MEMCPY_DEFAULT
ACL_MEMCPY_DEVICE_TO_DEVICE = acl.ACL_MEMCPY_DEVICE_TO_DEVICE
ACL_MEMCPY_DEVICE_TO_HOST = acl.ACL_MEMCPY_DEVICE_TO_HOST
ACL_MEMCPY_HOST_TO_DEVICE = acl.ACL_MEMCPY_HOST_TO_DEVICE
ACL_MEMCPY_HOST_TO_HOST = acl.ACL_MEMCPY_HOST_TO_HOST
ACL_BF16 = acl.ACL_BF16
ACL_DOUBLE = acl.ACL_DOUBLE
ACL_FLOAT = acl.ACL_FLOAT
ACL_FLOAT16 = acl.ACL_FLOAT16
ACL_INT8 = acl.ACL_INT8
ACL_INT16 = acl.ACL_INT16
ACL_INT32 = acl.ACL_INT32
ACL_INT64 = acl.ACL_INT64
ACL_UINT8 = acl.ACL_UINT8
ACL_UINT16 = acl.ACL_UINT16
ACL_UINT32 = acl.ACL_UINT32
ACL_UINT64 = acl.ACL_UINT64

size_of = acl.data_type_size
aclFinalize = acl.finalize
aclGetRecentErrMsg = acl.get_recent_err_msg
aclInit = acl.init

aclrtCreateContext = acl.rt.create_context
aclrtCreateEvent = acl.rt.create_event
aclrtCreateStream = acl.rt.create_stream
aclrtDestroyContext = acl.rt.destroy_context
aclrtDestroyEvent = acl.rt.destroy_event
aclrtDestroyStream = acl.rt.destroy_stream
aclrtEventElapsedTime = acl.rt.event_elapsed_time
aclrtFree = acl.rt.free
aclrtFreeHost = acl.rt.free_host
aclrtGetCurrentContext = acl.rt.get_context
aclrtGetDevice = acl.rt.get_device
aclrtGetDeviceCount = acl.rt.get_device_count
aclrtGetMemInfo = acl.rt.get_mem_info
aclrtMalloc = acl.rt.malloc
aclrtMallocHost = acl.rt.malloc_host
aclrtMemcpy = acl.rt.memcpy
aclrtMemcpyAsync = acl.rt.memcpy_async
aclrtMemset = acl.rt.memset
aclrtMemsetAsync = acl.rt.memset_async
aclrtRecordEvent = acl.rt.record_event
aclrtResetDevice = acl.rt.reset_device
aclrtSetCurrentContext = acl.rt.set_context
aclrtSetDevice = acl.rt.set_device
aclrtStreamQuery = acl.rt.stream_query
aclrtStreamWaitEvent = acl.rt.stream_wait_event
aclrtSynchronizeDevice = acl.rt.synchronize_device
aclrtSynchronizeEvent = acl.rt.synchronize_event
aclrtSynchronizeStream = acl.rt.synchronize_stream

HCCL_SUCCESS = HcclResult.HCCL_SUCCESS
HCCL_REDUCE_SUM = HcclReduceOp.HCCL_REDUCE_SUM
HCCL_REDUCE_PROD = HcclReduceOp.HCCL_REDUCE_PROD
HCCL_REDUCE_MAX = HcclReduceOp.HCCL_REDUCE_MAX
HCCL_REDUCE_MIN = HcclReduceOp.HCCL_REDUCE_MIN
WORLD_GROUP = "default_hccl_group"

hcclFinalize = c_api.HcclCommDestroy
hcclGetRankId = c_api.HcclGetRankId
hcclGetRankSize = c_api.HcclGetRankSize


def hcclInit(rank: int, size: int, group: str, /) -> tuple[int, HcclResult]:
    """(comm, ret): the communicator of all `size` ranks of the job; blocks until all have joined.

    group: "default_hccl_group", or HCCL_E_NOT_SUPPORT. Otherwise as HcclCommInitRootInfo.
    """
    if not isinstance(group, str):
        raise TypeError(f"group is a {type(group).__name__}; expected a str")
    if group != WORLD_GROUP:
        set_recent_err_msg(f"group={group!r}; expected {WORLD_GROUP!r}, all ranks of the job, and no other group yet")
        return 0, HcclResult.HCCL_E_NOT_SUPPORT
    root_info, ret = c_api.HcclGetRootInfo()
    return (0, ret) if isinstance(root_info, int) else c_api.HcclCommInitRootInfo(size, root_info, rank)


def hcclAllReduce(send: int, recv: int, count: int, dtype: int, op: int, comm: int, stream: int, /) -> HcclResult:
    """HcclAllReduce."""
    return c_api.HcclAllReduce(send, recv, count, _as_acl(dtype), op, comm, stream)


def hcclBroadcast(send: int, recv: int, count: int, dtype: int, root: int, comm: int, stream: int, /) -> HcclResult:
    """The root's `count` elements at send come to every rank's recv, the root's too. Off the root send is unused."""
    return c_api.broadcast_out_of_place(send, recv, count, _as_acl(dtype), root, comm, stream)


def hcclAllGather(send: int, recv: int, send_count: int, dtype: int, comm: int, stream: int, /) -> HcclResult:
    """HcclAllGather."""
    return c_api.HcclAllGather(send, recv, send_count, _as_acl(dtype), comm, stream)


def hcclReduceScatter(
    send: int, recv: int, recv_count: int, dtype: int, op: int, comm: int, stream: int, /
) -> HcclResult:
    """HcclReduceScatter."""
    return c_api.HcclReduceScatter(send, recv, recv_count, _as_acl(dtype), op, comm, stream)


def _as_acl(dtype: int) -> int:
    """A plain integer as the aclDataType that it is here; one that is none becomes what Hccl* refuses."""
    number = integer("dtype", dtype)
    if isinstance(dtype, HcclDataType):
        return dtype
    return aclDataType(number) if number in set(aclDataType) else aclDataType.ACL_DT_UNDEFINED
