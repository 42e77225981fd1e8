"""Rank 0's progress bar on a terminal, and the lines of others: what a screen shows in the end."""

import os
from collections.abc import Iterator

import pytest
from ascend_rt.launcher.output import Source, TerminalSource
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.threads


class Screen:
    """Stands for a Sink on a terminal: understands \\n (with the terminal's own \\r), \\r and the erasing of a line."""

    def __init__(self) -> None:
        self.lines, self.column = [""], 0
        self.open_line: Source | None = None
        self.full = False

    def write(self, data: bytes) -> None:
        text = data.decode().replace("\x1b[K", "\0")
        for character in text:
            if character == "\n":
                self.lines.append("")
                self.column = 0
            elif character == "\r":
                self.column = 0
            elif character == "\0":
                self.lines[-1] = self.lines[-1][: self.column]
            else:
                line = self.lines[-1]
                self.lines[-1] = line[: self.column] + character + line[self.column + 1 :]
                self.column += 1


class NoSelector:
    """Nobody waits for these pipes: the tests feed the sources themselves."""

    def register(self, *_: object) -> None: ...
    def unregister(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def fd() -> Iterator[int]:
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def make(fd: int, prefixed: bool = True) -> tuple[Screen, TerminalSource, Source]:
    screen = Screen()
    prefixes = (b"[0] ", b"[1] ") if prefixed else (b"", b"")
    first = TerminalSource(fd, prefixes[0], screen, NoSelector())  # type: ignore[arg-type]
    return screen, first, Source(fd, prefixes[1], screen, NoSelector())  # type: ignore[arg-type]


def percent(number: int) -> bytes:
    return b"\r%3d%% |" % number + b"#" * (number // 10) + b"|"


# What comes next: rank 0 draws its bar, rank 0's unfinished line is due, or rank 1 writes a line.
@given(st.lists(st.sampled_from(["draw", "due", "line", "note"]), max_size=30), st.booleans())
def test_the_bar_stays_last_and_no_line_is_torn(fd: int, events: list[str], prefixed: bool) -> None:
    screen, first, second = make(fd, prefixed)
    drawn, said = 0, []
    for number, event in enumerate([*events, "draw", "due"]):
        if event == "draw":
            drawn += 1
            first.feed(percent(drawn))
        elif event == "due":
            first.show()
        else:
            second.feed(b"line %d\n" % number)
            said.append(("[1] " if prefixed else "") + f"line {number}")
    last = ("[0] " if prefixed else "") + percent(drawn)[1:].decode()
    assert screen.lines == [*said, last]
    first.feed(b"\ndone\n")
    assert screen.lines[len(said) :] == [last, ("[0] " if prefixed else "") + "done", ""]


def test_a_bar_that_is_drawn_all_the_time_becomes_due(fd: int) -> None:
    _, first, _ = make(fd)
    first.feed(percent(1))
    due = first.due()
    first.feed(percent(2))
    assert due is not None and first.due() == due


def test_the_beginning_of_a_line_alone_does_not_forget_the_bar(fd: int) -> None:
    """A program that writes "\\r" now and the bar in its next write."""
    screen, first, second = make(fd)
    for data in (percent(10), b"\r"):
        first.feed(data)
        first.show()
    second.feed(b"hello\n")
    assert screen.lines == ["[1] hello", "[0]  10% |#|"]


def test_an_unfinished_line_of_another_rank_gets_a_line_of_its_own(fd: int) -> None:
    screen, first, second = make(fd)
    first.feed(percent(10))
    first.show()
    second.feed(b"name? ")
    second.show()
    first.feed(percent(20))
    first.show()
    assert screen.lines == ["[0]  10% |#|", "[1] name? ", "[0]  20% |##|"]
