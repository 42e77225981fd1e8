"""The ranks' output: whole lines, marked with their rank, never lost, and never in the way of the job.

Every rank writes its stdout and its stderr into a pipe of its own (a `Source`); what comes out is written to the
launcher's stdout or stderr (a `Sink`).

- A line is written when it is whole.  What stands without a newline for 100 ms (a prompt, a progress bar) is shown as
  it is; if another rank writes meanwhile, it gets a fresh line, and the rest is marked with its rank again.  A line
  longer than PIPE_BUF may just be on its way, because a pipe takes it in pieces: it is held until it ends.
- The ranks' pipes are always emptied, since a full pipe stops a rank inside print().  Only if the reader of the
  launcher's own output is slower than the ranks for long does the launcher stop reading, as a plain pipe would.
- A write never blocks the launcher: it writes what poll says there is room for, PIPE_BUF at most, so that jobs that
  share a terminal or a pipe do not cut each other's lines either.
- A closed stdout ends the output, not the job.
- Rank 0 on a terminal (terminal.py) may draw a progress bar of one line: it is shown as it comes, and when another rank
  writes, it is erased and drawn again below.
"""

import contextlib
import errno
import os
import re
import select
import selectors
import stat
import time
from collections.abc import Callable, Sequence

from .log_files import LogFile

PIPE_BUF = select.PIPE_BUF
READ_NBYTES = 1 << 16
HELD_SECONDS = 0.1
HELD_SECONDS_OF_BAR = 0.02
ERASE_LINE = b"\r\x1b[K"
HELD_NBYTES = 8 << 20  # of one line without end, which is then shown in pieces
FULL_NBYTES = 8 << 20  # waiting for a slow reader before the launcher stops reading


class Sink:
    """The launcher's stdout or stderr, written without ever blocking."""

    def __init__(self, fd: int, selector: selectors.BaseSelector) -> None:
        self._fd, self._selector = fd, selector
        self._waiting = bytearray()
        self._blocks = not _is_plain_file(fd)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._when_roomy: list[Callable[[], None]] = []
        self._watched = False
        self.open_line: Source | None = None
        """Whose line stands at the end of the output and has not ended yet."""
        self.failure: OSError | None = None
        """Why nothing is written any more; EPIPE is a reader that has seen enough."""

    @property
    def waiting_nbytes(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) > FULL_NBYTES

    def when_roomy(self, resume: Callable[[], None]) -> None:
        """Call `resume` once half of what waits has been written."""
        self._when_roomy.append(resume)

    def write(self, data: bytes) -> None:
        """Write `data`, now or as soon as there is room."""
        if self.failure is None:
            self._waiting += data
            self.flush()

    def note(self, text: str) -> None:
        """Write lines of the launcher's own."""
        self.write(around(self.open_line, text.encode(errors="replace") + b"\n"))
        self.open_line = still_open(self.open_line)

    def flush(self) -> None:
        """Write what there is room for."""
        while self._waiting and self._has_room():
            try:
                del self._waiting[: os.write(self._fd, self._piece())]
            except BlockingIOError:  # somebody else took the room
                break
            except OSError as error:
                self.failure = error
                self._waiting.clear()
        self._watch(bool(self._waiting))
        if len(self._waiting) < FULL_NBYTES // 2:
            resumed, self._when_roomy = self._when_roomy, []
            for resume in resumed:
                resume()

    def _has_room(self) -> bool:
        return not self._blocks or bool(self._poll.poll(0))

    def _piece(self) -> bytes:
        """As many whole lines as fit PIPE_BUF, which is what poll promises room for and what a pipe takes at once."""
        if not self._blocks:
            return bytes(self._waiting)
        if len(self._waiting) <= PIPE_BUF:
            return bytes(self._waiting)
        return bytes(self._waiting[: self._waiting.rfind(b"\n", 0, PIPE_BUF) + 1 or PIPE_BUF])

    def _watch(self, wanted: bool) -> None:
        if wanted and not self._watched:
            self._selector.register(self._fd, selectors.EVENT_WRITE, self.flush)
        elif self._watched and not wanted:
            self._selector.unregister(self._fd)
        self._watched = wanted


class Source:
    """One rank's stdout or stderr, cut into lines."""

    bar = b""
    """Its open line, when that can be drawn again; else empty."""

    def __init__(
        self, fd: int, prefix: bytes, sink: Sink, selector: selectors.BaseSelector, log: LogFile | None = None
    ) -> None:
        self._fd, self._prefix, self._sink, self._selector, self._log = fd, prefix, sink, selector, log
        self._held = bytearray()
        self._held_since = 0.0
        os.set_blocking(fd, False)
        self._resume()

    def feed(self, data: bytes) -> None:
        """Take what the rank wrote and write on every line that is whole now."""
        end = data.rfind(b"\n") + 1
        if end:
            self._put(bytes(self._held) + data[: end - 1], b"\n")
            self._held.clear()
        if end < len(data):
            self._held += data[end:]
            self._held_since = time.monotonic()
            if len(self._held) > HELD_NBYTES:
                self.show()

    def due(self) -> float | None:
        """When the unfinished line is to be shown; None if there is none to show."""
        return self._held_since + HELD_SECONDS if 0 < len(self._held) < PIPE_BUF else None

    def show(self) -> None:
        """Show the unfinished line as far as it has come."""
        if self._held:
            self._put(bytes(self._held), b"")
            self._held.clear()

    def drain(self) -> None:
        """Take all that still stands in the pipe, once the rank has ended."""
        while self._read():
            pass
        self.show()
        self._pause()

    def _ready(self) -> None:
        if self._sink.full:
            self._pause()
            self._sink.when_roomy(self._resume)
        elif not self._read():
            self._pause()

    def _read(self) -> bool:
        """Read once; False at the end of the pipe, or when there is nothing in it."""
        try:
            data = os.read(self._fd, READ_NBYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False  # a terminal that nobody writes to any more
        if self._log is not None:
            self._log.write(data)
        self.feed(data)
        return bool(data)

    def _resume(self) -> None:
        self._selector.register(self._fd, selectors.EVENT_READ, self._ready)

    def _pause(self) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._fd)

    def _put(self, lines: bytes, end: bytes) -> None:
        """Write lines, each marked; the first only if its beginning does not stand there already."""
        sink = self._sink
        marked = self._marked(lines) + end
        if sink.open_line is self:
            sink.open_line = None if end else self
        else:
            marked = self._prefix + marked
            other, sink.open_line = sink.open_line, still_open(sink.open_line) if end else self
            marked = around(other, marked) if end else (b"\n" if other else b"") + marked
        sink.write(marked)

    def _marked(self, lines: bytes) -> bytes:
        return lines.replace(b"\n", b"\n" + self._prefix)


