"""The language of plans: four steps, three buffers, and the builder that algorithms write with.

A plan is what ONE rank does in one collective, as a list of steps:

    Post(peer)            tell `peer` once; everything this rank did before is visible to who waits for it (release)
    Wait(peer)            wait for one more post from `peer` (acquire)
    Copy(dst, src, n)     move `n` consecutive chunks
    Reduce(dsts, srcs, n) fold the sources in the order listed, store the result to every destination

Posts and waits are tokens, matched in order per pair of ranks: the k-th Wait for a peer takes the k-th Post of that
peer. There are no tags and no choices, so one run of all plans shows what every run does (see verify.py).

A reference names a chunk of any rank's IN, OUT or SCRATCH: ranks of one server load and store each other's memory.
Ranks and roots are relative to the communicator. SCRATCH belongs to the communicator and is reused from call to call.
A Copy onto itself (OUT and IN of an in-place call are one) is no access at all: the executor skips it.

Between servers, where memory is not shared, two more steps will stand here: Send(peer, src, n) and Recv(peer, dst, n).
Packets, fusion and tiling are ways to run these steps and never become steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from .collectives import COLLECTIVES, Collective

VERSION = 1
"""Of the language: changes when the meaning of a step or of chunk numbers does. Part of every fingerprint."""


class PlanError(Exception):
    """A plan breaks a rule. The text names the rank, the step and what was expected; the algorithm is to be fixed."""


class Buffer(IntEnum):
    IN = 0
    OUT = 1
    SCRATCH = 2


class Ref(NamedTuple):
    """Flat chunk number `chunk` of a buffer of `rank` (numbered through all blocks; see chunks.py)."""

    rank: int
    buffer: Buffer
    chunk: int

    def __str__(self) -> str:
        return f"{self.buffer.name}[{self.chunk}] of rank {self.rank}"


@dataclass(frozen=True, slots=True)
class Post:
    peer: int

    def __str__(self) -> str:
        return f"Post(to rank {self.peer})"


@dataclass(frozen=True, slots=True)
class Wait:
    peer: int

    def __str__(self) -> str:
        return f"Wait(for rank {self.peer})"


@dataclass(frozen=True, slots=True)
class Copy:
    dst: Ref
    src: Ref
    n: int = 1

    def __str__(self) -> str:
        return f"Copy({self.dst} <- {self.src}, n={self.n})"

    @property
    def dsts(self) -> tuple[Ref, ...]:
        return (self.dst,)

    @property
    def srcs(self) -> tuple[Ref, ...]:
        return (self.src,)


@dataclass(frozen=True, slots=True)
class Reduce:
    dsts: tuple[Ref, ...]
    srcs: tuple[Ref, ...]
    n: int = 1

    def __str__(self) -> str:
        dsts, srcs = ", ".join(map(str, self.dsts)), " + ".join(map(str, self.srcs))
        return f"Reduce({dsts} <- {srcs}, n={self.n})"


DataStep = Copy | Reduce
Step = Post | Wait | Copy | Reduce


@dataclass(frozen=True)
class Plan:
    """What one rank does in one collective.

    chunks   chunks per block
    scratch  chunks of scratch that every rank provides, each as large as the largest chunk of a block
    options  the numbers the algorithm was built with, where it takes some
    """

    collective: str
    algorithm: str
    rank: int
    size: int
    root: int
    chunks: int
    scratch: int
    options: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]

    @property
    def spec(self) -> Collective:
        return COLLECTIVES[self.collective]

    @property
    def touches(self) -> bool:
        """Whether the plan moves data at all."""
        return any(isinstance(step, DataStep) for step in self.steps)

    @property
    def body(self) -> tuple[Step, ...]:
        """The steps between enter and leave, both of which the native core runs in its own way."""
        edge = len(everyone(self.rank, self.size))
        return self.steps[edge : len(self.steps) - edge] if self.touches else self.steps[edge:]

    def __str__(self) -> str:
        head = f"{self.collective}/{self.algorithm}, rank {self.rank} of {self.size}, {self.chunks} chunks per block"
        return "\n".join([head, *(f"{number:4} {step}" for number, step in enumerate(self.steps))])


@lru_cache(maxsize=256)
def everyone(rank: int, size: int) -> tuple[Step, ...]:
    """The steps of enter and of leave: a post to every peer, then a wait for every peer."""
    peers = [peer for peer in range(size) if peer != rank]
    return (*map(Post, peers), *map(Wait, peers))


class Builder:
    """The `p` of an algorithm: who I am, how to name chunks, and the steps as methods."""

    def __init__(self, rank: int, size: int, root: int) -> None:
        self.rank = rank
        self.size = size
        self.root = root
        self.ranks = range(size)
        self.peers = tuple(peer for peer in range(size) if peer != rank)
        self.chunks = 1
        self.scratch_chunks = 0
        self.steps: list[Step] = []

    def cut(self, chunks: int, scratch: int = 0) -> None:
        """Cut each block into `chunks` chunks and ask for `scratch` chunks of scratch: before any step, same on all."""
        if self.steps:
            raise PlanError(f"rank {self.rank}: cut({chunks}) after {len(self.steps)} steps: expected before the first")
        self.chunks = chunks
        self.scratch_chunks = scratch

    def chunk(self, index: int, block: int = 0) -> int:
        """Flat number of chunk `index` of block `block`."""
        return block * self.chunks + index

    def inp(self, rank: int, chunk: int = 0) -> Ref:
        return Ref(rank, Buffer.IN, chunk)

    def out(self, rank: int, chunk: int = 0) -> Ref:
        return Ref(rank, Buffer.OUT, chunk)

    def scratch(self, rank: int, chunk: int = 0) -> Ref:
        return Ref(rank, Buffer.SCRATCH, chunk)

    def post(self, peer: int) -> None:
        self.steps.append(Post(peer))

    def wait(self, peer: int) -> None:
        self.steps.append(Wait(peer))

    def copy(self, dst: Ref, src: Ref, n: int = 1) -> None:
        self.steps.append(Copy(dst, src, n))

    def reduce(self, dsts: Iterable[Ref], srcs: Iterable[Ref], n: int = 1) -> None:
        self.steps.append(Reduce(tuple(dsts), tuple(srcs), n))

    def enter(self) -> None:
        """Everyone is here: buffers are ready, the ranks agree on the call. First step of every plan."""
        self.steps.extend(everyone(self.rank, self.size))

    def leave(self) -> None:
        """Nobody touches my buffers any more. Last step of every plan that moves data."""
        self.steps.extend(everyone(self.rank, self.size))
