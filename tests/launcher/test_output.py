"""Lines of several ranks: none torn, none lost, each marked, whatever the pieces in which they come."""

import itertools
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ascend_rt.launcher import output
from ascend_rt.launcher.output import HELD_SECONDS, PIPE_BUF, Sink, Source
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.threads


class Collecting:
    """Stands for a Sink: keeps what is written."""

    def __init__(self) -> None:
        self.data, self.open_line, self.full = b"", None, False

    def write(self, data: bytes) -> None:
        self.data += data


class NoSelector:
    """Nobody waits for these pipes: the tests feed the sources themselves."""

    def register(self, *_: object) -> None: ...
    def unregister(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def source() -> Iterator[Callable[..., Source]]:
    """source(sink, prefix): a Source without a rank behind it."""
    reading, writing = os.pipe()
    yield lambda sink, prefix=b"": Source(reading, prefix, sink, NoSelector())
    os.close(reading)
    os.close(writing)


LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"?").replace(b"[", b"(")), max_size=8)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


@given(st.lists(LINES, min_size=1, max_size=4), st.data())
def test_no_line_is_torn_or_lost(source: Callable[..., Source], lines: list[list[bytes]], data: st.DataObject) -> None:
    """Every rank's bytes, cut anywhere and interleaved anyhow, come out as its whole lines in its order."""
    sink = Collecting()
    ranks = [source(sink, b"[%d] " % rank) for rank in range(len(lines))]
    queues = [cut(b"".join(line + b"\n" for line in each), data.draw(st.lists(st.integers(0, 200)))) for each in lines]
    while any(queues):
        rank = data.draw(st.sampled_from([rank for rank, queue in enumerate(queues) if queue]))
        ranks[rank].feed(queues[rank].pop(0))
    for rank, each in enumerate(lines):
        mark = b"[%d] " % rank
        assert [line[len(mark) :] for line in sink.data.split(b"\n")[:-1] if line.startswith(mark)] == each
    assert sink.data.count(b"\n") == sum(map(len, lines))


@given(LINES, st.lists(st.tuples(st.integers(0, 200), st.booleans())))
def test_shown_early_nothing_changes_for_one_rank(
    source: Callable[..., Source], lines: list[bytes], cuts: list[tuple[int, bool]]
) -> None:
    """A line shown piece by piece, because it stood unfinished, is the same line if nobody else wrote."""
    sink = Collecting()
    rank = source(sink)
    data = b"\n".join(lines)
    for piece, (_, shown) in zip(cut(data, [at for at, _ in cuts]), [*cuts, (0, True)], strict=True):
        rank.feed(piece)
        if shown:
            rank.show()
    assert sink.data == data


def test_an_unfinished_line_gives_way(source: Callable[..., Source]) -> None:
    sink = Collecting()
    first, second = source(sink, b"[0] "), source(sink, b"[1] ")
    first.feed(b"loading...")
    first.show()
    first.feed(b" done\nnext\n")
    first.feed(b"name? ")
    first.show()
    second.feed(b"hello\n")
    first.feed(b"answer\n")
    assert sink.data == b"[0] loading... done\n[0] next\n[0] name? \n[1] hello\n[0] answer\n"


def test_an_unfinished_line_is_due(source: Callable[..., Source]) -> None:
    rank = source(Collecting())
    assert rank.due() is None
    before = time.monotonic()
    rank.feed(b"a\nb")
    due = rank.due()
    assert due is not None and before + HELD_SECONDS <= due <= time.monotonic() + HELD_SECONDS
    rank.feed(b"\n")
    assert rank.due() is None


def test_a_long_line_is_on_its_way(source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe takes it in pieces: it is held until it ends, though not without bound."""
    sink = Collecting()
    rank = source(sink)
    rank.feed(b"x" * PIPE_BUF)
    assert (rank.due(), sink.data) == (None, b"")
    rank.feed(b"y\n")
    assert sink.data == b"x" * PIPE_BUF + b"y\n"
    monkeypatch.setattr(output, "HELD_NBYTES", 10)
    rank.feed(b"12345678901")
    assert sink.data.endswith(b"\n12345678901")


def test_a_sink_never_blocks_and_loses_nothing() -> None:
    """A reader that does not read: writes return, and everything comes once it does."""
    reading, writing = os.pipe()
    with selectors.DefaultSelector() as selector:
        sink = Sink(writing, selector)
        data = b"".join(b"line %d\n" % number for number in range(50_000))
        sink.write(data)
        assert sink.waiting_nbytes > 0
        received = bytearray()
        while len(received) < len(data):
            for key, _ in selector.select(0):
                key.data()
            chunk = os.read(reading, 1 << 16)
            assert chunk.endswith(b"\n")  # written in whole lines
            received += chunk
        assert received == data
        assert (sink.waiting_nbytes, len(selector.get_map())) == (0, 0)
    os.close(reading)
    os.close(writing)


def test_a_closed_sink_swallows_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with selectors.DefaultSelector() as selector:
        sink = Sink(writing, selector)
        sink.write(b"to nobody\n")
        sink.write(b"again\n")
        assert isinstance(sink.failure, BrokenPipeError)
        assert (sink.waiting_nbytes, len(selector.get_map())) == (0, 0)
    os.close(writing)


def test_a_full_disk_is_told() -> None:
    with selectors.DefaultSelector() as selector, Path("/dev/full").open("wb", buffering=0) as full:
        sink = Sink(full.fileno(), selector)
        sink.write(b"x\n")
        assert sink.failure is not None and sink.failure.strerror == "No space left on device"


def test_a_slow_reader_slows_the_ranks_and_not_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound the launcher reads no more, until the reader has caught up; then every line comes."""
    monkeypatch.setattr(output, "FULL_NBYTES", 20_000)
    rank_reading, rank_writing = os.pipe()
    reading, writing = os.pipe()
    data = b"".join(b"line %d\n" % number for number in range(60_000))
    with selectors.DefaultSelector() as selector:
        sink = Sink(writing, selector)
        source = Source(rank_reading, b"", sink, selector)
        rank = threading.Thread(target=_write_all, args=(rank_writing, data))
        rank.start()
        most, received = 0, bytearray()
        while len(received) < len(data):
            for key, _ in selector.select(0.001):
                key.data()
            most = max(most, sink.waiting_nbytes)
            if not selector.select(0) or sink.full:
                received += os.read(reading, 4096)
        rank.join()
        source.drain()
        assert received == data
        assert most <= 20_000 + (1 << 16)
    for descriptor in (rank_reading, reading, writing):
        os.close(descriptor)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
    os.close(fd)