class TerminalSource(Source):
    """What rank 0 writes to its terminal: an unfinished line is shown almost at once, and can be drawn again."""

    def feed(self, data: bytes) -> None:
        waits = bool(self._held)
        since = self._held_since
        super().feed(data)
        if waits and b"\n" not in data:
            self._held_since = since  # a bar that is drawn all the time is shown all the same

    def due(self) -> float | None:
        return self._held_since + HELD_SECONDS_OF_BAR if self._held else None

    def _put(self, lines: bytes, end: bytes) -> None:
        begun = self.bar if self._sink.open_line is self else self._prefix
        drawn = (begun + self._marked(lines)).rpartition(b"\n")[2].split(b"\r")
        self.bar = b"" if end else next((text for text in reversed(drawn) if text not in (b"", self._prefix)), b"")
        super()._put(lines, end)

    def _marked(self, lines: bytes) -> bytes:
        """Whoever goes back to the beginning of the line writes over the prefix."""
        return re.sub(rb"(\n|\r(?!\n))", lambda match: match[0] + self._prefix, lines)


def around(open_line: Source | None, lines: bytes) -> bytes:
    """Whole lines, with what has to be written around them because somebody's line is open."""
    if open_line is None:
        return lines
    return ERASE_LINE + lines + open_line.bar if open_line.bar else b"\n" + lines


def still_open(open_line: Source | None) -> Source | None:
    """Whose line is open after that."""
    return open_line if open_line is not None and open_line.bar else None


def prefix_of(rank: int, prefixed: bool) -> str:
    """What begins each line of a rank."""
    return f"[{rank}] " if prefixed else ""


class Output:
    """All sources and sinks of a job."""

    def __init__(
        self, selector: selectors.BaseSelector, prefixed: bool, logs: Sequence[tuple[LogFile, LogFile]]
    ) -> None:
        """logs: of stdout and stderr by rank; empty if there are none."""
        self._selector, self._prefixed, self._logs = selector, prefixed, logs
        self._stdout = Sink(1, selector)
        # One terminal or pipe for both: one sink, which then knows whose line is open.
        self._stderr = self._stdout if os.path.samestat(os.fstat(1), os.fstat(2)) else Sink(2, selector)
        self._sources: list[Source] = []

    def add(self, rank: int, stdout: int, stderr: int) -> None:
        """Take over the reading ends of a rank's pipes or terminals."""
        prefix = prefix_of(rank, self._prefixed).encode()
        logs = self._logs[rank] if self._logs else (None, None)
        for fd, sink, log in zip((stdout, stderr), (self._stdout, self._stderr), logs, strict=True):
            kind = TerminalSource if os.isatty(fd) else Source
            self._sources.append(kind(fd, prefix, sink, self._selector, log))

    def note(self, text: str) -> None:
        """Write lines of the launcher's own to stderr."""
        self._stderr.note(text)

    def due(self) -> float | None:
        """When `show_due` has something to do next, by the monotonic clock."""
        return min((due for source in self._sources if (due := source.due()) is not None), default=None)

    def show_due(self, now: float) -> None:
        """Show the lines that have stood unfinished for long enough."""
        for source in self._sources:
            due = source.due()
            if due is not None and due <= now:
                source.show()

    def drain(self) -> None:
        """Take what the ranks left in their pipes, once they have ended."""
        for source in self._sources:
            source.drain()

    @property
    def written(self) -> bool:
        """Whether everything has been written that can be."""
        return not (self._stdout.waiting_nbytes or self._stderr.waiting_nbytes)

    def failures(self) -> list[str]:
        """What became of the launcher's own output and of the logs; a reader that closed it has seen what it wanted."""
        sinks = {"stdout": self._stdout, "stderr": self._stderr}
        failures = {name: sink.failure for name, sink in sinks.items() if not isinstance(sink.failure, BrokenPipeError)}
        failures.update({str(log.path): log.failure for pair in self._logs for log in pair})
        return [
            f"{name} could not be written: {failure.strerror}; what came after is lost"
            for name, failure in failures.items()
            if failure is not None
        ]


def _is_plain_file(fd: int) -> bool:
    """Regular files and /dev/null take everything at once, and epoll refuses them."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
