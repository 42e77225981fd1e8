"""acl.mdl: models by pyACL's names. A model is an .om of hccl-atc; see docs/atc.md.

model, ret = acl.mdl.load_from_file("step.om")        unload(model)
desc = acl.mdl.create_desc()                          get_desc(desc, model): inputs and outputs
data = acl.mdl.create_dataset()                       add_dataset_buffer(data, buffer)
ret = acl.mdl.execute(model, inputs, outputs)         execute_async(..., stream)
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
    "unload",
]
