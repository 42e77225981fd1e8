"""The C spellings of acl.rt and of HCCL's first generation, for people who read C samples: thin aliases.

What C returns through a pointer stands before the code: (value, ret). In the lower-case hccl functions a plain integer
is an aclDataType (ACL_FLOAT16 is 1), where HcclAllReduce and its like read it as an HcclDataType (1 is int16).
"""

# ruff: noqa: N802, N816  the names are C's
import re
from typing import Any

from . import acl, hccl
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
aclrtCreateEventExWithFlag = acl.rt.create_event_ex_with_flag
aclrtCreateEventWithFlag = acl.rt.create_event_with_flag
aclrtCreateNotify = acl.rt.create_notify
aclrtCreateStream = acl.rt.create_stream
aclrtCreateStreamWithConfig = acl.rt.create_stream_with_config
aclrtCtxGetCurrentDefaultStream = acl.rt.ctx_get_current_default_stream
aclrtDestroyContext = acl.rt.destroy_context
aclrtDestroyEvent = acl.rt.destroy_event
aclrtDestroyNotify = acl.rt.destroy_notify
aclrtDestroyStream = acl.rt.destroy_stream
aclrtDestroyStreamForce = acl.rt.destroy_stream_force
aclrtDeviceCanAccessPeer = acl.rt.device_can_access_peer
aclrtDeviceDisablePeerAccess = acl.rt.device_disable_peer_access
aclrtDeviceEnablePeerAccess = acl.rt.device_enable_peer_access
aclrtDeviceGetBareTgid = acl.rt.device_get_bare_tgid
aclrtDevicePeerAccessStatus = acl.rt.device_peer_access_status
aclrtDeviceTaskAbort = acl.rt.device_task_abort
aclrtEventElapsedTime = acl.rt.event_elapsed_time
aclrtEventGetTimestamp = acl.rt.event_get_timestamp
aclrtFree = acl.rt.free
aclrtFreeHost = acl.rt.free_host
aclrtGetCurrentContext = acl.rt.get_context
aclrtGetDevice = acl.rt.get_device
aclrtGetDeviceCount = acl.rt.get_device_count
aclrtGetDevicesTopo = acl.rt.get_devices_topo
aclrtGetLastError = acl.rt.get_last_error
aclrtGetMemInfo = acl.rt.get_mem_info
aclrtGetNotifyId = acl.rt.get_notify_id
aclrtGetRunMode = acl.rt.get_run_mode
aclrtGetStreamAvailableNum = acl.rt.get_stream_available_num
aclrtIpcMemClose = acl.rt.ipc_mem_close
aclrtIpcMemGetExportKey = acl.rt.ipc_mem_get_export_key
aclrtIpcMemImportByKey = acl.rt.ipc_mem_import_by_key
aclrtIpcMemSetImportPid = acl.rt.ipc_mem_set_import_pid
aclrtLaunchCallback = acl.rt.launch_callback
aclrtMalloc = acl.rt.malloc
aclrtMallocAlign32 = acl.rt.malloc_align32
aclrtMallocCached = acl.rt.malloc_cached
aclrtMallocHost = acl.rt.malloc_host
aclrtMallocWithCfg = acl.rt.malloc_with_cfg
aclrtMemcpy = acl.rt.memcpy
aclrtMemcpy2d = acl.rt.memcpy2d
aclrtMemcpy2dAsync = acl.rt.memcpy2d_async
aclrtMemcpyAsync = acl.rt.memcpy_async
aclrtMemset = acl.rt.memset
aclrtMemsetAsync = acl.rt.memset_async
aclrtNotifyGetExportKey = acl.rt.notify_get_export_key
aclrtNotifyImportByKey = acl.rt.notify_import_by_key
aclrtNotifySetImportPid = acl.rt.notify_set_import_pid
aclrtPeekAtLastError = acl.rt.peek_at_last_error
aclrtPointerGetAttributes = acl.rt.pointer_get_attributes
aclrtProcessReport = acl.rt.process_report
aclrtQueryEvent = acl.rt.query_event
aclrtQueryEventStatus = acl.rt.query_event_status
aclrtQueryEventWaitStatus = acl.rt.query_event_wait_status
aclrtRecordEvent = acl.rt.record_event
aclrtRecordNotify = acl.rt.record_notify
aclrtReduceAsync = acl.rt.reduce_async
aclrtResetDevice = acl.rt.reset_device
aclrtResetDeviceForce = acl.rt.reset_device_force
aclrtResetEvent = acl.rt.reset_event
aclrtSetCurrentContext = acl.rt.set_context
aclrtSetDevice = acl.rt.set_device
aclrtSetExceptionInfoCallback = acl.rt.set_exception_info_callback
aclrtSetOpWaitTimeout = acl.rt.set_op_wait_timeout
aclrtSetStreamFailureMode = acl.rt.set_stream_failure_mode
aclrtSetTsDevice = acl.rt.set_ts_device
aclrtStreamAbort = acl.rt.stream_abort
aclrtStreamGetId = acl.rt.stream_get_id
aclrtStreamQuery = acl.rt.stream_query
aclrtStreamWaitEvent = acl.rt.stream_wait_event
aclrtSubscribeReport = acl.rt.subscribe_report
aclrtSynchronizeDevice = acl.rt.synchronize_device
aclrtSynchronizeDeviceWithTimeout = acl.rt.synchronize_device_with_timeout
aclrtSynchronizeEvent = acl.rt.synchronize_event
aclrtSynchronizeEventWithTimeout = acl.rt.synchronize_event_with_timeout
aclrtSynchronizeStream = acl.rt.synchronize_stream
aclrtSynchronizeStreamWithTimeout = acl.rt.synchronize_stream_with_timeout
aclrtUnsubscribeReport = acl.rt.unsubscribe_report
aclrtValueWait = acl.rt.value_wait
aclrtValueWrite = acl.rt.value_write
aclrtWaitAndResetNotify = acl.rt.wait_and_reset_notify
aclrtGetSocName = acl.get_soc_name

