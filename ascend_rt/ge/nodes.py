"""What a graph is made of: memory, the tasks that use it, and nodes, which are tasks in their place.

    Buffer      one piece of memory: an allocation, or what the planner is to place
    Group       a communicator
    Span        bytes of a buffer                 View       an array over a buffer, as a task is given it
    Kernel Collective Transfer Copy Memset Record Wait       the tasks
    Node        a task, the stream it is queued on, what it reads and writes

All of them are values: they never change, compare by content, and hold no memory. What they stand for in this process
is in `Graph.memory` and `Graph.communicators`.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np


class Role(StrEnum):
    """What a buffer is to its graph."""

    INPUT = "input"
    """read before the graph writes it, if it does: the program fills it before a launch"""
    OUTPUT = "output"
    """written before it is read, and the program's: it reads it after a launch"""
    INTERMEDIATE = "intermediate"
    """the graph's own (ge.empty): undefined outside of a launch, and may share memory with others"""
    CONSTANT = "constant"
    """never written, and the same in every launch"""


@dataclass(frozen=True, slots=True)
class Buffer:
    """One piece of memory. dtype and shape are those of the array it was seen as first."""

    name: str
    nbytes: int
    dtype: str = "uint8"
    shape: tuple[int, ...] = ()
    role: Role = Role.INTERMEDIATE
    address: int | None = None
    """where it lay when it was captured; None: nowhere yet"""
    on_device: bool = True
    """False: host memory of the program, which collectives stage"""


@dataclass(frozen=True, slots=True)
class Group:
    """A communicator, as this rank sees it. config: fields of HcclCommConfig that loading an .om makes it with."""

    name: str
    rank: int
    size: int
    world_ranks: tuple[int, ...]
    config: Mapping[str, int | str] = field(default_factory=dict, hash=False)


class Span(NamedTuple):
    """Bytes of a buffer."""

    buffer: str
    start: int
    nbytes: int

    @property
    def stop(self) -> int:
        return self.start + self.nbytes

    def overlaps(self, other: "Span") -> bool:
        """Whether they have bytes in common."""
        return self.buffer == other.buffer and self.start < other.stop and other.start < self.stop

    def covers(self, other: "Span") -> bool:
        """Whether all bytes of `other` are of this span."""
        return self.buffer == other.buffer and self.start <= other.start and other.stop <= self.stop

    def __str__(self) -> str:
        return f"{self.buffer}[{self.start}:{self.stop}]"


@dataclass(frozen=True, slots=True)
class View:
    """An array over a buffer: `start` and `strides` in bytes, strides None where it is C-contiguous."""

    buffer: str
    start: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    itemsize: int = 1

    @property
    def count(self) -> int:
        """Its elements."""
        return math.prod(self.shape)

    @property
    def span(self) -> Span:
        """All bytes from its first to its last."""
        if self.count == 0:
            return Span(self.buffer, self.start, 0)
        if self.strides is None:
            return Span(self.buffer, self.start, self.count * self.itemsize)
        ends = [(length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)]
        first = self.start + sum(end for end in ends if end < 0)
        return Span(self.buffer, first, sum(abs(end) for end in ends) + self.itemsize)

    def __str__(self) -> str:
        return f"{self.buffer}+{self.start}:{self.dtype}{list(self.shape)}"


def views(value: Any) -> Iterator[View]:
    """All views in a value, in tuples, lists and dicts too."""
    if isinstance(value, View):
        yield value
    elif type(value) in (tuple, list):
        for part in value:
            yield from views(part)
    elif type(value) is dict:
        for part in value.values():
            yield from views(part)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of the program: function(*arguments, **keywords), where a View stands for an array."""

    function: Callable[..., object]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    is_opaque: bool = False
    """what it reads and writes is not known: nothing may be moved across it"""

    @property
    def is_pure(self) -> bool:
        """Whether it may be run again: it gives the same bits for the same arguments, and does nothing but what it says
        that it writes. True of NumPy's ufuncs and copyto; another function says so itself: function.pure = True."""
        function: Any = self.function
        if isinstance(function, np.ufunc) or function is np.copyto:
            return getattr(np, function.__name__, None) is function and not self.is_opaque
        return not self.is_opaque and getattr(function, "pure", False) is True

    @property
    def import_name(self) -> str:
        """`module:name`, by which another process finds the function; ValueError if it has none."""
        module, name = getattr(self.function, "__module__", None), getattr(self.function, "__qualname__", "")
        if isinstance(self.function, np.ufunc) and getattr(np, self.function.__name__, None) is self.function:
            module, name = np.__name__, self.function.__name__  # those of NumPy 1 do not tell
        if inspect.ismethod(self.function) and not isinstance(self.function.__self__, type):
            raise ValueError(f"{name} is a method of an object, which has no name; expected a function")
        if not module or module == "__main__" or not name or "<" in name:
            text = f"{name or self.function!r} of module {module} cannot be imported by name"
            raise ValueError(f"{text}; expected a function at the top of a module that is not __main__")
        return f"{module}:{name}"

    def __str__(self) -> str:
        given = [str(value) for value in self.arguments] + [f"{key}={value}" for key, value in self.keywords.items()]
        return f"{getattr(self.function, '__qualname__', self.function)}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Collective:
    """A call of all ranks of a communicator. count: elements of one block, as HCCL counts them."""

    call: str
    """the method of Communicator: all_reduce, all_gather, ..."""
    communicator: str
    dtype: str
    count: int
    op: str = "sum"
    root: int = 0
    x: View | None = None
    out: View | None = None
    """the same as x where it is in place"""
    split: tuple[tuple[int, ...], ...] | None = None
    """calls whose blocks differ: counts and starts of x, counts and starts of out, in elements"""
    fusion: int = 1
    """as HcomAllReduce's: 0 leave it alone, 1 by the strategy, 2 with those of its fusion_id; see ge.fusion"""
    fusion_id: int = -1
    """-1 unless fusion is 2"""

    def __str__(self) -> str:
        place = "in place" if self.x == self.out else f"{self.x} -> {self.out}"
        rest = "" if self.call == "barrier" else f", {self.count} x {self.dtype}, {self.op}, root {self.root}, {place}"
        mark = {1: "", 2: f", fusion_id {self.fusion_id}"}.get(self.fusion, f", fusion {self.fusion}")
        return f"{self.call} of {self.communicator!r}{rest}{mark}"


