"""What the native core offers to Python. Everything here is mechanism; what to do is decided in Python."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Key = tuple[int, int, int]
"""offset of its record in the segment, and two halves of a token that are not 0"""

LAYOUT_VERSION: Final[int]
PAYLOAD_NBYTES: Final[int]
PACKET_NBYTES: Final[int]
NOTE_NBYTES: Final[int]

class RankLine(NamedTuple):
    """One rank's line of the control area, read without a lock: a diagnosis."""

    state: int
    """0 absent, 1 joining, 2 running, 3 left (exit code 0), 4 dead"""
    cause: int
    """exit code, or minus the number of the signal, once it left or died"""
    pid: int
    stamp_ns: int
    """CLOCK_MONOTONIC of the last change of state"""
    waits_for: int
    """the rank it waits for, -1 when it does not sleep in a wait"""
    wait_call: int
    wait_collective: int
    wait_since_ns: int
    failure: int
    """the abort word this rank failed of, 0 if none: kind << 24 | (rank at fault + 1) << 12 | (who raised it + 1)"""
    hbm_in_use: int

class Line(NamedTuple):
    """What one rank said of its call on a board."""

    round: int
    call: int
    collective: int
    dtype: int
    op: int
    flags: int
    root: int
    fingerprint: int
    count: int  # type: ignore[assignment]
    note: str

