"""Data goes round all devices of the host: from the first to the second and on, and back to the host."""

import sys

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE = 1, 2, 3
COUNT = 100_003


def check_ret(message: str, ret: int) -> None:
    if ret != 0:
        raise RuntimeError(f"{message} failed, ret = {ret}: {acl.get_recent_err_msg()}")


def main() -> int:
    check_ret("acl.init", acl.init())
    count, ret = acl.rt.get_device_count()
    check_ret("acl.rt.get_device_count", ret)
    if count < 2:
        print(f"this program copies between devices, and there is {count}")
        return 1
    values = np.random.default_rng(12).integers(0, 1 << 30, COUNT, np.int32)
    nbytes = values.nbytes
    buffers, streams, contexts = [], [], []
    for device_id in range(count):
        check_ret("acl.rt.set_device", acl.rt.set_device(device_id))
        context, ret = acl.rt.get_context()
        check_ret("acl.rt.get_context", ret)
        buffer, ret = acl.rt.malloc(nbytes, ACL_MEM_MALLOC_HUGE_FIRST)
        check_ret("acl.rt.malloc", ret)
        stream, ret = acl.rt.create_stream()
        check_ret("acl.rt.create_stream", ret)
        contexts.append(context)
        buffers.append(buffer)
        streams.append(stream)
        if device_id:
            can, ret = acl.rt.device_can_access_peer(device_id, device_id - 1)
            check_ret("acl.rt.device_can_access_peer", ret)
            if not can:
                print(f"device {device_id} does not reach device {device_id - 1}")
                return 1
            check_ret("acl.rt.device_enable_peer_access", acl.rt.device_enable_peer_access(device_id - 1, 0))

    check_ret("acl.rt.set_context", acl.rt.set_context(contexts[0]))
    pointer = acl.util.numpy_to_ptr(values)
    ret = acl.rt.memcpy(buffers[0], nbytes, pointer, nbytes, ACL_MEMCPY_HOST_TO_DEVICE)
    check_ret("acl.rt.memcpy", ret)
    for device_id in range(1, count):
        check_ret("acl.rt.set_context", acl.rt.set_context(contexts[device_id]))
        ret = acl.rt.memcpy_async(
            buffers[device_id], nbytes, buffers[device_id - 1], nbytes, ACL_MEMCPY_DEVICE_TO_DEVICE, streams[device_id]
        )
        check_ret("acl.rt.memcpy_async", ret)
        check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(streams[device_id]))

    back = np.zeros_like(values)
    ret = acl.rt.memcpy(acl.util.numpy_to_ptr(back), nbytes, buffers[-1], nbytes, ACL_MEMCPY_DEVICE_TO_HOST)
    check_ret("acl.rt.memcpy", ret)
    print(f"{nbytes} bytes over {count} devices: {'right' if np.array_equal(values, back) else 'WRONG'}")
    for device_id in range(count):
        check_ret("acl.rt.set_context", acl.rt.set_context(contexts[device_id]))
        check_ret("acl.rt.destroy_stream", acl.rt.destroy_stream(streams[device_id]))
        check_ret("acl.rt.free", acl.rt.free(buffers[device_id]))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(device_id))
    check_ret("acl.finalize", acl.finalize())
    return 0


if __name__ == "__main__":
    sys.exit(main())
