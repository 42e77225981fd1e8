"""Streams and events by themselves: no communicator, no other rank."""

import gc
import threading
import time
import traceback
from collections.abc import Callable

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.acl.errors import AclError

pytestmark = pytest.mark.threads


def gate(stream: rt.Stream) -> Callable[[], None]:
    """Holds up all that is queued behind it until it is called."""
    event = threading.Event()
    stream.launch(event.wait)
    return event.set


def test_tasks_run_in_order() -> None:
    stream, ran = rt.Stream(), list[int]()
    for number in range(500):
        stream.launch(lambda number=number: ran.append(number))  # type: ignore[misc]
    stream.synchronize()
    assert ran == list(range(500)) and stream.query() and stream.late_sleeps == 0


def test_copies_and_fills() -> None:
    stream, random = rt.Stream(), np.random.default_rng(1)
    source, to = random.integers(0, 255, 1000, np.uint8), np.zeros(1000, np.uint8)
    stream.copy(to.ctypes.data, source.ctypes.data, 700, (source, to))
    stream.fill(to.ctypes.data + 650, 300, 10, to)
    stream.synchronize()
    assert (
        (to[:650] == source[:650]).all() and (to[650:660] == 300 % 256).all() and (to[660:700] == source[660:700]).all()
    )
    assert not to[700:].any()


def test_two_streams_run_at_the_same_time() -> None:
    one, other, met = rt.Stream(), rt.Stream(), threading.Barrier(2)
    for stream in (one, other):
        stream.launch(lambda: met.wait(10))
    one.synchronize()
    other.synchronize()


# ---- events ----


def test_an_event_is_complete_when_all_before_it_is() -> None:
    stream, other, ran = rt.Stream(), rt.Stream(), list[str]()
    go = gate(stream)
    stream.launch(lambda: ran.append("first"))
    event = stream.record()
    other.wait(event)
    other.launch(lambda: ran.append("second"))
    assert not event.query() and not other.query() and ran == []
    go()
    other.synchronize()
    assert event.query() and not event.failed and ran == ["first", "second"]


def test_an_event_that_was_never_recorded_is_complete() -> None:
    event, stream = rt.Event(), rt.Stream()
    assert event.query() and not event.failed
    event.synchronize()
    stream.wait(event)
    stream.synchronize()


def test_recorded_again_an_event_means_the_new_point() -> None:
    stream, event = rt.Stream(), rt.Event()
    stream.record(event)
    stream.synchronize()
    assert event.query()
    go = gate(stream)
    assert stream.record(event) is event and not event.query()
    go()
    event.synchronize()


def test_who_waits_already_waits_for_the_point_of_that_time() -> None:
    stream, other, event = rt.Stream(), rt.Stream(), rt.Event()
    stream.record(event)
    other.wait(event)
    go = gate(stream)
    stream.record(event)
    other.synchronize()
    assert not event.query()
    go()
    stream.synchronize()


def test_time_between_events() -> None:
    stream, began = rt.Stream(), time.monotonic()
    start = stream.record()
    stream.launch(lambda: time.sleep(0.05))
    end = stream.record()
    end.synchronize()
    took = 1000 * (time.monotonic() - began)
    assert 50 <= start.elapsed_ms(end) <= took and end.elapsed_ms(start) == -start.elapsed_ms(end)
    with pytest.raises(ValueError, match="never recorded"):
        start.elapsed_ms(rt.Event())
    go = gate(stream)
    with pytest.raises(ValueError, match="not complete"):
        start.elapsed_ms(stream.record())
    go()
    stream.synchronize()


# ---- failures ----


def fail() -> None:
    raise LookupError("nothing here")


def test_an_exception_comes_out_of_synchronize_once() -> None:
    stream, ran = rt.Stream(), list[str]()
    stream.launch(fail)
    line = traceback.extract_stack()[-1].lineno - 1  # type: ignore[operator]
    stream.launch(lambda: ran.append("behind it"))
    event = stream.record()
    with pytest.raises(LookupError, match="nothing here") as error:
        stream.synchronize()
    assert error.value.__notes__ == [f"raised in a function that was queued at test_stream.py:{line}"]
    assert traceback.extract_tb(error.value.__traceback__)[-1].name == "fail"
    assert ran == [] and event.query() and event.failed
    stream.synchronize()
    stream.launch(lambda: ran.append("after it"))
    stream.synchronize()
    assert ran == ["after it"] and not stream.record().failed


