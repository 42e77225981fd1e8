"""How long a call takes where each two ranks have a link of its own speed (emulated ones: docs/links.md).

The plans of all ranks are run with a clock for each rank and each direction of each link. A step handles memory, which
takes what model.py says; its bytes are on their links meanwhile, behind what these carry already, and arrive a latency
after the last of them has left. Before a rank posts, and at the end, it sleeps until all that it has moved is there.

    direction free = max(direction free, begin of the step) + bytes / rate
    clock          = max(begin of the step + memory, direction free + latency)

Where all links are alike the mesh wins nearly everywhere, as on shared memory. Where some are slower, an algorithm that
moves little over them does.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from .choice import Choice, Row
from .collectives import COLLECTIVES
from .cost import links_of
from .language import Option, Post, Wait
from .model import Machine
from .registry import build_all
from .symbolic import run

Wires = Sequence[Sequence[tuple[float, int]]]
"""By rank and peer: nanoseconds per byte and of latency; zeros where memory is all that limits."""

LATE_US = 15.0
"""By which a sleep ends late."""
SLEEP_US, WAIT_US, MEETING_US = 8.0, 2.0, 20.0
"""Of a core, where ranks outnumber the cores: for a sleep until a link has brought what it carries, for one until
another rank posts, and for a rank's entering and leaving. Fitted to calls of 4 and 8 ranks on a host with two cores."""
LEAST_GAIN = 0.9
"""Of the default's time, below which another algorithm is taken: predictions are no better."""

Options = tuple[tuple[str, Option], ...]


class _Move(NamedTuple):
    """What a step does; bytes as parts of the larger buffer."""

    links: tuple[tuple[int, int], ...]
    part: float
    touched: int
    folded: int


_Event = tuple[int, Post | Wait | _Move]


@dataclass
class _Run:
    """Clocks in microseconds: of ranks, of what they have moved, and of the directions of links."""

    wires: Wires
    wait_us: float
    size: int

    def __post_init__(self) -> None:
        self.clock, self.due = [0.0] * self.size, [0.0] * self.size
        self.sleeps_us = 0.0
        """what sleeping and waking take of a core, over all ranks"""
        self._free: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._posted: defaultdict[tuple[int, int], deque[float]] = defaultdict(deque)

    def settle(self, rank: int) -> float:
        """The rank sleeps until all that it has moved is there."""
        if self.clock[rank] < self.due[rank]:
            self.clock[rank] = self.due[rank] + LATE_US
            self.sleeps_us += SLEEP_US
        return self.clock[rank]

    def post(self, rank: int, peer: int) -> None:
        self._posted[rank, peer].append(self.settle(rank))

    def wait(self, rank: int, peer: int) -> None:
        came = self._posted[peer, rank].popleft()
        self.sleeps_us += WAIT_US * (came > self.clock[rank])
        self.clock[rank] = max(self.clock[rank], came) + self.wait_us

    def move(self, rank: int, links: Sequence[tuple[int, int]], nbytes: float, memory_us: float) -> None:
        for link in links:
            ns_per_byte, latency_ns = self.wires[link[0]][link[1]]
            if ns_per_byte:
                free = max(self._free[link], self.clock[rank]) + nbytes * ns_per_byte / 1e3
                self._free[link], self.due[rank] = free, max(self.due[rank], free + latency_ns / 1e3)
        self.clock[rank] += memory_us


def linked_us(machine: Machine, wires: Wires, row: Row, nbytes: int, root: int = 0) -> float:
    """Microseconds of a call of all ranks with blocks of `nbytes` bytes by the algorithm of a row, over such links."""
    size, constants = len(wires), machine.constants
    total = nbytes * COLLECTIVES[row.collective].blocks(size)
    events = _events(row.collective, row.algorithm, size, root, row.options)
    movers = {rank for rank, event in events if isinstance(event, _Move)}
    crowd = max(1.0, len(movers) / machine.cores)
    run = _Run(wires, constants.alpha_us if size <= machine.cores else constants.switch_us, size)
    for rank, event in events:
        if isinstance(event, Post):
            run.post(rank, event.peer)
        elif isinstance(event, Wait):
            run.wait(rank, event.peer)
        else:
            handled_us = event.touched * constants.beta_us_per_byte + event.folded * constants.gamma_us_per_byte
            moved = event.part * total
            run.move(rank, event.links, moved, crowd * moved * handled_us)
    end = max(map(run.settle, range(size)))
    return end if size <= machine.cores else end + (MEETING_US * size + run.sleeps_us) / machine.cores


def fastest(machine: Machine, wires: Wires, rows: Sequence[Row], nbytes: int, root: int = 0) -> Choice:
    """The row by which a call of some bytes per block is predicted to take least over such links, with its range.

    The first row is the default: another one takes its place where it is predicted to need less than 0.9 of its time.
    Times are compared once for each quarter of an octave of bytes, for all calls in it.
    """
    lo, hi = _quarter_octave(nbytes)
    at = (lo + hi) // 2
    times = [linked_us(machine, wires, row, at, root) for row in rows]
    best = min(range(len(rows)), key=lambda number: times[number])
    taken = best if times[best] < LEAST_GAIN * times[0] else 0
    return Choice(replace(rows[taken], at_nbytes=at, predicted_us=times[taken]), lo, hi)


def _quarter_octave(nbytes: int) -> tuple[int, int]:
    """The bytes that share a comparison, both ends included."""
    if nbytes < 16:
        return nbytes, nbytes
    width = 1 << (nbytes.bit_length() - 3)
    lo = nbytes // width * width
    return lo, lo + width - 1


@lru_cache(maxsize=512)
def _events(collective: str, algorithm: str, size: int, root: int, options: Options) -> tuple[_Event, ...]:
    """The steps of all ranks in an order in which they can run."""
    plans = build_all(collective, algorithm, size, root, **dict(options))
    chunks = plans[0].chunks * max(COLLECTIVES[collective].blocks(size), 1)
    bodies = [plan.body for plan in plans]
    found: list[_Event] = []
    for rank, number in run(bodies):
        step = bodies[rank][number]
        if isinstance(step, Post | Wait):
            found.append((rank, step))
            continue
        handled = len(step.srcs) + len(step.dsts), len(step.srcs) - 1
        found.append((rank, _Move(tuple(links_of(rank, step)), step.n / chunks, *handled)))
    return tuple(found)
