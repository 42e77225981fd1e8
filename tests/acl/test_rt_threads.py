"""acl.rt from several threads at once: each has its context, all share the tables of what is alive."""

import threading

import numpy as np
import pytest

from ascend_rt import acl

from ..answers import made

pytestmark = pytest.mark.threads

THREADS, ROUNDS = 4, 150


def work(number: int, failures: list[BaseException]) -> None:
    dice = np.random.default_rng(number)
    try:
        assert acl.rt.set_device(number % 3) == 0
        stream, event = made(acl.rt.create_stream()), made(acl.rt.create_event())
        for _ in range(ROUNDS):
            n, byte = int(dice.integers(1, 5000)), int(dice.integers(256))
            a, b, host = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc(n, 0)), made(acl.rt.malloc_host(n))
            assert acl.rt.memset_async(a, n, byte, n, stream) == acl.rt.record_event(event, stream) == 0
            assert acl.rt.stream_wait_event(0, event) == acl.rt.memcpy_async(b, n, a, n, 3, 0) == 0
            assert acl.rt.memcpy_async(host, n, b, n, 2, 0) == acl.rt.free(a) == acl.rt.free(b) == 0
            assert acl.rt.synchronize_stream(0) == 0
            assert acl.util.ptr_to_bytes(host, n) == bytes([byte]) * n
            # What fails in one thread is told in that thread.
            wrong = 16 + number
            assert acl.rt.free(wrong) == acl.rt.peek_at_last_error(0) and f"{wrong:#x}" in acl.get_recent_err_msg()
            assert acl.rt.free_host(host) == 0
        assert acl.rt.destroy_stream(stream) == acl.rt.destroy_event(event) == 0
    except BaseException as error:
        failures.append(error)


def test_threads_do_not_disturb_one_another(device: int) -> None:
    # One default stream per device: threads 0 and 3 share that of device 0.
    failures: list[BaseException] = []
    before = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
    threads = [threading.Thread(target=work, args=(number, failures)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert acl.rt.synchronize_device() == 0
    assert acl.rt.get_mem_info(acl.ACL_HBM_MEM) == before