HCCL_SUCCESS = HcclResult.HCCL_SUCCESS
HCCL_REDUCE_SUM = HcclReduceOp.HCCL_REDUCE_SUM
HCCL_REDUCE_PROD = HcclReduceOp.HCCL_REDUCE_PROD
HCCL_REDUCE_MAX = HcclReduceOp.HCCL_REDUCE_MAX
HCCL_REDUCE_MIN = HcclReduceOp.HCCL_REDUCE_MIN
WORLD_GROUP = "default_hccl_group"

hcclFinalize = hccl.HcclCommDestroy
hcclGetRankId = hccl.HcclGetRankId
hcclGetRankSize = hccl.HcclGetRankSize


def hcclInit(rank: int, size: int, group: str, /) -> tuple[int, HcclResult]:
    """(comm, ret): the communicator of all `size` ranks of the job; blocks until all have joined.

    group: "default_hccl_group", or HCCL_E_NOT_SUPPORT. Otherwise as HcclCommInitRootInfo.
    """
    if not isinstance(group, str):
        raise TypeError(f"group is a {type(group).__name__}; expected a str")
    if group != WORLD_GROUP:
        set_recent_err_msg(f"group={group!r}; expected {WORLD_GROUP!r}, all ranks of the job, and no other group yet")
        return 0, HcclResult.HCCL_E_NOT_SUPPORT
    root_info, ret = hccl.HcclGetRootInfo()
    return (0, ret) if isinstance(root_info, int) else hccl.HcclCommInitRootInfo(size, root_info, rank)


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


def __getattr__(name: str) -> Any:
    """aclmdlRI...: those of acl.mdl, which comes with ascend_rt.ge. AttributeError: that was not imported."""
    words = re.findall("[A-Z][a-z]*", name.removeprefix("aclmdlRI"))
    if name.startswith("aclmdlRI") and words:
        return getattr(acl.mdl, "ri_" + "_".join(words).lower())
    raise AttributeError(f"module 'ascend_rt.capi' has no attribute {name!r}")


def _as_acl(dtype: int) -> int:
    """A plain integer as the aclDataType that it is here; one that is none becomes what Hccl* refuses."""
    number = integer("dtype", dtype)
    if isinstance(dtype, HcclDataType):
        return dtype
    return aclDataType(number) if number in set(aclDataType) else aclDataType.ACL_DT_UNDEFINED
