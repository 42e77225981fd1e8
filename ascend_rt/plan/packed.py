"""A plan as an array of int32: the form that the native core reads and runs.

    header  ["PLAN" (0x504C414E), size, rank, chunks per block, blocks of IN, blocks of OUT, chunks of scratch, touches,
             number of steps]
    Post    [1, peer]
    Wait    [2, peer]
    Copy    [3, n, rank, buffer, chunk, rank, buffer, chunk]                destination first
    Reduce  [4, n, complete, number of dsts, number of srcs, (rank, buffer, chunk) of each dst, then of each src]

The blocks in the header are those of a rank that has the buffer, also on ranks that have none because they are not the
root. `touches` is 1 in a collective with data. `complete` is 1 if the result holds the contributions of all ranks; avg
divides there and nowhere else. Enter and leave are left out: the core runs them as the board round and as one word per
rank.
"""

import zlib
from array import array
from functools import lru_cache
from itertools import chain

from .collectives import COLLECTIVES
from .language import VERSION, Buffer, Copy, Option, Plan, Post, Reduce, Ref, Wait
from .registry import build_all
from .symbolic import completes, folds_once

MAGIC = 0x504C414E
POST, WAIT, COPY, REDUCE = 1, 2, 3, 4
_A_FEW = 4


def pack(plan: Plan) -> "array[int]":
    """The packed form of a plan that was built by the registry."""
    if not plan.spec.reduces:
        return pack_with(plan, frozenset())
    complete = _complete_steps(plan.collective, plan.algorithm, plan.size, plan.root, plan.options)
    return pack_with(plan, complete[plan.rank])


def pack_with(plan: Plan, complete: frozenset[int]) -> "array[int]":
    """The packed form; `complete` are the places in the body of the Reduce steps that see everybody's data."""
    spec, body = plan.spec, plan.body
    words = [MAGIC, plan.size, plan.rank, plan.chunks]
    words += [spec.blocks_in.number(plan.size), spec.blocks_out.number(plan.size)]
    words += [plan.scratch, int(plan.touches), len(body)]
    for number, step in enumerate(body):
        match step:
            case Post(peer):
                words += [POST, peer]
            case Wait(peer):
                words += [WAIT, peer]
            case Copy(dst, src, n):
                words += [COPY, n, *dst, *src]
            case Reduce(dsts, srcs, n):
                words += [REDUCE, n, int(number in complete), len(dsts), len(srcs), *_flat(dsts), *_flat(srcs)]
    return array("i", words)


def lent(plan: Plan) -> tuple[bytes, bytes]:
    """Which chunks of its own IN and OUT a rank lends: one byte per flat chunk, 1 if another rank loads or stores it.

    What is not lent needs not lie where others can reach it.
    """
    spec, size = plan.spec, plan.size
    marks = (
        bytearray(spec.blocks_in.number(size) * plan.chunks),
        bytearray(spec.blocks_out.number(size) * plan.chunks),
    )
    plans = build_all(plan.collective, plan.algorithm, size, plan.root, **dict(plan.options))
    for step in chain.from_iterable(other.body for other in plans if other.rank != plan.rank):
        match step:
            case Copy(dst, src, n):
                refs: tuple[Ref, ...] = (dst, src)
            case Reduce(dsts, srcs, n):
                refs = (*dsts, *srcs)
            case _:
                continue
        for rank, buffer, chunk in refs:
            if rank == plan.rank and buffer in (Buffer.IN, Buffer.OUT):
                marks[buffer][chunk : chunk + n] = b"\1" * n
    return bytes(marks[0]), bytes(marks[1])


def fingerprint(plan: Plan) -> int:
    """32 bits, equal on all ranks that run the same algorithm of the same version and, but for chance, nowhere else.

    Ranks compare it on entry. Rank and root are not part of it: the root is compared by itself.
    """
    name = f"{VERSION}/{plan.collective}/{plan.algorithm}/{plan.size}/{plan.chunks}/{plan.scratch}/{plan.options}"
    return zlib.crc32(name.encode())


@lru_cache(maxsize=1024)
def single_fold(collective: str, algorithm: str, size: int, **options: Option) -> bool:
    """Whether the algorithm folds once, in rank order, at this number of ranks. True if it does not fold at all.

    Who chooses must not have to build the plans of many ranks: more than a few say what a few say, which a test
    confirms; and what is spread over servers, which fold among themselves first, is said not to.
    """
    if any(not isinstance(value, int) and len(value) > 1 for value in options.values()):
        return not COLLECTIVES[collective].reduces
    return folds_once(build_all(collective, algorithm, min(size, _A_FEW), 0))


@lru_cache(maxsize=1024)
def _complete_steps(
    collective: str, algorithm: str, size: int, root: int, options: tuple[tuple[str, Option], ...]
) -> list[frozenset[int]]:
    return completes(build_all(collective, algorithm, size, root, **dict(options)))


def _flat(refs: tuple[Ref, ...]) -> chain[int]:
    return chain.from_iterable(refs)
