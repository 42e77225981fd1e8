"""Frames go through two streams: one uploads them, the other works on them and hands results to a callback.

The streams are ordered by events, two buffers take turns, and a thread of its own runs the callbacks, as in the samples
for asynchronous inference.
"""

import sys

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE = 1, 2, 3
ACL_CALLBACK_BLOCK = 1
ACL_FLOAT, ACL_REDUCE_SUM = 0, 10
FRAMES, PIXELS, BUFFERS = 12, 64 * 64, 2
NBYTES = 4 * PIXELS


def check_ret(message: str, ret: int) -> None:
    if ret != 0:
        raise RuntimeError(f"{message} failed, ret = {ret}: {acl.get_recent_err_msg()}")


def made(message: str, answer: tuple[int, int]) -> int:
    check_ret(message, answer[1])
    return answer[0]


class Pipeline:
    """result = 2 * frame + background, computed on the device."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        check_ret("acl.rt.set_device", acl.rt.set_device(device_id))
        self.context = made("acl.rt.create_context", acl.rt.create_context(device_id))
        self.upload = made("acl.rt.create_stream", acl.rt.create_stream())
        self.work = made("acl.rt.create_stream", acl.rt.create_stream())
        self.uploaded = [made("acl.rt.create_event", acl.rt.create_event()) for _ in range(BUFFERS)]
        self.free = [made("acl.rt.create_event", acl.rt.create_event()) for _ in range(BUFFERS)]
        self.frames = [self.on_device() for _ in range(BUFFERS)]
        self.background, self.result = self.on_device(), self.on_device()
        self.host = made("acl.rt.malloc_host", acl.rt.malloc_host(NBYTES))
        self.means: list[tuple[int, float]] = []
        self.running = True
        self.thread = made("acl.util.start_thread", acl.util.start_thread(self.run_callbacks, [self.context, 100]))
        check_ret("acl.rt.subscribe_report", acl.rt.subscribe_report(self.thread, self.work))

    def on_device(self) -> int:
        return made("acl.rt.malloc", acl.rt.malloc(NBYTES, ACL_MEM_MALLOC_HUGE_FIRST))

    def run_callbacks(self, arguments: list[int]) -> None:
        context, timeout = arguments
        check_ret("acl.rt.set_context", acl.rt.set_context(context))
        while self.running:
            acl.rt.process_report(timeout)

    def finished(self, user_data: list[int]) -> None:
        (number,) = user_data
        result = acl.util.ptr_to_numpy(self.host, (PIXELS,), 11)  # NPY_FLOAT
        self.means.append((number, float(result.mean())))

    def set_background(self, pixels: np.ndarray) -> None:
        pointer = acl.util.numpy_to_ptr(pixels)
        ret = acl.rt.memcpy(self.background, NBYTES, pointer, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE)
        check_ret("acl.rt.memcpy", ret)

    def put(self, number: int, pixels: np.ndarray) -> None:
        buffer = number % BUFFERS
        frame = self.frames[buffer]
        # Wait until the work on the frame that was here before is done; nothing for the first ones.
        check_ret("stream_wait_event", acl.rt.stream_wait_event(self.upload, self.free[buffer]))
        pointer = acl.util.numpy_to_ptr(pixels)
        ret = acl.rt.memcpy_async(frame, NBYTES, pointer, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, self.upload)
        check_ret("acl.rt.memcpy_async", ret)
        check_ret("acl.rt.record_event", acl.rt.record_event(self.uploaded[buffer], self.upload))

        check_ret("stream_wait_event", acl.rt.stream_wait_event(self.work, self.uploaded[buffer]))
        ret = acl.rt.memcpy_async(self.result, NBYTES, self.background, NBYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, self.work)
        check_ret("acl.rt.memcpy_async", ret)
        for _ in range(2):
            ret = acl.rt.reduce_async(self.result, frame, NBYTES, ACL_REDUCE_SUM, ACL_FLOAT, self.work, 0)
            check_ret("acl.rt.reduce_async", ret)
        check_ret("acl.rt.record_event", acl.rt.record_event(self.free[buffer], self.work))
        ret = acl.rt.memcpy_async(self.host, NBYTES, self.result, NBYTES, ACL_MEMCPY_DEVICE_TO_HOST, self.work)
        check_ret("acl.rt.memcpy_async", ret)
        ret = acl.rt.launch_callback(self.finished, [number], ACL_CALLBACK_BLOCK, self.work)
        check_ret("acl.rt.launch_callback", ret)

    def end(self) -> None:
        check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.work))
        check_ret("acl.rt.unsubscribe_report", acl.rt.unsubscribe_report(self.thread, self.work))
        self.running = False
        check_ret("acl.util.stop_thread", acl.util.stop_thread(self.thread))
        for address in (*self.frames, self.background, self.result):
            check_ret("acl.rt.free", acl.rt.free(address))
        check_ret("acl.rt.free_host", acl.rt.free_host(self.host))
        for event in (*self.uploaded, *self.free):
            check_ret("acl.rt.destroy_event", acl.rt.destroy_event(event))
        for stream in (self.upload, self.work):
            check_ret("acl.rt.destroy_stream", acl.rt.destroy_stream(stream))
        check_ret("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(self.device_id))


def main() -> int:
    check_ret("acl.init", acl.init())
    device_id = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    pipeline = Pipeline(device_id)
    pipeline.set_background(np.full(PIXELS, 0.5, np.float32) + np.arange(PIXELS, dtype=np.float32) % 2)
    frames = [np.arange(PIXELS, dtype=np.float32) % 16 + 10 * number for number in range(FRAMES)]
    for number, pixels in enumerate(frames):
        pipeline.put(number, pixels)
    pipeline.end()
    for number, mean in pipeline.means:
        print(f"frame {number}: mean {mean:g}")
    check_ret("acl.finalize", acl.finalize())
    return 0


if __name__ == "__main__":
    sys.exit(main())
