"""acl.mdl: models by pyACL's names. A model is an .om of hccl-atc; see docs/atc.md.

model, ret = acl.mdl.load_from_file("step.om")        unload(model)
desc = acl.mdl.create_desc()                          get_desc(desc, model): inputs and outputs
data = acl.mdl.create_dataset()                       add_dataset_buffer(data, buffer)
ret = acl.mdl.execute(model, inputs, outputs)         execute_async(..., stream)

Beside them, and not among pyACL's: graphs that are captured from streams, as aclmdlRI* of acl_rt.h; see docs/graph.md.

ret = acl.mdl.ri_capture_begin(stream, mode)          model, ret = acl.mdl.ri_capture_end(stream)
ret = acl.mdl.ri_execute_async(model, stream)
"""

from .datasets import (
    add_dataset_buffer,
    create_dataset,
    destroy_dataset,
    get_dataset_buffer,
    get_dataset_num_buffers,
)
from .descriptions import (
    create_desc,
    destroy_desc,
    get_cur_output_dims,
    get_desc,
    get_desc_from_file,
    get_desc_from_mem,
    get_input_data_type,
    get_input_dims,
    get_input_dims_v2,
    get_input_format,
    get_input_index_by_name,
    get_input_name_by_index,
    get_input_size_by_index,
    get_num_inputs,
    get_num_outputs,
    get_output_data_type,
    get_output_dims,
    get_output_format,
    get_output_index_by_name,
    get_output_name_by_index,
    get_output_size_by_index,
)
from .execution import execute, execute_async
from .models import (
    load_from_file,
    load_from_file_with_mem,
    load_from_mem,
    load_from_mem_with_mem,
    query_size,
    query_size_from_mem,
    unload,
)
from .running_instances import (
    ri_abort,
    ri_capture_begin,
    ri_capture_end,
    ri_capture_get_info,
    ri_capture_thread_exchange_mode,
    ri_debug_json_print,
    ri_debug_print,
    ri_destroy,
    ri_execute,
    ri_execute_async,
    ri_get_id,
    ri_get_name,
    ri_set_name,
)
from .task_groups import (
    ri_capture_task_grp_begin,
    ri_capture_task_grp_end,
    ri_capture_task_update_begin,
    ri_capture_task_update_end,
)

__all__ = [
    "add_dataset_buffer",
    "create_dataset",
    "create_desc",
    "destroy_dataset",
    "destroy_desc",
    "execute",
    "execute_async",
    "get_cur_output_dims",
    "get_dataset_buffer",
    "get_dataset_num_buffers",
    "get_desc",
    "get_desc_from_file",
    "get_desc_from_mem",
    "get_input_data_type",
    "get_input_dims",
    "get_input_dims_v2",
    "get_input_format",
    "get_input_index_by_name",
    "get_input_name_by_index",
    "get_input_size_by_index",
    "get_num_inputs",
    "get_num_outputs",
    "get_output_data_type",
    "get_output_dims",
    "get_output_format",
    "get_output_index_by_name",
    "get_output_name_by_index",
    "get_output_size_by_index",
    "load_from_file",
    "load_from_file_with_mem",
    "load_from_mem",
    "load_from_mem_with_mem",
    "query_size",
    "query_size_from_mem",
    "ri_abort",
    "ri_capture_begin",
    "ri_capture_end",
    "ri_capture_get_info",
    "ri_capture_task_grp_begin",
    "ri_capture_task_grp_end",
    "ri_capture_task_update_begin",
    "ri_capture_task_update_end",
    "ri_capture_thread_exchange_mode",
    "ri_debug_json_print",
    "ri_debug_print",
    "ri_destroy",
    "ri_execute",
    "ri_execute_async",
    "ri_get_id",
    "ri_get_name",
    "ri_set_name",
    "unload",
]
