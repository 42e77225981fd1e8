"""Inference as programs of pyACL do it, with no word of ascend_rt: infer.py MODEL INPUT... prints sums and outputs.

Each input is a .npy file with a batch; the first is run by execute, the others are queued by execute_async. Rank r of a
job adds r to what it reads.
"""

import json
import os
import sys

import acl
import numpy as np

ACL_SUCCESS = 0
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
NUMPY_TYPE = {0: np.float32, 3: np.int32}  # by aclDataType


def check(call, ret):
    if ret != ACL_SUCCESS:
        raise RuntimeError(f"{call}: ret={ret} {acl.get_recent_err_msg()}")


class Dataset:
    """Device memory for all inputs, or all outputs, of a model."""

    def __init__(self, count, size_of):
        self.handle = acl.mdl.create_dataset()
        self.items = []
        for index in range(count):
            size = size_of(index)
            pointer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
            check("acl.rt.malloc", ret)
            buffer = acl.create_data_buffer(pointer, size)
            _, ret = acl.mdl.add_dataset_buffer(self.handle, buffer)
            check("acl.mdl.add_dataset_buffer", ret)
            self.items.append((pointer, size, buffer))

    def destroy(self):
        for pointer, _, buffer in self.items:
            check("acl.destroy_data_buffer", acl.destroy_data_buffer(buffer))
            check("acl.rt.free", acl.rt.free(pointer))
        check("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(self.handle))


class Net:
    """A model on a device, from acl.init to acl.finalize."""

    def __init__(self, path, device):
        self.device = device
        check("acl.init", acl.init())
        check("acl.rt.set_device", acl.rt.set_device(device))
        self.context, ret = acl.rt.create_context(device)
        check("acl.rt.create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check("acl.rt.create_stream", ret)

        work, weight, ret = acl.mdl.query_size(path)
        check("acl.mdl.query_size", ret)
        self.work, ret = acl.rt.malloc(work, ACL_MEM_MALLOC_HUGE_FIRST)
        check("acl.rt.malloc", ret)
        self.weight, ret = acl.rt.malloc(weight, ACL_MEM_MALLOC_HUGE_FIRST)
        check("acl.rt.malloc", ret)
        self.model, ret = acl.mdl.load_from_file_with_mem(path, self.work, work, self.weight, weight)
        check("acl.mdl.load_from_file_with_mem", ret)

        self.desc = acl.mdl.create_desc()
        check("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.model))
        inputs, outputs = acl.mdl.get_num_inputs(self.desc), acl.mdl.get_num_outputs(self.desc)
        self.inputs = Dataset(inputs, lambda index: acl.mdl.get_input_size_by_index(self.desc, index))
        self.outputs = Dataset(outputs, lambda index: acl.mdl.get_output_size_by_index(self.desc, index))

    def __call__(self, arrays, queued):
        for array, (pointer, size, _) in zip(arrays, self.inputs.items, strict=True):
            data = array.tobytes()
            source = acl.util.bytes_to_ptr(data)
            check("acl.rt.memcpy", acl.rt.memcpy(pointer, size, source, len(data), ACL_MEMCPY_HOST_TO_DEVICE))
        datasets = self.inputs.handle, self.outputs.handle
        if queued:
            check("acl.mdl.execute_async", acl.mdl.execute_async(self.model, *datasets, self.stream))
            check("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
        else:
            check("acl.mdl.execute", acl.mdl.execute(self.model, *datasets))
        return [self.read(index) for index in range(len(self.outputs.items))]

    def read(self, index):
        pointer, size, _ = self.outputs.items[index]
        host, ret = acl.rt.malloc_host(size)
        check("acl.rt.malloc_host", ret)
        check("acl.rt.memcpy", acl.rt.memcpy(host, size, pointer, size, ACL_MEMCPY_DEVICE_TO_HOST))
        dims, ret = acl.mdl.get_cur_output_dims(self.desc, index)
        check("acl.mdl.get_cur_output_dims", ret)
        kind = NUMPY_TYPE[acl.mdl.get_output_data_type(self.desc, index)]
        array = np.frombuffer(acl.util.ptr_to_bytes(host, size), kind).reshape(dims["dims"]).copy()
        check("acl.rt.free_host", acl.rt.free_host(host))
        return array

    def release(self):
        self.inputs.destroy()
        self.outputs.destroy()
        check("acl.mdl.unload", acl.mdl.unload(self.model))
        check("acl.mdl.destroy_desc", acl.mdl.destroy_desc(self.desc))
        check("acl.rt.free", acl.rt.free(self.work))
        check("acl.rt.free", acl.rt.free(self.weight))
        check("acl.rt.destroy_stream", acl.rt.destroy_stream(self.stream))
        check("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check("acl.rt.reset_device", acl.rt.reset_device(self.device))
        check("acl.finalize", acl.finalize())


def main():
    path, *batches = sys.argv[1:]
    rank = int(os.environ.get("RANK_ID", "0"))
    net = Net(path, int(os.environ.get("DEVICE_ID", "0")))
    results = []
    for number, batch in enumerate(batches):
        outputs = net([np.load(batch) + np.float32(rank)], queued=number > 0)
        results.append([output.tolist() for output in outputs])
    net.release()
    print(json.dumps(results))


main()
