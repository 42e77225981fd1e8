"""What a capture records and what it forbids, with the codes; no job is needed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.acl import recording
from ascend_rt.acl.errors import AclError
from ascend_rt.ge.placement import Piece, Pieces, piece_of

pytestmark = pytest.mark.threads

Array = np.ndarray[Any, Any]


def double(x: Array, out: Array) -> None:
    np.multiply(x, 2, out=out)


@contextmanager
def raises(code: int, text: str = "") -> Iterator[None]:
    with pytest.raises(AclError, match=rf"\({code}\): .*{text}") as raised:
        yield
    assert raised.value.code == code


# ---- what is recorded ----


def test_nothing_runs_until_the_launch_and_the_line_is_the_programs(stream: rt.Stream) -> None:
    x, out = np.arange(6.0), np.zeros(6)
    with ge.capture(stream, name="step") as g:
        assert ge.is_capturing(stream)
        stream.launch(double, x, out, reads=[x], writes=[out])
    assert not ge.is_capturing(stream) and stream.query() and not out.any()
    g.launch(stream)
    stream.synchronize()
    assert out.tolist() == [0, 2, 4, 6, 8, 10]
    (node,) = g.nodes
    assert (node.line.partition(":")[0], node.name, node.kind) == ("test_capture.py", "double", "kernel")


def test_arrays_among_the_arguments_are_traced(stream: rt.Stream) -> None:
    x, y, constant = np.zeros(4), np.zeros((3, 4)), np.arange(4.0)
    constant.flags.writeable = False
    with ge.capture(stream) as g:
        stream.launch(np.add, x, y[1], out=y[2])
        stream.launch(max, [x, {"a": constant}], key=None)
        stream.launch(print)
        stream.launch(print, reads=[y[:, ::2]], writes=())
    spans = [(set(node.reads), set(node.writes), node.is_opaque) for node in g.nodes]
    b0, b1, b2 = ge.Span("b0", 0, 32), [ge.Span("b1", 32 * row, 32) for row in range(3)], ge.Span("b2", 0, 32)
    assert spans == [
        ({b0, b1[1], b1[2]}, {b0, b1[1], b1[2]}, False),
        ({b0, b2}, {b0}, False),
        (set(), set(), True),
        ({ge.Span("b1", 0, 88)}, set(), False),
    ]
    roles = {name: buffer.role.value for name, buffer in g.buffers.items()}
    assert roles == {"b0": "input", "b1": "input", "b2": "constant"}
    assert [(buffer.nbytes, buffer.shape, buffer.on_device) for buffer in g.buffers.values()] == [
        (32, (4,), False),
        (96, (3, 4), False),
        (32, (4,), False),
    ]


def test_events_between_captured_streams_are_nodes_and_events_are_free_afterwards(
    stream: rt.Stream, other: rt.Stream
) -> None:
    x = np.zeros(3)
    with ge.capture(stream) as g:
        first = stream.record()
        other.wait(first)
        assert ge.is_capturing(other)
        other.launch(np.add, x, 1, out=x)
        last = other.record()
        stream.wait(last)
        stream.wait(rt.Event())  # was never recorded: nothing to wait for
    assert [(node.kind, node.stream) for node in g.nodes] == [
        ("record", 0), ("wait", 1), ("kernel", 1), ("record", 1), ("wait", 0),
    ]  # fmt: skip
    assert g.order.before(2, 4) and not ge.is_capturing(other)
    assert not first.recorded and last.query()
    other.launch(np.add, x, 5, out=x)
    other.synchronize()
    assert x.tolist() == [5, 5, 5]


def test_overlapping_pieces_are_one_buffer(stream: rt.Stream) -> None:
    memory = np.zeros(100, np.uint8)
    base = memory.__array_interface__["data"][0]
    pieces = Pieces()
    for start, end in ((10, 20), (40, 50), (60, 70), (15, 45), (70, 80), (0, 5)):
        pieces.add(Piece(base + start, end - start, memory))
    places = sorted((piece.address - base, piece.end - base) for piece in pieces)
    assert places == [(0, 5), (10, 50), (60, 70), (70, 80)]
    pieces.add(piece_of(memory[30:40]))
    assert [(piece.address - base, piece.nbytes) for piece in pieces] == [(0, 100)]


def test_an_error_in_the_block_ends_the_capture(stream: rt.Stream) -> None:
    with pytest.raises(ZeroDivisionError), ge.capture(stream):
        raise ZeroDivisionError
    assert not ge.is_capturing(stream) and not recording.is_active()
    stream.synchronize()


# ---- what is forbidden ----


def synchronize(stream: rt.Stream, other: rt.Stream) -> None:
    stream.synchronize()


def query(stream: rt.Stream, other: rt.Stream) -> None:
    stream.query()


def abort(stream: rt.Stream, other: rt.Stream) -> None:
    stream.drop_queued()


def destroy(stream: rt.Stream, other: rt.Stream) -> None:
    stream.check_may_end()


def wait_for_event(stream: rt.Stream, other: rt.Stream) -> None:
    stream.record().synchronize()


def query_event(stream: rt.Stream, other: rt.Stream) -> None:
    stream.record().query()


def wait_for_what_is_outside(stream: rt.Stream, other: rt.Stream) -> None:
    stream.wait(other.record())


def wait_for_another_capture(stream: rt.Stream, other: rt.Stream) -> None:
    ge.begin(other)
    stream.wait(other.record())


def reduce_words(stream: rt.Stream, other: rt.Stream) -> None:
    stream.set_flag(0, None)


FORBIDDEN = [
    (synchronize, 107027, "a stream was synchronized while it is captured"),
    (query, 107027, "asked whether it is done"),
    (abort, 107027, "a stream was aborted"),
    (destroy, 107027, "a stream was destroyed"),
    (wait_for_event, 107028, "an event that a recorded stream has recorded was waited for"),
    (query_event, 107028, "was asked for"),
    (wait_for_what_is_outside, 107024, "recorded before the capture, or on a stream that is not in it"),
    (wait_for_another_capture, 107032, "an event of another capture"),
    (reduce_words, 207000, "record_notify cannot be captured"),
]


@pytest.mark.parametrize(("act", "code", "text"), FORBIDDEN)
def test_what_is_forbidden_says_so_and_leaves_the_capture_invalid(
    stream: rt.Stream, other: rt.Stream, act: Callable[..., None], code: int, text: str
) -> None:
    ge.begin(stream)
    with raises(code, text):
        act(stream, other)
    began = r"the capture that began at test_capture.py:\d+ is not valid any more"
    with raises(507903, f"{began}: .*{text}.*test_capture"):
        ge.end(stream)
    ge.abandon(other)
    assert not recording.is_active()
    stream.synchronize()


def test_a_stream_that_is_not_joined_is_named_with_its_last_line(stream: rt.Stream, other: rt.Stream) -> None:
    ge.begin(stream)
    other.wait(stream.record())
    other.launch(int)
    with raises(107025, r"stream 1 \(its last task: kernel at test_capture.py:\d+\) was not joined"):
        ge.end(stream)
    assert not ge.is_capturing(other)


def test_a_task_behind_the_join_leaves_the_stream_unjoined(stream: rt.Stream, other: rt.Stream) -> None:
    ge.begin(stream)
    other.wait(stream.record())
    stream.wait(other.record())
    other.launch(int)
    with raises(107025):
        ge.end(stream)


def test_begin_and_end_must_fit(stream: rt.Stream, other: rt.Stream) -> None:
    with raises(107029):
        ge.end(stream)
    with raises(107029):
        ge.empty(stream, 3)
    ge.begin(stream)
    with raises(107027, "captured already"):
        ge.begin(stream)
    other.wait(stream.record())
    with raises(107036, r"it began on another at test_capture.py:\d+"):
        ge.end(other)
    stream.wait(other.record())
    assert len(ge.end(stream).nodes) == 4


def in_thread(act: Callable[[], object]) -> None:
    """Raises what `act` raises in another thread."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("mode", list(ge.Mode))