class Message(NamedTuple):
    """One item of a transfer."""

    receives: bool
    peer: int
    view: View


@dataclass(frozen=True, slots=True)
class Transfer:
    """send, recv or batch_send_recv: messages between two ranks each, none of which waits for another."""

    call: str
    communicator: str
    messages: tuple[Message, ...]

    def __str__(self) -> str:
        items = [f"{view} {'from' if receives else 'to'} rank {peer}" for receives, peer, view in self.messages]
        return f"{self.call} of {self.communicator!r}: {'; '.join(items)}"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of bytes: rows of `nbytes` that begin a pitch after one another."""

    to: Span
    source: Span
    nbytes: int
    rows: int = 1
    to_pitch: int = 0
    source_pitch: int = 0

    def __str__(self) -> str:
        return f"copy {self.source} -> {self.to}"


@dataclass(frozen=True, slots=True)
class Memset:
    """Every byte of a span becomes `value`."""

    to: Span
    value: int

    def __str__(self) -> str:
        return f"memset {self.to} = {self.value}"


@dataclass(frozen=True, slots=True)
class Record:
    """The event is complete when all that its stream has before is done. Every event is recorded once."""

    event: int

    def __str__(self) -> str:
        return f"record event {self.event}"


@dataclass(frozen=True, slots=True)
class Wait:
    """What its stream has behind waits for the event."""

    event: int

    def __str__(self) -> str:
        return f"wait for event {self.event}"


Task = Kernel | Collective | Transfer | Copy | Memset | Record | Wait

KINDS: dict[type[Task], str] = {
    Kernel: "kernel",
    Collective: "collective",
    Transfer: "transfer",
    Copy: "copy",
    Memset: "memset",
    Record: "record",
    Wait: "wait",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A task in its place.

    id       its own for ever: passes keep it, and give new nodes new ones
    stream   0 is the one on which the graph is launched; nodes of a stream run in the order of Graph.nodes
    reads, writes   bytes of buffers that it uses; both where it updates them
    after    control edges: ids of nodes that come first, beyond those that streams and events put first
    line     `file:line` that queued it
    """

    id: int
    name: str
    stream: int
    task: Task
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    after: tuple[int, ...] = ()
    line: str = ""

    @property
    def kind(self) -> str:
        """kernel, collective, transfer, copy, memset, record or wait"""
        return KINDS[type(self.task)]

    @property
    def communicator(self) -> str | None:
        """The name of the communicator that it uses, if it does."""
        return self.task.communicator if isinstance(self.task, Collective | Transfer) else None

    @property
    def buffers(self) -> dict[str, None]:
        """The names of all buffers that it uses or is given, in order and once each."""
        task = self.task
        given = views((task.arguments, dict(task.keywords))) if isinstance(task, Kernel) else ()
        names = [*(span.buffer for span in (*self.reads, *self.writes)), *(view.buffer for view in given)]
        return dict.fromkeys(name for name in names if name)

    @property
    def is_opaque(self) -> bool:
        """Whether it may use anything: a kernel that does not say what it reads and writes."""
        return isinstance(self.task, Kernel) and self.task.is_opaque

    def __str__(self) -> str:
        after = f" after {', '.join(map(str, self.after))}" if self.after else ""
        return f"{self.id:5} s{self.stream} {self.kind:10} {self.task}{after}  ({self.line or 'unknown place'})"
