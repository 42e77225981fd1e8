"""The language of plans: four steps and three buffers. Algorithms write it with the builder (builder.py).

A plan is what ONE rank does in one collective, as a list of steps:

    Post(peer)            tell `peer` once; everything this rank did before is visible to who waits for it (release)
    Wait(peer)            wait for one more post from `peer` (acquire)
    Copy(dst, src, n)     move `n` consecutive chunks
    Reduce(dsts, srcs, n) fold the sources in the order listed, store the result to every destination

Posts and waits are tokens, matched in order per pair of ranks: the k-th Wait for a peer takes the k-th Post of that
peer. There are no tags and no choices, so one run of all plans shows what every run does (see verify.py).

A reference names a chunk of any rank's IN, OUT or SCRATCH: ranks of one server load and store each other's memory.
All places of a step have one length, that of its chunks of IN or OUT; from scratch to scratch it is all of a chunk.

Ranks and roots are relative to the communicator. SCRATCH belongs to the communicator and is reused from call to call.
A Copy onto itself (OUT and IN of an in-place call are one) is no access at all: the executor skips it.

Between servers, where memory is not shared, two more steps will stand here: Send(peer, src, n) and Recv(peer, dst, n).
Packets, fusion and tiling are ways to run these steps and never become steps.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from .collectives import COLLECTIVES, Blocks, Collective

VERSION = 1
"""Of the language: changes when the meaning of a step or of chunk numbers does. Part of every fingerprint."""


Groups = tuple[tuple[int, ...], ...]
"""The ranks of a communicator in groups: those of one server each."""

Option = int | Groups
"""What an algorithm can be tuned with."""


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
    options  what the algorithm was built with, where it can be tuned
    """

    collective: str
    algorithm: str
    rank: int
    size: int
    root: int
    chunks: int
    scratch: int
    options: tuple[tuple[str, Option], ...]
    steps: tuple[Step, ...]

    @property
    def spec(self) -> Collective:
        return COLLECTIVES[self.collective]

    @property
    def touches(self) -> bool:
        """Whether ranks use one another's buffers in this call, though perhaps not this one, and not its own."""
        return self.spec.blocks_out is not Blocks.NONE

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
