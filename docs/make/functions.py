"""The functions of pyACL's runtime and of HCCL's C API, and what has become of each here: makes docs/functions.md.

A function is implemented, or it is unsupported by design: then it is there, answers with a code, and its docstring says
why after "Unsupported: ".
"""

import types

from docstrings import first_paragraph, names_called_with, status

from ascend_rt import acl, ge, hccl

ACL = """
    init finalize finalize_reference get_version get_soc_name data_type_size get_recent_err_msg get_cann_version
    create_data_buffer destroy_data_buffer get_data_buffer_addr get_data_buffer_size get_data_buffer_size_v2
    update_data_buffer
"""
RT = {
    "device": """
        set_device reset_device reset_device_force get_device get_device_count get_run_mode set_ts_device
        synchronize_device synchronize_device_with_timeout device_task_abort
    """,
    "context": "create_context destroy_context set_context get_context ctx_get_current_default_stream",
    "stream": """
        create_stream create_stream_with_config destroy_stream destroy_stream_force synchronize_stream
        synchronize_stream_with_timeout stream_query stream_abort stream_get_id get_stream_available_num
        set_stream_failure_mode
    """,
    "event": """
        create_event create_event_with_flag create_event_ex_with_flag destroy_event record_event reset_event
        synchronize_event synchronize_event_with_timeout stream_wait_event query_event query_event_status
        query_event_wait_status event_elapsed_time event_get_timestamp set_op_wait_timeout
    """,
    "memory": """
        malloc malloc_align32 malloc_cached malloc_with_cfg free malloc_host free_host memcpy memcpy_async memcpy2d
        memcpy2d_async memset memset_async get_mem_info pointer_get_attributes
    """,
    "peer": """
        device_can_access_peer device_enable_peer_access device_disable_peer_access device_peer_access_status
        get_devices_topo
    """,
    "callback": "launch_callback subscribe_report unsubscribe_report process_report",
    "reduce": "reduce_async",
    "notify": """
        create_notify destroy_notify record_notify wait_and_reset_notify get_notify_id notify_get_export_key
        notify_set_import_pid notify_import_by_key
    """,
    "IPC memory": "ipc_mem_get_export_key ipc_mem_set_import_pid ipc_mem_import_by_key ipc_mem_close",
    "value": "value_write value_wait",
    "errors": "peek_at_last_error get_last_error set_exception_info_callback",
}
UTIL = """
    numpy_to_ptr numpy_contiguous_to_ptr ptr_to_numpy bytes_to_ptr ptr_to_bytes start_thread stop_thread
"""
COLLECTIVES = """
    HcclAllReduce HcclBroadcast HcclReduceScatter HcclReduceScatterV HcclScatter HcclAllGather HcclAllGatherV HcclReduce
    HcclAlltoAll HcclAlltoAllV HcclAlltoAllVC HcclSend HcclRecv HcclBatchSendRecv HcclBarrier
"""
COMMUNICATORS = """
    HcclGetRootInfo HcclCommInitRootInfo HcclCommInitRootInfoConfig HcclCommInitClusterInfo
    HcclCommInitClusterInfoConfig HcclCommInitAll HcclCreateSubCommConfig HcclCommConfigInit HcclCommDestroy
    HcclGetRankSize HcclGetRankId HcclGetCommName HcclCommGetHandleWithName HcclGetCommAsyncError HcclGetErrorString
    HcclSetConfig HcclGetConfig HcclGetCommConfigCapability HcclCommSuspend HcclCommResume HcclCommGetStatus
    HcclCommRegCommStateCallback HcclGroupStart HcclGroupEnd HcclGroupStatusGet HcclCommSetMemoryRange
    HcclCommUnsetMemoryRange HcclCommActivateCommMemory HcclCommDeactivateCommMemory HcclCommSymWinRegister
    HcclCommSymWinDeregister HcclCommSymWinGet HcclSymWinGetPeerPointer HcclCommWorkingDevNicSet HcclConfigGetInfo
"""
MDL = """
    load_from_file load_from_mem load_from_file_with_mem load_from_mem_with_mem query_size query_size_from_mem unload
    create_desc destroy_desc get_desc get_desc_from_file get_desc_from_mem get_num_inputs get_num_outputs
    get_input_size_by_index get_output_size_by_index get_input_dims get_input_dims_v2 get_output_dims
    get_cur_output_dims get_input_name_by_index get_output_name_by_index get_input_format get_output_format
    get_input_data_type get_output_data_type get_input_index_by_name get_output_index_by_name create_dataset
    destroy_dataset add_dataset_buffer get_dataset_num_buffers get_dataset_buffer execute execute_async execute_v2
    create_exec_config_handle set_exec_config_opt destroy_exec_config_handle get_dynamic_batch set_dynamic_batch_size
    get_dynamic_hw set_dynamic_hw_size get_input_dynamic_gear_count get_input_dynamic_dims set_input_dynamic_dims
    create_config_handle set_config_opt load_with_config destroy_config_handle bundle_load_from_file
    bundle_load_from_mem bundle_unload init_dump set_dump finalize_dump get_op_attr
"""

GROUPS = [
    ("acl", acl, ACL),
    *((f"acl.rt: {noun}", acl.rt, names) for noun, names in RT.items()),
    ("acl.util", acl.util, UTIL),
    ("acl.mdl", ge.mdl, MDL),
]
HEADER = """\
# Every function of pyACL

What pyACL's runtime has, and what has become of it here. This page is made from the code: `python docs/make`. How the
runtime behaves: [acl.md](acl.md); each function in full: [reference.md](reference.md). The functions of HCCL:
[porting.md](porting.md).
"""


def missing() -> list[str]:
    """Functions that are not there at all."""
    hccl_groups = [("hccl", hccl, COLLECTIVES), ("hccl", hccl, COMMUNICATORS)]
    named = [(room, name) for _, room, names in [*GROUPS, *hccl_groups] for name in names.split()]
    return [name for room, name in named if name not in room.__all__]


def page() -> str:
    """docs/functions.md."""
    parts = [HEADER]
    for title, room, names in GROUPS:
        parts.append(f"\n## {title}\n\n| function | | what it does here |\n|---|---|---|\n")
        parts += [_row(room, name) for name in names.split()]
    return "".join(parts)


def _row(room: types.ModuleType, name: str) -> str:
    function = getattr(room, name)
    return f"| `{names_called_with(function)}` | {status(function)} | {first_paragraph(function)} |\n"