class Segment:
    """The job's memory: control area, boards, one window of device memory per device. Mapped until the process ends."""

    @staticmethod
    def create(ranks: int, devices: int, window_nbytes: int, hbm_limit: int, hbm_device_limit: int) -> Segment:
        """A new anonymous, sealed segment; raises OSError if it cannot be made or mapped at this size."""
    @staticmethod
    def attach(fd: int) -> Segment:
        """Map the segment behind a descriptor, which stays the caller's; checks magic, version and size first."""
    @property
    def fd(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def base(self) -> int:
        """Address of the mapping in this process."""
    @property
    def ranks(self) -> int: ...
    @property
    def devices(self) -> int: ...
    @property
    def window_nbytes(self) -> int: ...
    @property
    def hbm_limit(self) -> int: ...
    @property
    def hbm_device_limit(self) -> int: ...
    @property
    def hbm_in_use(self) -> int: ...
    def rank_line(self, rank: int) -> RankLine: ...
    def device_in_use(self, device: int, /) -> int:
        """Bytes allocated on a device, by all ranks."""
    def device_at(self, address: int, /) -> int:
        """The device whose memory an address lies in, -1 if none."""
    def publish(self, key: Key, kind: int, offset: int, nbytes: int, is_open: bool, /) -> None:
        """Make a key lead to device memory or to a flag (EXPORT_*); its record lies in a block of the caller's."""
    def allow(self, record: int, pids: tuple[int, ...], /) -> bool:
        """Let processes import what is published there; False if there is no room for so many."""
    def withdraw(self, record: int, /) -> bool:
        """Make its key lead to nothing; whether uses of importers are not over."""
    def is_used(self, record: int, /) -> bool: ...
    def find(self, key: Key, kind: int, pid: int, /) -> tuple[int, int, int]:
        """Follow a key, which may be any numbers: (IMPORT_DONE or why not, offset, bytes)."""
    def lives(self, key: Key, /) -> bool:
        """Whether a key that `find` has followed leads to something still."""
    def begin_use(self, key: Key, /) -> bool:
        """False: a key that `find` has followed leads to nothing any more. Else the exporter keeps what it leads to."""
    def end_use(self, record: int, /) -> None: ...
    def set_state(self, rank: int, state: int, cause: int = 0, pid: int = 0) -> None:
        """For the server of the job only: publish a rank's state; stamps it with the monotonic clock."""
    def group_boards(self) -> tuple[int, int]:
        """(offset, bytes): where the server of the job gives out boards of groups, in pages."""
    def wipe(self, offset: int, nbytes: int, /) -> None:
        """For the server of the job only: make the pages of a board that no rank has any more fresh again."""
    def raise_abort(self, kind: int, culprit: int, board: int = 0, /) -> None:
        """End the communicator of the board at an offset, 0 for the world's (kind 2: death). The first cause stays."""
    def mark_destroyed(self, rank: int, board: int, ranks: int, /) -> None:
        """For a member only: it uses the communicator of this board no more, and whoever waits for it there fails."""
    def abort_word(self, board: int = 0, /) -> int: ...
    def line(self, rank: int, slot: int, board: int = 0, ranks: int = ..., /) -> Line:
        """What `rank` last wrote on slot 0 or 1 of the world's board, or of that of a group of so many ranks: for
        reports while nobody holds still."""

def die_with_parent(parent: int) -> None:
    """SIGKILL this process when its parent dies; kills it at once if `parent` is not its parent any more."""

def board_nbytes(ranks: int, /) -> int:
    """Size of the board of a communicator of so many ranks."""

def has_kernels(variant: int) -> bool:
    """Whether this build contains a variant of the reduction kernels (KERNEL_*) and this processor runs it."""

def reduce(dtype: int, op: int, variant: int, destination: Any, first: Any, second: Any, divisor: int) -> None:
    """One reduction kernel by itself, on two sources of equal size: for tests and measurements."""

def chunk_start(count: int, chunks: int, item_nbytes: int, chunk: int) -> int:
    """First element of a flat chunk in a buffer of blocks of `count` elements, each cut into `chunks`."""

KERNEL_PLAIN: Final[int]
KERNEL_AVX2: Final[int]
KERNEL_AVX512: Final[int]
KERNEL_NEON: Final[int]
CALL_DONE: Final[int]
CALL_DIFFERS: Final[int]
CALL_ABORTED: Final[int]
CALL_NO_CHOICE: Final[int]
CALL_NO_SCRATCH: Final[int]
CALL_NO_STAGING: Final[int]
CALL_TOO_LARGE: Final[int]
EXPORT_MEMORY: Final[int]
EXPORT_FLAG: Final[int]
IMPORT_DONE: Final[int]
IMPORT_OTHER_KIND: Final[int]
IMPORT_NOT_ALLOWED: Final[int]
EVENT_LATE: Final[int]
WORD_LATE: Final[int]
STREAM_ABORTED: Final[int]
FUNCTION_FAILED: Final[int]
LINE_REFUSED: Final[int]

class Block:
    """A live block of device memory; a writable buffer, freed when nothing refers to it."""

    @property
    def address(self) -> int: ...
    @property
    def offset(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Device:
    """One device as one rank allocates it: sub-allocates that rank's part of its memory."""

    def __new__(cls, segment: Segment, index: int, owner: int) -> Device: ...
    def malloc(self, nbytes: int) -> Block:
        """MemoryError, with the reason as its text, if there is no room or no budget."""
    def holds(self, address: int, nbytes: int) -> bool: ...
    @property
    def in_use(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def largest_free(self) -> int: ...

class Communicator:
    """One rank's side of a communicator.

    A subclass supplies _all_reduce, _broadcast, _barrier, _fail, _where and _attend.
    """

    rank: int
    size: int
    def __new__(
        cls,
        segment: Segment,
        device: Device,
        rank: int,
        size: int,
        dtypes: dict[np.dtype[np.generic], int],
        streams: type[Stream],
        members: tuple[int, ...] | None,
        board: int,
    ) -> Self: ...
    def all_reduce(
        self, x: Array, out: Array | None = None, op: Any = "sum", stream: Stream | None = None
    ) -> Array: ...
    def broadcast(self, x: Array, root: int = 0, stream: Stream | None = None) -> Array: ...
    def barrier(self, stream: Stream | None = None) -> None: ...
    def _call_plainly(self, collective: int, x: Any, out: Any, op: Any, root: Any, stream: Any, /) -> bool:
        """Run or queue a call if its arguments fit its form and its kind is known; else False, and nothing was done."""
    def _set_forms(self, forms: bytes, /) -> None: ...
    def _call(
        self,
        collective: int,
        dtype: int,
        op: int,
        root: int,
        count: int,
        x: Any,
        out: Any,
        stream: Stream | None,
        split: bytes | None = None,
        /,
    ) -> int | None: ...
    def _resync(self) -> None: ...
    def _defer(self, deferred: bool, /) -> None:
        """Whether every call is handed to the subclass."""
    def _refuse(self, collective: int, why: str, stream: Stream | None, /) -> None: ...
    def _add_exchange(
        self, collective: int, dtype: int, op: int, root: int, most: int, fingerprint: int, words: Any, /
    ) -> None: ...
    def _add_plan(
        self,
        collective: int,
        dtype: int,
        op: int,
        root: int,
        least: int,
        most: int,
        fingerprint: int,
        plan: Any,
        lent_in: bytes = ...,
        lent_out: bytes = ...,
        /,
    ) -> None: ...
    def _scratch_needed(self, collective: int, dtype: int, op: int, root: int, count: int, /) -> int: ...
    def _trust_arrays(self, samples: list[np.ndarray[Any, Any]], /) -> bool: ...
    def _transfer(
        self,
        collective: int,
        items: tuple[tuple[int, int, int, int, Any], ...],
        why: str | None,
        stream: Stream | None,
        /,
    ) -> int | None:
        """Run or queue sends and receives: (1: receive, peer, dtype, count, array); refuse them if there is a `why`.

        None, or the rank for which staging is missing; then nothing was done.
        """
    def _transfer_plainly(self, collective: int, side: int, peer: Any, x: Any, stream: Stream | None, /) -> bool:
        """Send or receive one message, or queue that, if it needs no look; else False, and nothing was done."""
    def _set_channel_staging(self, peer: int, block: Block, offset: int, nbytes: int, /) -> None: ...
    def _learn_dtype(self, dtype: np.dtype[Any], number: int, /) -> None: ...
    def _set_scratch(self, block: Block, offset: int, nbytes: int, /) -> None: ...
    def _set_table(self, block: Block, offset: int, /) -> None: ...
    def _set_staging(self, block: Block, offset: int, /) -> None: ...
    def _set_links(self, links: tuple[tuple[float, int], ...], /) -> None:
        """Emulate links: (nanoseconds per byte, nanoseconds of latency) by rank. Once, before the first call."""
    def _tune(
        self,
        spins: int,
        yields: int,
        sleep_ns: int,
        timeout_ns: int,
        kernels: int,
        piece_nbytes: int,
        least_reached_nbytes: int,
        most_scratch_nbytes: int,
        /,
    ) -> None: ...
    def _stop_when_committed(self) -> None: ...
    def _close(self) -> None: ...
    def _in_use(self) -> bool: ...
    def _release(self) -> None: ...
    def _abort_word(self) -> int: ...
    def _now(self) -> tuple[int, int, int]:
        """(collective, call, rank of the job whose way out of the data phase is all it waits for, or -1)."""
    def _differs_so_far(self) -> bool:
        """Whether a rank that is here already says another call than this one."""
    def _statistics(self) -> dict[str, int]: ...

class Stream:
    """A queue of tasks and its worker thread. A subclass may supply _attend."""

    def __new__(
        cls, spins: int, yields: int, sleep_ns: int, timeout_ns: int, goes_on_after_failure: bool, /
    ) -> Self: ...
    def copy(self, to: int, source: int, nbytes: int, keep: Any, /) -> None:
        """Queue a copy between addresses that the caller has checked; `keep` lives until it is done."""
    def copy_rows(
        self, to: int, to_pitch: int, source: int, source_pitch: int, nbytes: int, rows: int, keep: Any, /
    ) -> None:
        """Queue a copy of `rows` rows of `nbytes` bytes, which begin a pitch after one another."""
    def fill(self, to: int, value: int, nbytes: int, keep: Any, /) -> None: ...
    def reduce(self, to: int, source: int, count: int, dtype: int, op: int, keep: Any, /) -> None:
        """Queue to[i] = to[i] op source[i]; ValueError if there is no kernel for these numbers of HCCL's."""
    def set_flag(self, address: int, keep: Any, /) -> None: ...
    def take_flag(self, address: int, timeout_ns: int, keep: Any, /) -> None:
        """Queue a wait until the flag is set, which clears it; 0 ns: for ever."""
    def write_value(self, address: int, value: int, keep: Any, /) -> None: ...
    def wait_value(self, address: int, value: int, test: int, timeout_ns: int, keep: Any, /) -> None:
        """Queue a wait until a 64-bit word passes a test (0 >=, 1 ==, 2 and, 3 nor)."""
    def mark(self) -> Mark: ...
    def wait_for(self, mark: Mark, /) -> None: ...
    def call(self, function: Callable[[], int], /) -> None:
        """Queue a function that returns 0, or a number that becomes the number of the stream's failure."""
    def finish(self, seconds: float, /) -> bool: ...
    def take_failure(self) -> tuple[Any, ...] | None: ...
    def is_idle(self) -> bool: ...
    def cancel(self) -> None: ...
    def abort(self) -> None:
        """Drop what was queued so far; returns at once, while what runs gives up."""
    def set_event_timeout(self, nanoseconds: int, /) -> None: ...
    def set_gives_way(self, gives_way: bool, /) -> None: ...
    def set_goes_on_after_failure(self, goes_on: bool, /) -> None: ...
    def close(self, seconds: float, /) -> bool: ...
    def abandon(self) -> None:
        """In a fork, which has the stream but not its worker."""
    @property
    def closed(self) -> bool: ...
    @property
    def calls_not_run(self) -> int: ...
    @property
    def late_sleeps(self) -> int: ...

class Graph:
    """Tasks that are prepared once, in the order of issue, and launched as often as wanted. `line`: who queued them.

    at: a stream, to add a task behind its others; or (stream, place), to replace one of its kind in later launches.
    """

    def __new__(cls, streams: int, marks: int, /) -> Self: ...
    def copy(
        self,
        at: int | tuple[int, int],
        line: str,
        keep: Any,
        to: int,
        to_pitch: int,
        source: int,
        source_pitch: int,
        nbytes: int,
        rows: int,
        /,
    ) -> None: ...
    def fill(self, at: int | tuple[int, int], line: str, keep: Any, to: int, value: int, nbytes: int, /) -> None: ...
    def wait_value(self, at: int | tuple[int, int], line: str, keep: Any, word: int, to: int, ns: int, /) -> None: ...
    def function(self, at: int | tuple[int, int], line: str, keep: Any, function: Callable[[], int], /) -> None: ...
    def record(self, stream: int, line: str, mark: int, /) -> None: ...
    def hand_over(self, stream: int, line: str, mark: int, /) -> None:
        """record, and the stream is clean behind it: who waits for the mark has what failed."""
    def wait(self, stream: int, line: str, mark: int, /) -> None: ...
    def join(self, stream: int, line: str, mark: int, /) -> None:
        """wait, and not left out behind a failure."""
    def call(
        self,
        at: int | tuple[int, int],
        line: str,
        communicator: Communicator,
        collective: int,
        dtype: int,
        op: int,
        root: int,
        count: int,
        x: Any,
        out: Any,
        split: bytes | None,
        /,
    ) -> int | None:
        """None, or what is missing (CALL_NO_*), and then it was not added."""
    def transfer(
        self,
        at: int | tuple[int, int],
        line: str,
        communicator: Communicator,
        collective: int,
        items: tuple[tuple[int, int, int, int, Any], ...],
        /,
    ) -> int | None:
        """None, or the rank for which staging is missing, and then it was not added."""
    def length(self, stream: int, /) -> int:
        """How many tasks a stream has: the place of the next."""
    def is_under_way(self, streams: tuple[Stream, ...], /) -> bool:
        """Whether a launch on some of these streams is not over."""
    def launch(self, streams: tuple[Stream, ...], keep: Any, /) -> None:
        """Queue all tasks, which keep `keep` alive until they are done, or none: RuntimeError if a stream or a
        communicator was destroyed."""
    @property
    def tasks(self) -> int: ...

class Mark:
    """One recording of an event."""

    def is_complete(self) -> bool: ...
    def finish(self, seconds: float, /) -> bool: ...
    @property
    def failed(self) -> bool: ...
    @property
    def stamp_ns(self) -> int: ...
    @property
    def waits(self) -> int:
        """Waits of streams for it that are not over."""