def test_even_an_exit_in_a_function_is_told() -> None:
    stream = rt.Stream()
    stream.launch(lambda: exec("raise SystemExit(3)"))
    with pytest.raises(SystemExit):
        stream.synchronize()


def test_a_failure_travels_with_events() -> None:
    """one -> two -> three by events: all fail of the same cause; four, which waits for a point before it, does not."""
    one, two, three, four = (rt.Stream() for _ in range(4))
    ran = list[int]()
    before = one.record()
    one.launch(fail)
    two.wait(one.record())
    two.launch(lambda: ran.append(2))
    three.wait(two.record())
    three.launch(lambda: ran.append(3))
    four.wait(before)
    four.launch(lambda: ran.append(4))
    four.synchronize()
    with pytest.raises(LookupError) as root:
        one.synchronize()
    for stream in (two, three):
        with pytest.raises(LookupError) as error:
            stream.synchronize()
        assert error.value is root.value
        stream.synchronize()
    assert ran == [4]


def test_a_stream_that_goes_on_after_failures() -> None:
    stream, ran = rt.Stream(goes_on_after_failure=True), list[int]()
    stream.launch(fail)
    stream.launch(lambda: ran.append(1))
    with pytest.raises(LookupError):
        stream.synchronize()
    assert ran == [1]


# ---- waiting, and the end ----


def test_synchronize_with_a_timeout() -> None:
    stream = rt.Stream()
    go = gate(stream)
    started = time.monotonic()
    with pytest.raises(AclError, match=r"did not finish within 0.1 s") as error:
        stream.synchronize(timeout=0.1)
    assert error.value.code == 507046 and 0.1 <= time.monotonic() - started < 10
    event = stream.record()
    with pytest.raises(AclError, match=r"did not complete within 0.01 s") as error:
        event.synchronize(0.01)
    assert error.value.code == 507047
    go()
    stream.synchronize(timeout=10)
    event.synchronize(10)


def test_two_threads_may_wait_for_one_stream() -> None:
    stream, ended = rt.Stream(), list[int]()
    go = gate(stream)

    def wait() -> None:
        stream.synchronize()
        ended.append(1)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    go()
    for thread in threads:
        thread.join(10)
    assert ended == [1] * 4


def test_what_is_queued_is_kept_and_let_go_of() -> None:
    stream = rt.Stream()
    go = gate(stream)
    kept = np.arange(10)
    gone = threading.Event()

    class Probe:
        def __del__(self) -> None:
            gone.set()

    stream.fill(kept.ctypes.data, 0, 8, [kept, Probe()])
    gc.collect()
    assert not gone.is_set()
    go()
    stream.synchronize()
    assert gone.is_set() and kept[:2].tolist() == [0, 1]


def test_a_destroyed_stream() -> None:
    stream = rt.Stream()
    stream.launch(lambda: None)
    while not stream.close(1.0):
        pass
    for use in (stream.record, lambda: stream.launch(fail), stream.synchronize):
        with pytest.raises(RuntimeError, match="this stream was destroyed"):
            use()


def native_threads() -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


def test_streams_leave_no_threads() -> None:
    before, ran = native_threads(), list[int]()
    for number in range(2000):
        stream = rt.Stream()
        stream.launch(lambda number=number: ran.append(number))  # type: ignore[misc]
        if number % 3 == 0:
            stream.synchronize()
        del stream
    rt.Stream().launch(lambda: None)
    deadline = time.monotonic() + 10
    while native_threads() > before:
        assert time.monotonic() < deadline, native_threads()
        rt.Stream()  # takes the end of those dropped with work to do
        time.sleep(0.001)
    assert sorted(ran) == list(range(2000))


def test_a_stream_without_tasks_has_no_thread() -> None:
    before = native_threads()
    streams = [rt.Stream() for _ in range(100)]
    assert native_threads() == before and all(stream.query() for stream in streams)


def test_a_function_that_does_not_return_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, gate_of_it, said = rt.Stream(), threading.Event(), list[str]()

    def never_ends() -> None:
        gate_of_it.wait()

    def attend() -> None:
        said.append(capsys.readouterr().err)
        if len(said) == 5:  # told by then, and not again
            gate_of_it.set()

    stream.launch(lambda: None)
    stream.launch(never_ends)
    monkeypatch.setattr("ascend_rt.acl.stream.NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(rt.Stream, "attend", attend)
    stream.end()
    text = "".join(said)
    assert text.count("the end of a stream waits for") == 1
    assert "never_ends, queued at test_stream.py:" in text and text.endswith("which has not returned\n")
