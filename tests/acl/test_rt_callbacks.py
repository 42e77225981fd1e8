"""acl.rt: callbacks, which run in the thread that is subscribed to their stream; and acl.util's threads."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ascend_rt import acl

from ..answers import made

INVALID, HANDLE = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_INVALID_HANDLE
BLOCK, NO_BLOCK = acl.ACL_CALLBACK_BLOCK, acl.ACL_CALLBACK_NO_BLOCK
NOBODY = acl.ACL_ERROR_RT_STREAM_NO_CB_REG
Hold = Callable[[int], Callable[[], None]]


class Reporter:
    """A thread of the program that runs callbacks, as pyACL's samples make it."""

    def __init__(self) -> None:
        self.over, self.raised = False, list[BaseException]()
        self.thread = made(acl.util.start_thread(self._run, [made(acl.rt.get_context()), 5]))

    def _run(self, arguments: list[int]) -> None:
        context, milliseconds = arguments
        assert acl.rt.set_context(context) == 0
        while not self.over:
            try:
                acl.rt.process_report(milliseconds)
            except ZeroDivisionError as error:
                self.raised.append(error)

    def end(self) -> None:
        self.over = True
        assert acl.util.stop_thread(self.thread) == 0


@pytest.fixture
def reporter(device: int) -> Iterator[Reporter]:
    reporter = Reporter()
    yield reporter
    if not reporter.over:
        reporter.end()


@pytest.fixture
def subscribed(reporter: Reporter, stream: int) -> int:
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    return stream


def test_callbacks_run_in_order_in_the_subscribed_thread(reporter: Reporter, subscribed: int) -> None:
    seen: list[tuple[Any, int]] = []
    for number in range(20):
        call = acl.rt.launch_callback(lambda user_data: seen.append((user_data, threading.get_ident())), [number],
                                      BLOCK, subscribed)
        assert call == 0
    assert acl.rt.synchronize_stream(subscribed) == 0
    assert seen == [([number], reporter.thread) for number in range(20)]


def test_a_stream_waits_for_a_callback_that_blocks(reporter: Reporter, subscribed: int) -> None:
    gate, address = threading.Event(), made(acl.rt.malloc(2, 0))
    assert acl.rt.memset(address, 2, 0, 2) == 0
    assert acl.rt.launch_callback(lambda _: gate.wait(), None, BLOCK, subscribed) == 0
    assert acl.rt.memset_async(address, 1, 1, 1, subscribed) == 0
    assert acl.rt.synchronize_stream_with_timeout(subscribed, 20) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    assert acl.util.ptr_to_bytes(address, 1) == b"\0"
    gate.set()
    assert acl.rt.synchronize_stream(subscribed) == 0
    assert acl.util.ptr_to_bytes(address, 1) == b"\1"


def test_a_stream_goes_on_beside_a_callback_that_does_not_block(reporter: Reporter, subscribed: int) -> None:
    gate, done = threading.Event(), threading.Event()
    assert acl.rt.launch_callback(lambda _: (gate.wait(), done.set()), None, NO_BLOCK, subscribed) == 0
    assert acl.rt.synchronize_stream(subscribed) == 0
    assert not done.is_set()
    gate.set()
    assert done.wait(10)


def test_what_a_callback_raises_comes_out_of_process_report_and_of_the_stream(
    reporter: Reporter, subscribed: int
) -> None:
    assert acl.rt.launch_callback(lambda number: 1 // number, 0, BLOCK, subscribed) == 0
    assert acl.rt.synchronize_stream(subscribed) == acl.ACL_ERROR_RT_INTERNAL_ERROR
    assert "division" in acl.get_recent_err_msg()
    assert [type(error) for error in reporter.raised] == [ZeroDivisionError]


def test_without_a_subscription_there_is_a_code(reporter: Reporter, stream: int) -> None:
    assert acl.rt.launch_callback(print, None, BLOCK, stream) == NOBODY
    assert acl.rt.process_report(1) == acl.ACL_ERROR_RT_THREAD_SUBSCRIBE
    assert acl.rt.unsubscribe_report(reporter.thread, stream) == acl.ACL_ERROR_RT_STREAM_SUBSCRIBE
    assert acl.rt.subscribe_report(0, stream) == INVALID
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    assert acl.rt.subscribe_report(reporter.thread, stream) == acl.ACL_ERROR_RT_STREAM_SUBSCRIBE
    assert acl.rt.unsubscribe_report(threading.get_ident(), stream) == acl.ACL_ERROR_RT_STREAM_SUBSCRIBE
    assert acl.rt.unsubscribe_report(reporter.thread, stream) == 0
    assert acl.rt.launch_callback(print, None, BLOCK, stream) == NOBODY
    for block_type in (-1, 2):
        assert acl.rt.launch_callback(print, None, block_type, stream) == INVALID


def test_one_thread_runs_the_callbacks_of_two_streams(reporter: Reporter, subscribed: int) -> None:
    other, seen = made(acl.rt.create_stream()), []
    assert acl.rt.subscribe_report(reporter.thread, other) == 0
    for number in range(10):
        for queue in (subscribed, other):
            assert acl.rt.launch_callback(seen.append, (queue, number), BLOCK, queue) == 0
    assert acl.rt.synchronize_device() == 0
    assert [number for queue, number in seen if queue == other] == list(range(10))
    assert [number for queue, number in seen if queue == subscribed] == list(range(10))


def test_unsubscribing_frees_a_stream_that_waits(device: int, stream: int) -> None:
    thread = threading.get_ident()  # it never calls process_report
    assert acl.rt.subscribe_report(thread, stream) == 0
    assert acl.rt.launch_callback(print, "never", BLOCK, stream) == 0
    assert acl.rt.unsubscribe_report(thread, stream) == 0
    assert acl.rt.synchronize_stream(stream) == NOBODY
    assert "before the callback ran" in acl.get_recent_err_msg()


def test_abort_frees_a_stream_that_waits(device: int, stream: int) -> None:
    thread, seen = threading.get_ident(), []
    assert acl.rt.subscribe_report(thread, stream) == 0
    assert acl.rt.launch_callback(seen.append, 1, BLOCK, stream) == 0
    assert acl.rt.stream_abort(stream) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_STREAM_ABORT
    assert acl.rt.unsubscribe_report(thread, stream) == 0


def test_process_report_in_the_callers_own_thread(device: int, stream: int) -> None:
    thread, seen = threading.get_ident(), []
    assert acl.rt.subscribe_report(thread, stream) == 0
    assert acl.rt.process_report(1) == acl.ACL_ERROR_RT_REPORT_TIMEOUT
    for number in range(3):
        assert acl.rt.launch_callback(seen.append, number, NO_BLOCK, stream) == 0
    for number in range(3):
        assert acl.rt.process_report(-1) == 0 and seen == list(range(number + 1))
    for timeout in (0, -2):
        assert acl.rt.process_report(timeout) == INVALID
    assert acl.rt.unsubscribe_report(thread, stream) == 0


def test_threads_of_acl_util(device: int) -> None:
    seen: list[Any] = []
    thread = made(acl.util.start_thread(seen.append, ["a", 1]))
    assert acl.util.stop_thread(thread) == 0 and seen == [["a", 1]]
    assert acl.util.stop_thread(thread) == acl.util.stop_thread(threading.get_ident()) == INVALID
    for wrong in (lambda: acl.util.start_thread(1, []), lambda: acl.util.stop_thread("1")):
        with pytest.raises(TypeError):
            wrong()