def test_another_thread_may_end_a_capture_only_in_mode_relaxed(stream: rt.Stream, mode: ge.Mode) -> None:
    ge.begin(stream, mode)
    if mode is ge.Mode.RELAXED:
        in_thread(lambda: ge.end(stream))
    else:
        with raises(107038, "in another thread than that in which it began"):
            in_thread(lambda: ge.end(stream))
        ge.end(stream)


# Whether a call that does not wait for streams is forbidden: mode of the capture, own mode, in the capturing thread.
UNSAFE = {
    (ge.Mode.GLOBAL, ge.Mode.GLOBAL, True): True,
    (ge.Mode.GLOBAL, ge.Mode.GLOBAL, False): True,
    (ge.Mode.GLOBAL, ge.Mode.THREAD_LOCAL, True): True,
    (ge.Mode.GLOBAL, ge.Mode.THREAD_LOCAL, False): False,
    (ge.Mode.GLOBAL, ge.Mode.RELAXED, True): False,
    (ge.Mode.GLOBAL, ge.Mode.RELAXED, False): False,
    (ge.Mode.THREAD_LOCAL, ge.Mode.GLOBAL, True): True,
    (ge.Mode.THREAD_LOCAL, ge.Mode.GLOBAL, False): False,
    (ge.Mode.THREAD_LOCAL, ge.Mode.RELAXED, True): False,
    (ge.Mode.RELAXED, ge.Mode.GLOBAL, True): False,
    (ge.Mode.RELAXED, ge.Mode.GLOBAL, False): False,
}


