"""Falling asleep and being woken, as ascend_rt/core/wait.c does it: one poster, some waiters, one published word.

A waiter that finds the word wanting says so and sleeps while the word is what it found; the poster posts, and wakes
if somebody said so.  A wake-up is lost when a waiter sleeps and the word has come.  Nothing else would wake it (in C
a sleep is bounded, so a lost wake-up costs 50 ms; here it is for ever), so the explorer finds it as a hang.

Everything turns on the order of "I sleep" and "it has come", each stored by one side and looked at by the other:

* as a bit of the word itself, changed by read-modify-writes of one word, there is one order and nothing to get wrong;
* as a flag beside the word, each side stores one and loads the other.  A processor, x86 included, may hold a store
  back while a later load goes ahead: then both load what was there before, one sleeps and the other does not wake.

So stores here go through a buffer of their processor's own, drained at any time; locked operations, fences and calls
of the kernel (FUTEX_WAIT compares and goes to sleep in one step) wait until it is empty.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from .explore import Actor, Exploration, Operation, Program, System, Value

WORD, FLAG = "word", "flag"
Outcomes: TypeAlias = Iterable[tuple[Value, tuple[Value, ...]]]
Steps: TypeAlias = Generator[Operation, Any, Any]


class Word(NamedTuple):
    number: int
    sleepers: bool = False
    roused: bool = False  # the poster saw sleepers when it posted this, and wakes them


@dataclass(frozen=True)
class Held(Operation):
    """An operation of a processor that has a store buffer."""

    buffer: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.buffer, WORD, FLAG)

    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        raise NotImplementedError


@dataclass(frozen=True)
class PlainStore(Held):
    """The store goes to the buffer and waits there."""

    cell: str
    value: Value

    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        yield None, ((*buffer, (self.cell, self.value)), word, flag)


@dataclass(frozen=True)
class PlainLoad(Held):
    """The load finds this processor's own last store, or what the memory holds."""

    cell: str
    writes = False

    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        seen = {WORD: word, FLAG: flag, **dict(buffer)}
        yield seen[self.cell], (buffer, word, flag)


@dataclass(frozen=True)
class Drain(Held):
    """The oldest store reaches the memory."""

    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        if buffer:
            memory = {WORD: word, FLAG: flag, buffer[0][0]: buffer[0][1]}
            yield None, (buffer[1:], memory[WORD], memory[FLAG])


@dataclass(frozen=True)
class Fence(Held):
    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        if not buffer:
            yield None, (buffer, word, flag)


@dataclass(frozen=True)
class Exchange(Held):
    new: Word

    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        if not buffer:
            yield word, (buffer, self.new, flag)


@dataclass(frozen=True)
class Swap(Held):
    """Compare-and-swap of the word; observes what it held."""

    old: Word
    new: Word

    def outcomes(self, buffer: Any, word: Any, flag: Any) -> Outcomes:
        if not buffer:
            yield word, (buffer, self.new if word == self.old else word, flag)


@dataclass(frozen=True)
class FutexWait(Held):
    """Observes whether it went to sleep."""

    asleep: str
    expected: Word

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.buffer, WORD, self.asleep)

    def outcomes(self, buffer: Any, word: Any, asleep: Any) -> Outcomes:
        if not buffer:
            sleeps = word == self.expected
            yield sleeps, (buffer, word, sleeps)


@dataclass(frozen=True)
class Woken(Operation):
    """Possible once somebody has woken this waiter."""

    asleep: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.asleep,)

    def outcomes(self, asleep: Any) -> Outcomes:
        if not asleep:
            yield None, (False,)


@dataclass(frozen=True)
class FutexWake(Operation):
    """Wakes all who sleep."""

    buffer: str
    sleepers: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.buffer, *self.sleepers)

    def outcomes(self, buffer: Any, *asleep: Any) -> Outcomes:
        if not buffer:
            yield None, (buffer, *(False for _ in asleep))


Way = Literal["bit, exchange", "bit, compare-and-swap", "flag", "flag, fences"]


@dataclass(frozen=True)
class Side:
    """The poster, or one waiter, on a processor of its own."""

    buffer: str
    way: Way

    def post(self, number: int, sleepers: tuple[str, ...]) -> Steps:
        if self.way == "bit, exchange":
            before = yield Exchange(self.buffer, Word(number))
            wanted = before.sleepers
        elif self.way == "bit, compare-and-swap":
            wanted = yield from self.post_by_swap(number)
        else:
            yield PlainStore(self.buffer, WORD, Word(number))
            if self.way == "flag, fences":
                yield Fence(self.buffer)
            wanted = yield PlainLoad(self.buffer, FLAG)
        if wanted:
            yield FutexWake(self.buffer, sleepers)

    def post_by_swap(self, number: int) -> Steps:
        before = yield PlainLoad(self.buffer, WORD)
        while True:
            new = Word(number, roused=before.sleepers)
            seen = yield Swap(self.buffer, before, new)
            if seen == before:
                return new.roused
            before = seen

    def wait(self, number: int, asleep: str) -> Steps:
        while True:
            word = yield PlainLoad(self.buffer, WORD)
            if word.number >= number:
                return
            if self.way.startswith("flag"):
                yield from self.sleep_by_flag(number, asleep)
            else:
                yield from self.sleep_by_bit(word, asleep)

    def sleep_by_bit(self, word: Word, asleep: str) -> Steps:
        said = word._replace(sleepers=True)
        if word != said:
            seen = yield Swap(self.buffer, word, said)
            if seen != word:
                return
        sleeps = yield FutexWait(self.buffer, asleep, said)
        if sleeps:
            yield Woken(asleep)

    def sleep_by_flag(self, number: int, asleep: str) -> Steps:
        yield PlainStore(self.buffer, FLAG, True)
        if self.way == "flag, fences":
            yield Fence(self.buffer)
        word = yield PlainLoad(self.buffer, WORD)
        if word.number >= number:
            return
        sleeps = yield FutexWait(self.buffer, asleep, word)
        if sleeps:
            yield Woken(asleep)

    def drained(self) -> Program:
        while True:
            yield Drain(self.buffer)


def explore_waiting(way: Way, waits: tuple[tuple[int, ...], ...], posts: int) -> Exploration:
    """One poster posts 1..posts; waiter i waits for each number of waits[i], in order."""
    sleepers = tuple(f"asleep {i}" for i in range(len(waits)))
    poster = Side("buffer of the poster", way)
    waiters = [Side(f"buffer of waiter {i}", way) for i in range(len(waits))]

    def posting() -> Program:
        for number in range(1, posts + 1):
            yield from poster.post(number, sleepers)

    def waiting(waiter: Side, numbers: tuple[int, ...], asleep: str) -> Program:
        for number in numbers:
            yield from waiter.wait(number, asleep)

    actors = [Actor("poster", posting)]
    for i, waiter in enumerate(waiters):
        actors.append(Actor(f"waiter {i}", partial(waiting, waiter, waits[i], sleepers[i])))
    actors += [Actor(side.buffer, side.drained, daemon=True) for side in (poster, *waiters)]
    cells: dict[str, Value] = {WORD: Word(0), FLAG: False}
    cells |= {side.buffer: () for side in (poster, *waiters)} | dict.fromkeys(sleepers, False)
    return System(actors, cells).explore()