@pytest.mark.parametrize(("modes", "forbidden"), UNSAFE.items())
def test_modes_and_what_they_forbid_in_which_thread(
    stream: rt.Stream, modes: tuple[ge.Mode, ge.Mode, bool], forbidden: bool
) -> None:
    mode, own, here = modes

    def call() -> None:
        before = recording.exchange_mode(own)
        try:
            recording.check_unsafe("memcpy")
        finally:
            assert recording.exchange_mode(before) is own

    ge.begin(stream, mode)
    if forbidden:
        with raises(107030, f"memcpy .* a stream is captured in mode {mode.name}"):
            call() if here else in_thread(call)
        with raises(507903):
            ge.end(stream)
    else:
        call() if here else in_thread(call)
        ge.end(stream)


# ---- launches on streams that are dropped, or that go on after failures ----


def add_one(x: Array) -> None:
    x += 1


def fail(x: Array) -> None:
    raise ArithmeticError("too large")


def two_streams(stream: rt.Stream, other: rt.Stream, first: Callable[[Array], None], x: Array) -> ge.Graph:
    """first on a stream beside, then add_one there and on the stream itself."""
    with ge.capture(stream) as g:
        other.wait(stream.record())
        other.launch(first, x)
        other.launch(add_one, x)
        stream.wait(other.record())
        stream.launch(add_one, x)
    return g


def test_a_launch_that_was_dropped_runs_nothing_and_the_next_one_all(stream: rt.Stream, other: rt.Stream) -> None:
    x, gate = np.zeros(2), threading.Event()
    g = two_streams(stream, other, add_one, x)
    for _ in range(3):
        gate.clear()
        stream.launch(gate.wait)
        g.launch(stream)
        stream.drop_queued()
        gate.set()
        with pytest.raises(AclError) as raised:
            stream.synchronize()
        assert raised.value.code == 107023
        before = x.tolist()
        g.launch(stream)
        stream.synchronize()
        assert x.tolist() == [value + 3 for value in before]
    assert x.tolist() == [9, 9]


def test_a_stream_that_goes_on_after_failures_does_so_in_a_graph(stream: rt.Stream, other: rt.Stream) -> None:
    x = np.zeros(2)
    g = two_streams(stream, other, fail, x)
    going = rt.Stream(goes_on_after_failure=True)
    for on, runs in ((going, 2), (stream, 0), (going, 4)):
        g.launch(on)
        with pytest.raises(ArithmeticError):
            on.synchronize()
        assert x.tolist() == [runs if on is going else x[0]] * 2
    assert x.tolist() == [4, 4]
    going.end()
